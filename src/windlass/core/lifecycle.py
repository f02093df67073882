"""The states of a task, and every legal move between them.

`MOVES` is the definition. The memory store checks it; the SQL statements repeat their moves in a `-- moves:` header
that a test compares with it; the diagram in the docs is generated from it.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """The state of a task."""

    WAITING = "waiting"
    """Waits for prerequisites."""
    SCHEDULED = "scheduled"
    """Due later."""
    RUNNABLE = "runnable"
    """May be claimed now."""
    LEASED = "leased"
    """A node holds the lease and may run it."""
    RETRYING = "retrying"
    """An attempt failed; due again later."""
    COMPLETED = "completed"
    """Succeeded."""
    FAILED = "failed"
    """Out of attempts: a dead letter."""
    CANCELLED = "cancelled"
    """Stopped by an operator, or because a prerequisite did not complete."""
    EXPIRED = "expired"
    """Its expiry time passed."""

    @property
    def final(self) -> bool:
        """True if the task has ended. Only an operator's retry leads out of a final state."""
        return self in FINAL

    @property
    def ended_badly(self) -> bool:
        """True if the task has ended in any state but `completed`."""
        return self in FINAL and self is not State.COMPLETED


# A tuple, because a set would call the enum's __hash__, which is slow.
FINAL = (State.COMPLETED, State.FAILED, State.CANCELLED, State.EXPIRED)
UNFINISHED = frozenset(State) - set(FINAL)
QUEUED = UNFINISHED - {State.LEASED}
"""Unfinished and not leased."""

_UNSTARTED_ENDS = frozenset({State.CANCELLED, State.EXPIRED})
_OPERATOR_RETRY = frozenset({State.RUNNABLE, State.WAITING, State.SCHEDULED})

INITIAL_STATES = frozenset(
    {State.WAITING, State.SCHEDULED, State.RUNNABLE, State.COMPLETED, State.CANCELLED, State.EXPIRED}
)
"""The states in which a task may be created. Cancelled, if a prerequisite has already ended badly. Completed, if it is
an event that is set before anything waits for it."""

MOVES: dict[State, frozenset[State]] = {
    # The sweep fails the tasks of a cycle that the submit did not find.
    State.WAITING: _UNSTARTED_ENDS | {State.SCHEDULED, State.RUNNABLE, State.FAILED},
    # To completed: a wait whose time is over, or whose event was set (`core.waits`).
    State.SCHEDULED: _UNSTARTED_ENDS | {State.RUNNABLE, State.COMPLETED},
    State.RUNNABLE: _UNSTARTED_ENDS | {State.LEASED, State.SCHEDULED},
    # To runnable: released, crashed, or its node was lost. To scheduled: released with a delay. To waiting: its handler
    # added steps and continues after them (`core.continuation`).
    State.LEASED: frozenset(FINAL) | {State.RETRYING, State.RUNNABLE, State.SCHEDULED, State.WAITING},
    State.RETRYING: _UNSTARTED_ENDS | {State.RUNNABLE},
    State.COMPLETED: frozenset(),
    State.FAILED: _OPERATOR_RETRY,
    State.CANCELLED: _OPERATOR_RETRY,
    State.EXPIRED: _OPERATOR_RETRY,
}

EXPIRED = "Its expiry time passed."
"""The reason of every task that expires."""
