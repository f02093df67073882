"""The app of the chaos run: every attempt appends what it did to a file, in the format of the checker.

Nodes run these handlers, and so do workers that speak HTTP. Some tasks are planned to cause trouble: F20 to F23 and
F37 of the list of faults are here, not in the nemesis.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import windlass
from windlass.core.retry import Retry

app = windlass.App()
EFFECTS = "WINDLASS_CHAOS_EFFECTS"
BOOT = "WINDLASS_CHAOS_BOOT"
"""The wall-clock time of the boot. The wall clock of a node may be wrong; the clock that counts from boot is not."""
SERVICE = "WINDLASS_CHAOS_SERVICE"
DOWNSTREAM = "chaos-service"
TROUBLES = ("raise", "exit", "segfault", "hang", "memory", "children", "poison")
REMOTE_TROUBLES = ("raise", "exit")
"""What a worker that speaks HTTP survives, or is started again after."""
MODULUS = 1_000_003
QUICK = Retry(retries=8, base=timedelta(seconds=0.1), cap=timedelta(seconds=1))
PATIENT = Retry(retries=40, base=timedelta(seconds=0.5), cap=timedelta(seconds=2))


def add_up(number: int, before: list[int]) -> int:
    """Return the result of a step."""
    return (number + sum(before)) % MODULUS


@app.task(name="chaos.step", retry=QUICK, timeout="3s", max_crashes=8)
def step(number: int, seconds: float, trouble: str, before: list[int]) -> int:
    """Add up the results of the steps before, after some trouble on the first run."""
    context = windlass.current()
    return run_step(str(context.task_id), context.fence, number, seconds, trouble, before)


@app.task(name="chaos.call", queue="light", retry=PATIENT, timeout="3s", max_crashes=8, downstream=DOWNSTREAM)
def call(number: int, seconds: float, trouble: str, before: list[int]) -> int:
    """Call a service that is down at times."""
    context = windlass.current()
    with recorded(str(context.task_id), context.fence):
        urllib.request.urlopen(os.environ[SERVICE], timeout=2).close()
    return add_up(number, before)


@app.cron("*/2 * * * * *", queue="light", retry=QUICK, max_crashes=8)
def tick() -> None:
    """Run every other second."""
    with recorded(str(windlass.current().task_id), windlass.current().fence):
        pass


def run_step(task: str, fence: int, number: int, seconds: float, trouble: str, before: list[int]) -> int:
    """Run a step, in a worker of a node or in one that speaks HTTP."""
    with recorded(task, fence):
        if trouble == "poison":
            os._exit(3)
        if trouble and _is_first(task):
            TROUBLE[trouble]()
        time.sleep(seconds)
    return add_up(number, before)


REMOTE: Mapping[str, Callable[[dict[str, Any]], int]] = {
    "chaos.step": lambda order: run_step(order["task"], order["fence"], **order["args"])
}
"""The handlers of workers that speak HTTP."""


@contextmanager
def recorded(task: str, fence: int) -> Iterator[None]:
    """Record that a handler begins and, unless it raises or dies, that it ends."""
    process, began = f"{socket.gethostname()}:{os.getpid()}", now()
    _append(task=task, fence=fence, process=process, start=began)
    yield
    _append(task=task, fence=fence, process=process, start=began, end=now())


def now() -> float:
    """Return the wall-clock time as the runner sees it."""
    return float(os.environ[BOOT]) + time.clock_gettime(time.CLOCK_BOOTTIME)


def _is_first(task: str) -> bool:
    """Return True for the first run of a task, anywhere."""
    seen = Path(os.environ[EFFECTS]).with_name("seen")
    seen.mkdir(exist_ok=True)
    try:
        (seen / task).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _fail() -> None:
    raise ConnectionError("the first call fails")


def _eat_memory() -> None:
    """F20: more memory than the process may have."""
    limit = 2 << 30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    _ = bytearray(limit)


def _leave_children() -> None:
    """F22: processes that outlive the attempt, one of them in a session of its own, and a closed standard output."""
    for alone in (False, True):
        subprocess.Popen(["sleep", "600"], start_new_session=alone)
    sys.stdout.close()


TROUBLE: Mapping[str, Callable[[], Any]] = {
    "raise": _fail,
    "exit": lambda: os._exit(3),
    "segfault": lambda: ctypes.string_at(0),
    "hang": lambda: time.sleep(60),  # Its timeout kills it.
    "memory": _eat_memory,
    "children": _leave_children,
}


def _append(**effect: object) -> None:
    """Append one line. A single write with O_APPEND is atomic."""
    file = os.open(os.environ[EFFECTS], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, json.dumps({"type": "effect", **effect}).encode() + b"\n")
    finally:
        os.close(file)
