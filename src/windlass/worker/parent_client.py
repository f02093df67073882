"""The worker parent as its node sees it: a child program on a socket that forks workers on request."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from windlass.clock import Clock
from windlass.config import NodeSettings
from windlass.worker.connection import Connection
from windlass.worker.isolation import find_user
from windlass.worker.log_format import LogOptions
from windlass.worker.wire import EndStray, Fork, FromParent, Kill, WorkerFiles

STORE_VARIABLES = ("WINDLASS_URL", "WINDLASS_LISTEN_URL")
"""Environment variables that `--hide-store-url` removes, besides those that contain the URL itself."""


CLOSE_SECONDS = 5.0
"""How long the process may take to end when its socket closes."""
KILL_SECONDS = 1.0
"""How long it may take to end when it is killed."""


class Imports(msgspec.Struct, frozen=True):
    """What the worker parent imports."""

    app: str
    """The app, as in `shop:app`."""
    path: tuple[str, ...] = ()
    """Its import path; empty for the default and the current directory."""
    modules: tuple[str, ...] = ()
    """Modules to import after the app."""
    log: LogOptions = LogOptions()
    """How workers show what handlers log."""
    user: str = ""
    """The user as whom the worker parent and its workers run; empty for that of the node."""


def make_imports(settings: NodeSettings) -> Imports:
    """Return what the worker parent of a node imports."""
    log = LogOptions(settings.log_level, settings.log_json)
    return Imports(settings.app, settings.path, settings.imports, log, settings.worker_user)


class ParentClient:
    """One worker parent process."""

    def __init__(self, imports: Imports, environment: Mapping[str, str], clock: Clock) -> None:
        switch: dict[str, Any] = {}
        if imports.user:
            user = find_user(imports.user)
            environment = {**environment, **user.environment}
            if user.uid != os.geteuid():
                switch = {"user": user.uid, "group": user.gid, "extra_groups": user.groups}
        mine, theirs = socket.socketpair()
        encoded = msgspec.json.encode(imports).decode()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "windlass.worker.worker_parent", str(theirs.fileno()), encoded],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=environment,
                process_group=0,  # Ctrl-C in the terminal is for the node only.
                **switch,
            )
        self.connection: Connection[FromParent] = Connection(mine, FromParent, clock)

    def fork(self, worker: int, threads: int, files: WorkerFiles, *, shares_loop: bool) -> None:
        """Fork a worker with these descriptors, which are closed here once sent."""
        self.connection.send(Fork(worker, threads, shares_loop), *files)

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
        """Close the socket, which ends the process and its workers. Return the exit status.

        A process that does not end even when it is killed, because it is in uninterruptible sleep, is left alone.
        """
        self.connection.close()
        try:
            return self.process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
        try:
            return self.process.wait(KILL_SECONDS)
        except subprocess.TimeoutExpired:
            return -signal.SIGKILL


def hide_store_url(environment: Mapping[str, str], store_url: str) -> dict[str, str]:
    """Return the environment without the variables that contain the URL of the store."""
    return {
        name: value for name, value in environment.items() if name not in STORE_VARIABLES and store_url not in value
    }


def parent_environment(store_url: str | None, *, hide: bool) -> dict[str, str]:
    """Return the environment of the worker parent: that of this process, unless the URL of the store is hidden."""
    found = hide_store_url(os.environ, store_url) if hide and store_url else dict(os.environ)
    return {**found, "WINDLASS_NODE_PID": str(os.getpid())}


def list_hidden(environment: Mapping[str, str]) -> list[str]:
    """Return the names of the variables that workers do not see."""
    return sorted(os.environ.keys() - environment.keys())


def describe_hidden(environment: Mapping[str, str]) -> str:
    """Return a hint about hidden variables, for an app that could not be imported."""
    hidden = list_hidden(environment)
    return f"Workers do not see {', '.join(hidden)}, because of --hide-store-url.\n" if hidden else ""
