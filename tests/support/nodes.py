"""Real nodes for tests: `windlass worker` in another process, and the effects that its handlers record."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import psutil

from tests.support.processes import ROOT, until

PATIENCE = 30.0
"""How many seconds a test waits for something to happen, also on a busy machine."""


def as_given(url: str) -> str:
    """Return the URL of a store for the command line. Tests name a SQLite file by its path."""
    return url if "://" in url else f"sqlite:///{url}"


class NodeProcess:
    """One `windlass worker`. Leaving the `with` block kills it and its descendants."""

    def __init__(self, url: str, effects: Path, *flags: str, app: str = "tests.e2e.shop:app", **variables: str) -> None:
        self.log_path = effects.with_name(f"node-{time.monotonic_ns()}.log")
        environment = {**os.environ, "WINDLASS_URL": url, "WINDLASS_EFFECTS": str(effects), **variables}
        with self.log_path.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "windlass", "worker", app, *flags],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        descendants = self.descendants()
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        for process in descendants:
            with suppress(psutil.NoSuchProcess):
                process.kill()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the events of this name that the node has logged."""
        found: list[dict[str, Any]] = []
        for line in self.log.splitlines():
            with suppress(json.JSONDecodeError):
                event = json.loads(line)
                if isinstance(event, dict) and event.get("event") == name:
                    found.append(event)
        return found

    def await_workers(self, number: int = 1) -> None:
        """Wait until this many workers were ready at some time."""
        until(lambda: len(self._ready()) >= number, f"{number} workers are ready")

    def workers(self) -> list[psutil.Process]:
        """Return the workers that run now."""
        return [child for parent in psutil.Process(self.pid).children() for child in parent.children()]

    def worker_parent(self) -> psutil.Process:
        [parent] = psutil.Process(self.pid).children()
        return parent

    def descendants(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self.pid).children(recursive=True)
        return []

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """Kill the node, as a crash would."""
        self.send(signal.SIGKILL)
        self.process.wait()

    def await_event(self, name: str, number: int = 1, within: float = PATIENCE) -> list[dict[str, Any]]:
        """Wait until the node has logged this many events of this name. Return them."""
        until(lambda: len(self.events(name)) >= number, f"{number} times {name}", within)
        return self.events(name)

    def terminate(self, within: float = 60) -> int:
        """Drain the node and return its exit status."""
        self.send(signal.SIGTERM)
        return self.process.wait(within)

    def _ready(self) -> list[dict[str, Any]]:
        return [
            each
            for each in self.events("WorkerStateChanged")
            if each["before"] == "starting" and each["after"] == "idle"
        ]


def read_effects(path: Path, what: str | None = None) -> list[dict[str, Any]]:
    """Return the effects that handlers have recorded. A line that is still being written is left out."""
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [line for line in map(json.loads, lines) if what in (None, line["what"])]


def await_effect(path: Path, what: str, number: int = 1, within: float = 60) -> list[dict[str, Any]]:
    """Wait until handlers have recorded this effect this many times. Return them."""
    until(lambda: len(read_effects(path, what)) >= number, f"{number} times {what}", within)
    return read_effects(path, what)


def at(effect: dict[str, Any]) -> float:
    """Return when a handler recorded an effect, on the monotonic clock that all processes share."""
    return effect["at"]


@contextmanager
def stopped(*pids: int) -> Iterator[None]:
    """Stop processes during the block, as on a paused machine."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def gone(pid: int) -> bool:
    """Return True if no such process runs. A zombie does not run."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
