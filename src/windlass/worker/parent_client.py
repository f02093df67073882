"""The nursery as its node sees it: a child program at the end of a socket, which forks workers on request."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from windlass.worker.connection import Connection
from windlass.worker.wire import EndStray, Fork, FromParent, Kill

HIDDEN = ("WINDLASS_URL", "WINDLASS_LISTEN_URL", "DATABASE_URL", "PGPASSWORD", "PGSERVICE", "PGPASSFILE")
"""What workers do not see unless they may: a handler has no business with the store itself."""


class Imports(msgspec.Struct, frozen=True):
    """What the nursery imports."""

    app: str
    """Where the app is, as in `shop:app`."""
    path: tuple[str, ...] = ()
    """Its import path; empty for the usual one and the current directory."""
    modules: tuple[str, ...] = ()
    """Modules that it imports after the app."""


class ParentClient:
    """One nursery process."""

    def __init__(self, imports: Imports, environment: Mapping[str, str]) -> None:
        mine, theirs = socket.socketpair()
        encoded = msgspec.json.encode(imports).decode()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "windlass.worker.worker_parent", str(theirs.fileno()), encoded],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=environment,
                process_group=0,  # Ctrl-C in the terminal is for the node alone.
            )
        self.line: Connection[FromParent] = Connection(mine, FromParent)

    def fork(self, worker: int, threads: int, end: socket.socket, tickets: int) -> None:
        """Fork a worker with this socket and this end of its queue of tickets, which are the nursery's from now on."""
        self.line.send(Fork(worker, threads), end.detach(), tickets)

    def kill(self, worker: int) -> None:
        """Have a worker's process group killed."""
        self.line.send(Kill(worker))

    def end_stray(self, pid: int) -> None:
        """Have a process killed that was reported as a stray."""
        self.line.send(EndStray(pid))

    def wake(self) -> None:
        """Let it go on if it was stopped, as by a handler: nothing is forked, killed or reported meanwhile."""
        with suppress(ChildProcessError):  # It has ended: whoever reads its socket sees that.
            if os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOHANG) is not None:
                self.process.send_signal(signal.SIGCONT)

    def close(self) -> int:
        """Hang up, which ends it and every worker; its exit status."""
        self.line.close()
        try:
            return self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def without_store_url(environment: Mapping[str, str], store_url: str) -> dict[str, str]:
    """The environment of workers: without the store's URL, under whatever name it stands."""
    return {
        name: value
        for name, value in environment.items()
        if name not in HIDDEN and not (len(store_url) > len("sqlite:///") and store_url in value)
    }


def own_environment(store_url: str, *, pass_store_url: bool) -> dict[str, str]:
    """What the nursery is started with."""
    found = dict(os.environ) if pass_store_url else without_store_url(os.environ, store_url)
    return {**found, "WINDLASS_NODE_PID": str(os.getpid())}


def hidden_message(environment: Mapping[str, str]) -> str:
    """For an app that could not be imported: what it may have looked for in vain."""
    hidden = sorted(os.environ.keys() - environment.keys())
    if not hidden:
        return ""
    return f"Workers do not see {', '.join(hidden)}, because of the store's URL; --pass-store-url lets them.\n"
