"""The worker parent as its node sees it: a child program on a socket that forks workers on request."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from windlass.clock import Clock
from windlass.worker.connection import Connection
from windlass.worker.wire import EndStray, Fork, FromParent, Kill

HIDDEN = ("WINDLASS_URL", "WINDLASS_LISTEN_URL", "DATABASE_URL", "PGPASSWORD", "PGSERVICE", "PGPASSFILE")
"""Environment variables that workers see only with `--pass-store-url`: a handler should not use the store itself."""


class Imports(msgspec.Struct, frozen=True):
    """What the worker parent imports."""

    app: str
    """The app, as in `shop:app`."""
    path: tuple[str, ...] = ()
    """Its import path; empty for the default and the current directory."""
    modules: tuple[str, ...] = ()
    """Modules to import after the app."""


class ParentClient:
    """One worker parent process."""

    def __init__(self, imports: Imports, environment: Mapping[str, str], clock: Clock) -> None:
        mine, theirs = socket.socketpair()
        encoded = msgspec.json.encode(imports).decode()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "windlass.worker.worker_parent", str(theirs.fileno()), encoded],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=environment,
                process_group=0,  # Ctrl-C in the terminal is for the node only.
            )
        self.connection: Connection[FromParent] = Connection(mine, FromParent, clock)

    def fork(self, worker: int, threads: int, end: socket.socket, tickets: int) -> None:
        """Fork a worker with this socket and this end of its ticket queue. Both are closed here once sent."""
        self.connection.send(Fork(worker, threads), end.detach(), tickets)

    def kill(self, worker: int) -> None:
        """Kill the process group of a worker."""
        self.connection.send(Kill(worker))

    def end_stray(self, pid: int) -> None:
        """Kill a process that was reported as a stray."""
        self.connection.send(EndStray(pid))

    def wake(self) -> None:
        """Continue the process if it was stopped, for example by a handler: it forks and reports nothing meanwhile."""
        with suppress(ChildProcessError):  # It has ended, which its socket shows.
            if os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOHANG) is not None:
                self.process.send_signal(signal.SIGCONT)

    def close(self) -> int:
        """Close the socket, which ends the process and its workers. Return the exit status."""
        self.connection.close()
        try:
            return self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def hide_store_url(environment: Mapping[str, str], store_url: str) -> dict[str, str]:
    """Return the environment without the variables that contain the URL of the store."""
    return {
        name: value
        for name, value in environment.items()
        if name not in HIDDEN and not (len(store_url) > len("sqlite:///") and store_url in value)
    }


def parent_environment(store_url: str, *, pass_store_url: bool) -> dict[str, str]:
    """Return the environment of the worker parent."""
    found = dict(os.environ) if pass_store_url else hide_store_url(os.environ, store_url)
    return {**found, "WINDLASS_NODE_PID": str(os.getpid())}


def describe_hidden(environment: Mapping[str, str]) -> str:
    """Return a hint about hidden variables, for an app that could not be imported."""
    hidden = sorted(os.environ.keys() - environment.keys())
    if not hidden:
        return ""
    return f"Workers do not see {', '.join(hidden)}, to hide the store's URL. Use --pass-store-url to pass them.\n"
