"""Real nodes for tests: `windlass worker` in a process of its own, and what its handlers did."""

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
"""Seconds in which whatever a test waits for should have come true, however busy the machine."""


def as_given(url: str) -> str:
    """The address of a store as the command line takes it; tests name a SQLite file by its path."""
    return url if "://" in url else f"sqlite:///{url}"


class NodeProcess:
    """One `windlass worker`. Leaving the `with` block kills it and everything below it."""

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
        """What the node has said about events of this kind."""
        found: list[dict[str, Any]] = []
        for line in self.log.splitlines():
            with suppress(json.JSONDecodeError):
                said = json.loads(line)
                if isinstance(said, dict) and said.get("event") == name:
                    found.append(said)
        return found

    def await_workers(self, number: int = 1) -> None:
        """Until so many workers have been ready at some time."""
        until(lambda: len(self._ready()) >= number, f"{number} workers are ready")

    def workers(self) -> list[psutil.Process]:
        """The workers that live now."""
        nursery = psutil.Process(self.pid).children()
        return [child for parent in nursery for child in parent.children()]

    def worker_parent(self) -> psutil.Process:
        [nursery] = psutil.Process(self.pid).children()
        return nursery

    def descendants(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self.pid).children(recursive=True)
        return []

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it as a crash would."""
        self.send(signal.SIGKILL)
        self.process.wait()

    def await_event(self, name: str, number: int = 1, within: float = PATIENCE) -> list[dict[str, Any]]:
        """Wait until the node has said so often that this happened."""
        until(lambda: len(self.events(name)) >= number, f"{number} times {name}", within)
        return self.events(name)

    def terminate(self, within: float = 60) -> int:
        """Drain it; its exit status."""
        self.send(signal.SIGTERM)
        return self.process.wait(within)

    def _ready(self) -> list[dict[str, Any]]:
        return [
            said
            for said in self.events("WorkerStateChanged")
            if said["before"] == "starting" and said["after"] == "idle"
        ]


def read_effects(path: Path, what: str | None = None) -> list[dict[str, Any]]:
    """What handlers have said they did."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [line for line in map(json.loads, lines) if what in (None, line["what"])]


def await_effect(path: Path, what: str, number: int = 1, within: float = 60) -> list[dict[str, Any]]:
    """Wait until handlers have said this so often."""
    until(lambda: len(read_effects(path, what)) >= number, f"{number} times {what}", within)
    return read_effects(path, what)


def at(said: dict[str, Any]) -> float:
    """When a handler said it, on the machine's steady clock, which all processes share."""
    return said["at"]


@contextmanager
def stopped(*pids: int) -> Iterator[None]:
    """Processes that stand still, as on a machine that is paused, until the end of the block."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def gone(pid: int) -> bool:
    """Whether no such process runs; one that only waits to be buried has gone."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
