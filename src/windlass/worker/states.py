"""The states of a worker, and every move between them, in one table."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class WorkerState(StrEnum):
    """Where a worker stands. Only an idle or a busy one gets tasks."""

    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    DRAINING = "draining"
    """It ends what it has begun and then leaves."""
    STOPPED = "stopped"
    FAILED = "failed"
    """It died, was killed, or could not start."""

    @property
    def over(self) -> bool:
        """Whether the process is gone."""
        return self in (WorkerState.STOPPED, WorkerState.FAILED)

    @property
    def working(self) -> bool:
        """Whether it takes tasks."""
        return self in (WorkerState.IDLE, WorkerState.BUSY)


MOVES: Mapping[WorkerState, frozenset[WorkerState]] = {
    WorkerState.STARTING: frozenset({WorkerState.IDLE, WorkerState.DRAINING, WorkerState.FAILED}),
    WorkerState.IDLE: frozenset({WorkerState.BUSY, WorkerState.DRAINING, WorkerState.FAILED}),
    WorkerState.BUSY: frozenset({WorkerState.IDLE, WorkerState.DRAINING, WorkerState.FAILED}),
    WorkerState.DRAINING: frozenset({WorkerState.STOPPED, WorkerState.FAILED}),
    WorkerState.STOPPED: frozenset(),
    WorkerState.FAILED: frozenset(),
}
