"""The worker processes of a node, as the node last reported them.

A node sends this list with the renewal of its session, so it costs no write of its own and is a few seconds old at
most. Its size is bounded: a node lists at most `MAX_WORKERS` workers and about `MAX_TASKS` running tasks, and says how
many it left out.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from windlass.core.times import Micros

MAX_WORKERS = 256
MAX_TASKS = 1_024
MAX_STUCK = 256
MAX_CHARACTERS = 524_288
"""Longest list that a store accepts; a list within the two limits above stays below it."""


class RunningTask(Struct, frozen=True, kw_only=True):
    """A task that a worker runs."""

    id: str
    handler: str
    since: Micros
    """When the worker began it, on the node's clock."""


class WorkerProcess(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One worker process."""

    number: int
    """Unique on its node, in the order in which workers were started."""
    pool: str
    state: str
    """One of `windlass.worker.worker.WorkerState`."""
    since: Micros
    """When it entered that state, on the node's clock."""
    pid: int = 0
    """0 while the process is being started."""
    memory: int = 0
    """Resident memory in bytes, in steps of 1 MiB; 0 if the system does not report it."""
    tasks_run: int = 0
    running: int = 0
    """How many tasks it runs now."""
    tasks: tuple[RunningTask, ...] = ()
    """Those tasks, the longest-running first; fewer than `running` if there are too many to list."""


class StuckProcess(Struct, frozen=True, kw_only=True):
    """A process that was killed and does not end. It runs no more code of its own."""

    pid: int
    since: Micros
    """When the node found it, on its clock."""


class WorkerList(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The workers of one node."""

    workers: tuple[WorkerProcess, ...] = ()
    more: int = 0
    """How many workers are not listed."""
    stuck: tuple[StuckProcess, ...] = ()
    """Processes of workers, and of what handlers had started, that do not end although they were killed."""


def encode_workers(workers: WorkerList) -> str:
    """Return the JSON text that a store keeps."""
    return msgspec.json.encode(workers).decode()


def decode_workers(text: str) -> WorkerList:
    """Read a stored list. Text that is empty or comes from an incompatible version counts as an empty list."""
    try:
        return msgspec.json.decode(text or "{}", type=WorkerList)
    except msgspec.DecodeError:
        return WorkerList()
