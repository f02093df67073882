"""Read the CPU time of all processes of a system, by role.

The CPU time of a process is user + system of all its threads, including those that have ended, in nanoseconds
(`clock_getcpuclockid`). The children that it has waited for are added from `/proc/PID/stat`, in hundredths of a second.
So the time of a process that ends between two snapshots moves to its parent and is not lost.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_CPUCLOCK_SCHED = 2
BACKGROUND = (
    "autovacuum",
    "background writer",
    "checkpointer",
    "logical replication launcher",
    "stats collector",
    "walwriter",
)
"""What the title of a PostgreSQL process that serves no client starts with."""


class Roles(Struct, frozen=True, kw_only=True):
    """The root processes of a measurement. A role includes all descendants of its roots."""

    server: int | None = None
    """The PostgreSQL postmaster or the Redis server; None for SQLite."""
    nodes: Sequence[int] = ()
    """The commands of the system. If `split`, their descendants are the workers; if not, they are workers too."""
    split: bool = False
    ignored: Collection[int] = ()
    """Processes that observe the measurement, such as the server process that samples waits."""


class Usage(Struct, frozen=True, kw_only=True):
    """Seconds of CPU time by role. None if the system has no such process."""

    server: float | None = None
    background: float | None = None
    """The part of `server` that serves no open connection: WAL writer, checkpointer, autovacuum, ended processes."""
    client: float | None = None
    node: float | None = None
    workers: float | None = None

    @property
    def total(self) -> float:
        """The sum of all roles. The background processes are part of the server."""
        return sum(used for used in (self.server, self.client, self.node, self.workers) if used is not None)

    def __sub__(self, before: Usage) -> Usage:
        return Usage(**{role: _subtract(getattr(self, role), getattr(before, role)) for role in ROLES})

    def divide(self, tasks: int) -> Usage:
        """Return microseconds per task."""
        used = {role: getattr(self, role) for role in ROLES}
        return Usage(**{role: seconds and seconds / tasks * 1e6 for role, seconds in used.items()})


ROLES = Usage.__struct_fields__


def read_usage(roles: Roles, *, client: bool = False) -> Usage:
    """Return the CPU time used so far. With `client`, this process is the client."""
    processes = {process.pid: process for process in _list_processes()}
    children: dict[int, list[_Process]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process)
    server = background = node = workers = None
    if roles.server is not None:
        served = [one for one in _list_descendants(roles.server, children) if one.pid not in roles.ignored]
        ended = processes[roles.server].ended
        server = _sum([processes[roles.server], *served])
        background = ended + sum(one.own for one in served if one.in_background)
    if roles.nodes:
        roots = [processes[pid] for pid in roles.nodes if pid in processes]
        below = [one for root in roots for one in _list_descendants(root.pid, children)]
        node, workers = (_sum(roots), _sum(below)) if roles.split else (None, _sum(roots + below))
    return Usage(
        server=server,
        background=background,
        client=time.process_time() if client else None,
        node=node,
        workers=workers,
    )


class _Process(Struct, frozen=True):
    pid: int
    parent: int
    own: float
    ended: float
    """The CPU time of children that have ended."""

    @property
    def in_background(self) -> bool:
        """True for a process that the server runs for itself. One that has ended since counts as a connection."""
        try:
            title = Path(f"/proc/{self.pid}/cmdline").read_bytes().decode(errors="replace")
        except OSError:
            return False
        return title.removeprefix("postgres: ").startswith(BACKGROUND)


def _list_processes() -> Iterator[_Process]:
    for name in os.listdir("/proc"):  # noqa: PTH208  # names are enough
        if name.isdigit():
            with suppress(OSError):  # it has ended since
                yield _read_process(int(name))


def _read_process(pid: int) -> _Process:
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123  # a snapshot reads hundreds, quickly
        fields = file.read().rpartition(b")")[2].split()
    ended = (int(fields[13]) + int(fields[14])) / TICKS_PER_SECOND
    return _Process(pid, int(fields[1]), time.clock_gettime(~pid << 3 | _CPUCLOCK_SCHED), ended)


def _list_descendants(pid: int, children: Mapping[int, Sequence[_Process]]) -> Iterator[_Process]:
    for child in children.get(pid, ()):
        yield child
        yield from _list_descendants(child.pid, children)


def _sum(processes: Sequence[_Process]) -> float:
    return sum(one.own + one.ended for one in processes)


def _subtract(after: float | None, before: float | None) -> float | None:
    return None if after is None else after - (before or 0.0)
