"""Real processes for tests: a `ProcessGroup` starts them, exchanges messages with them, and leaves none behind.

A member is a function of some module, run in a new interpreter. Messages are JSON, one value per line: the test calls
`send` and `receive` on the `Member`, and the function calls them on the `Controller` that it gets. The return value of
the function is its last message. A member never outlives the test: the `with` block kills it, or the kernel does if
the test process dies first.
"""

from __future__ import annotations

import ctypes
import fcntl
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
    """Open the store at a PostgreSQL URL or at the path of a SQLite file."""
    if url.startswith("postgresql:"):
        return PostgresStore(url, clock=clock, connections=2)
    return SQLiteStore(url, clock=clock)


def until(condition: Callable[[], bool], what: str, within: float = PATIENCE_SECONDS) -> None:
    """Poll until the condition is true. Fail if it is not in time."""
    give_up_at = time.monotonic() + within
    while not condition():
        assert time.monotonic() < give_up_at, f"not true after {within} s: {what}"
        time.sleep(0.01)


class Lines:
    """The lines from a pipe, read as they arrive, so that the writer never blocks."""

    def __init__(self, source: TextIO) -> None:
        self._lines: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._read, args=(source,), daemon=True)
        self._thread.start()

    def get(self, timeout: float | None) -> object:
        """Return the next line, or `_OVER` at the end. Raise `queue.Empty` after the timeout."""
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
    """A process of a group, as the test sees it."""

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

    def send(self, value: Any = None) -> None:
        """Send a message to the process. It is dropped if the process has ended."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(value) + "\n")
            self._process.stdin.flush()

    def receive(self, within: float = PATIENCE_SECONDS) -> Any:
        """Return the next message of the process. Fail if it ended with an error, or sends nothing in time."""
        try:
            line = self._lines.get(within)
        except queue.Empty:
            raise AssertionError(f"{self._name} sent nothing for {within} s{self._complaint()}") from None
        assert isinstance(line, str), f"{self._name} ended with {self._process.wait()}{self._complaint()}"
        return json.loads(line)

    def kill(self) -> None:
        """Kill the process, as a crash would. What it sent before can still be received."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """Kill the process and close its pipes."""
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


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold a lock that all processes of the run know by the path of its file."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class ProcessGroup:
    """Starts processes. The end of the `with` block kills those that still run."""

    def __init__(self) -> None:
        self._members: list[Member] = []

    def start(self, function: Callable[..., Any], **arguments: Any) -> Member:
        """Run `function(test, **arguments)` in another process, which imports it by module and name."""
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

    def send(self, value: Any = None) -> None:
        """Send a message to the test."""
        self._outlet.write(json.dumps(value) + "\n")
        self._outlet.flush()

    def receive(self) -> Any:
        """Wait for the next message of the test and return it."""
        line = self._lines.get(None)
        if not isinstance(line, str):
            raise SystemExit("the test has gone")
        return json.loads(line)

    @property
    def has_message(self) -> bool:
        """Whether a message of the test is waiting."""
        return self._lines.waiting


def _main(name: str, arguments: str, parent: str) -> int:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        return 1  # The test died before the call above.
    module, _, function = name.partition(":")
    outlet = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Output of libraries goes to the error text, not to the test.
    try:
        test = Controller(sys.stdin, outlet)
        test.send(getattr(importlib.import_module(module), function)(test, **json.loads(arguments)))
    except Exception:  # noqa: BLE001 - the process ends, so print whatever was raised
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    # The last message is sent and every store is closed. Do not wait for the thread that reads the pipe.
    _status = _main(*sys.argv[1:])
    sys.stderr.flush()
    os._exit(_status)
