"""Until when a node's sessions are surely valid: what a worker asks before it starts an attempt.

The node computes each moment from the time before its latest good renewal was sent, minus a margin, on a clock that all
processes of the machine share and that counts the time in which they, or the machine, stood still.
"""

from __future__ import annotations

from uuid import UUID


class Validity:
    """The sessions that a worker has heard of, and until when each is surely valid."""

    def __init__(self) -> None:
        self._until: dict[UUID, float] = {}

    def extend(self, session: UUID, until: float) -> None:
        """Record what the node says about a session."""
        self._until[session] = until

    def covers(self, session: UUID, now: float) -> bool:
        """Return True if a lease of this session surely still holds."""
        return now < self._until.get(session, 0.0)
