"""The states of a task, and every legal move between them.

This is the one place where a move is allowed. The memory store asks it; the SQL stores restate the moves as guarded
statements, each with a `-- moves:` header that a test holds against `MOVES`; the docs' diagram is drawn from it.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a task stands."""

    WAITING = "waiting"
    """Prerequisites are open."""
    SCHEDULED = "scheduled"
    """Due later."""
    RUNNABLE = "runnable"
    """May be claimed now."""
    LEASED = "leased"
    """A node holds the right to run it."""
    RETRYING = "retrying"
    """An attempt went wrong; due again later."""
    COMPLETED = "completed"
    """Ended well."""
    FAILED = "failed"
    """Attempts used up: a dead letter."""
    CANCELLED = "cancelled"
    """Stopped by a person, or because a prerequisite ended badly."""
    EXPIRED = "expired"
    """Its hard time limit passed."""

    @property
    def final(self) -> bool:
        """Whether the task has ended; only an operator's retry leads out again."""
        return self in FINAL

    @property
    def ended_badly(self) -> bool:
        """Whether the task has ended in any other way than `completed`."""
        return self in FINAL and self is not State.COMPLETED


# A tuple, because looking for a member of an enumeration in a set calls back into Python for its hash.
FINAL = (State.COMPLETED, State.FAILED, State.CANCELLED, State.EXPIRED)
UNFINISHED = frozenset(State) - set(FINAL)
QUEUED = UNFINISHED - {State.LEASED}
"""Unfinished and in nobody's hands."""

_UNSTARTED_ENDS = frozenset({State.CANCELLED, State.EXPIRED})
_OPERATOR_RETRY = frozenset({State.RUNNABLE, State.WAITING})

INITIAL_STATES = frozenset({State.WAITING, State.SCHEDULED, State.RUNNABLE, State.CANCELLED, State.EXPIRED})
"""The states in which a submit may create a task; cancelled when a prerequisite has already ended badly."""

MOVES: dict[State, frozenset[State]] = {
    # A ring of prerequisites that only the stall detector could see ends its tasks as failed.
    State.WAITING: _UNSTARTED_ENDS | {State.SCHEDULED, State.RUNNABLE, State.FAILED},
    State.SCHEDULED: _UNSTARTED_ENDS | {State.RUNNABLE},
    State.RUNNABLE: _UNSTARTED_ENDS | {State.LEASED, State.SCHEDULED},
    # Back to runnable: released, crashed or lost with its node. Back to scheduled: released with a delay.
    State.LEASED: frozenset(FINAL) | {State.RETRYING, State.RUNNABLE, State.SCHEDULED},
    State.RETRYING: _UNSTARTED_ENDS | {State.RUNNABLE},
    State.COMPLETED: frozenset(),
    State.FAILED: _OPERATOR_RETRY,
    State.CANCELLED: _OPERATOR_RETRY,
    State.EXPIRED: _OPERATOR_RETRY,
}

EXPIRED = "its hard time limit passed"
"""The reason recorded with every task that expires."""
