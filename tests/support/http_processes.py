"""Real servers and HTTP workers for tests and benchmarks, each a process that can be killed and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.support.processes import ROOT, until
from tests.support.servers import HOST, free_port

LOOK_SECONDS = 0.1
"""How often a supervisor looks."""


class Restartable:
    """One command. Leaving the `with` block kills it."""

    def __init__(self, log: Path, command: Sequence[str], **variables: str) -> None:
        self.log_path = log
        self._command = command
        self._variables: Mapping[str, str] = variables
        self.process: subprocess.Popen[bytes]
        self.start()

    def start(self) -> None:
        """Start it, for the first time or again."""
        with self.log_path.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *self._command],
                cwd=ROOT,
                env={**os.environ, **self._variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """Kill it, as a crash would."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Supervisor(threading.Thread):
    """Starts processes again as soon as they have ended, until the `with` block ends."""

    def __init__(self, processes: Sequence[Restartable]) -> None:
        super().__init__(daemon=True)
        self._processes = processes
        self._is_over = threading.Event()

    def run(self) -> None:
        while not self._is_over.wait(LOOK_SECONDS):
            for process in self._processes:
                if not process.is_running:
                    process.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self.join()


class ServerProcess(Restartable):
    """`windlass server` on a port that stays the same over restarts."""

    def __init__(self, url: str, log: Path, port: int | None = None) -> None:
        port = free_port() if port is None else port
        self.address = f"http://{HOST}:{port}"
        super().__init__(log, ["windlass", "server", "--port", str(port)], WINDLASS_URL=url)

    def await_ready(self, within: float = 60) -> None:
        """Wait until it can serve requests."""
        until(self._is_ready, f"{self.address} is ready", within)

    def _is_ready(self) -> bool:
        try:
            urllib.request.urlopen(f"{self.address}/readyz", timeout=5).close()
        except (urllib.error.URLError, OSError):
            return False
        return True


class HttpWorkerProcess(Restartable):
    """`tests.support.http_worker`."""

    def __init__(
        self, address: str, token: str, log: Path, name: str, queue: str, ttl: float, handlers: str, **variables: str
    ) -> None:
        self.name = name
        command = ["tests.support.http_worker", address, name, queue, f"{ttl:g}", handlers]
        super().__init__(log, command, WINDLASS_TOKEN=token, **variables)
