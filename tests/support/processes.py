"""Real processes for tests: a `Crew` starts them, speaks with them line by line, and leaves none behind.

A member is a function of some module, run in a fresh interpreter. Both ends speak JSON, one value a line: the test
calls `say` and `hear` on the `Member`, the function the same on the `Controller` that it is given; what the function
returns is the last thing that is heard. Whatever happens to the test, a member ends with it: killed by the `with`
block, or by the kernel should the test's own process die first.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TextIO

from windlass.clock import Clock
from windlass.stores.postgres import PostgresStore
from windlass.stores.protocol import Store
from windlass.stores.sqlite import SQLiteStore

PATIENCE_SECONDS = 60.0
ROOT = Path(__file__).parents[2]
_PR_SET_PDEATHSIG = 1
_OVER = object()


def open_store(url: str, clock: Clock | None = None) -> Store:
    """The store at an address: a PostgreSQL URL, or the path of a SQLite file."""
    if url.startswith("postgresql:"):
        return PostgresStore(url, clock=clock, connections=2)
    return SQLiteStore(url, clock=clock)


def until(condition: Callable[[], bool], what: str, within: float = PATIENCE_SECONDS) -> None:
    """Wait for something that gives no sign of itself; fail when it has not come true in time."""
    give_up_at = time.monotonic() + within
    while not condition():
        assert time.monotonic() < give_up_at, f"after {within} s still not so: {what}"
        time.sleep(0.01)


class Lines:
    """What comes in over a pipe, read as it comes, so that nobody who writes has to wait."""

    def __init__(self, source: TextIO) -> None:
        self._lines: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._read, args=(source,), daemon=True)
        self._thread.start()

    def get(self, timeout: float | None) -> object:
        """The next line, or `_OVER` when nothing more will come. Raises `queue.Empty`."""
        line = self._lines.get(timeout=timeout)
        if line is _OVER:
            self._lines.put(_OVER)
        return line

    def join(self) -> None:
        self._thread.join()

    @property
    def waiting(self) -> bool:
        return not self._lines.empty()

    def _read(self, source: TextIO) -> None:
        for line in source:
            self._lines.put(line)
        self._lines.put(_OVER)


class Member:
    """A process of a crew, as the test sees it."""

    def __init__(self, function: str, arguments: dict[str, Any]) -> None:
        self._name = function
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by `end`
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.processes", function, json.dumps(arguments), str(os.getpid())],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        assert self._process.stdout is not None
        self._lines = Lines(self._process.stdout)

    @property
    def pid(self) -> int:
        return self._process.pid

    def say(self, value: Any = None) -> None:
        """Tell the process something. One that has ended no longer hears it."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(value) + "\n")
            self._process.stdin.flush()

    def hear(self, within: float = PATIENCE_SECONDS) -> Any:
        """The next thing the process says; a process that ended badly, or says nothing in time, fails the test."""
        try:
            line = self._lines.get(within)
        except queue.Empty:
            raise AssertionError(f"{self._name} said nothing for {within} s{self._complaint()}") from None
        assert isinstance(line, str), f"{self._name} ended with {self._process.wait()}{self._complaint()}"
        return json.loads(line)

    def kill(self) -> None:
        """End the process as a crash would: at once, whatever it is doing. What it said before can still be heard."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """Leave nothing of the process behind."""
        self.kill()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._lines.join()
        self._process.stdout.close()
        self._errors.close()

    def _complaint(self) -> str:
        self._errors.seek(0)
        return ":\n" + self._errors.read()


class Crew:
    """Starts processes; the end of the `with` block kills whichever of them still runs."""

    def __init__(self) -> None:
        self._members: list[Member] = []

    def start(self, function: Callable[..., Any], **arguments: Any) -> Member:
        """Run `function(test, **arguments)` in a process of its own. It is found by its module and name."""
        self._members.append(Member(f"{function.__module__}:{function.__name__}", arguments))
        return self._members[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self._members:
            member.end()


class Controller:
    """The test, as one of its processes sees it."""

    def __init__(self, inlet: TextIO, outlet: TextIO) -> None:
        self._lines = Lines(inlet)
        self._outlet = outlet

    def say(self, value: Any = None) -> None:
        """Tell the test something."""
        self._outlet.write(json.dumps(value) + "\n")
        self._outlet.flush()

    def hear(self) -> Any:
        """The next thing the test says, however long that takes."""
        line = self._lines.get(None)
        if not isinstance(line, str):
            raise SystemExit("the test has gone")
        return json.loads(line)

    @property
    def has_spoken(self) -> bool:
        """Whether there is something to hear."""
        return self._lines.waiting


def _main(name: str, arguments: str, parent: str) -> int:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        return 1  # It died before the line above could tie us to it.
    module, _, function = name.partition(":")
    outlet = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What a library prints is for the complaint, not for the test's ears.
    try:
        test = Controller(sys.stdin, outlet)
        test.say(getattr(importlib.import_module(module), function)(test, **json.loads(arguments)))
    except Exception:  # noqa: BLE001 - the end of the process: whoever reads its errors must see this
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    # The last words are out and every store is closed; the thread that reads the pipe need not be waited for.
    _status = _main(*sys.argv[1:])
    sys.stderr.flush()
    os._exit(_status)
