"""The app of the chaos run: every attempt appends what it did to a file, in the format of the checker."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import time
from datetime import timedelta

import windlass
from windlass.core.retry import Retry

app = windlass.App()
EFFECTS = "WINDLASS_CHAOS_EFFECTS"
_COUNTER_BITS = 40


@app.task(
    name="chaos.step",
    retry=Retry(retries=8, base=timedelta(seconds=0.1), cap=timedelta(seconds=1)),
    timeout="3s",
    max_crashes=8,
)
def step(number: int, seconds: float, trouble: str, before: list[int]) -> int:
    """Add up the results of the steps before, after some trouble on the first lease."""
    context = windlass.current()
    process, began = f"{socket.gethostname()}:{os.getpid()}", time.time()
    _append(task=str(context.task_id), fence=context.fence, process=process, start=began)
    is_first = context.fence & ((1 << _COUNTER_BITS) - 1) == 1
    if trouble == "poison" or (is_first and trouble == "exit"):
        os._exit(3)
    if is_first and trouble == "segfault":
        ctypes.string_at(0)
    if is_first and trouble == "hang":
        time.sleep(60)  # Its timeout kills it.
    if is_first and trouble == "raise":
        raise ConnectionError("the first call fails")
    time.sleep(seconds)
    _append(task=str(context.task_id), fence=context.fence, process=process, start=began, end=time.time())
    return number + sum(before)


def _append(**effect: object) -> None:
    """Append one line. A single write with O_APPEND is atomic."""
    file = os.open(os.environ[EFFECTS], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, json.dumps({"type": "effect", **effect}).encode() + b"\n")
    finally:
        os.close(file)
