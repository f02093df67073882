"""How often the node speaks to the store while it is busy.

A single task costs a commit to claim and one to settle. When many come one after another, taking some at a time costs
hardly more than taking one, so calls are spaced by a few milliseconds for as long as that brings more. One task alone,
or one after another as in a chain, never waits.
"""

from __future__ import annotations

from windlass.clock import monotonic, sleep

MOST_SECONDS = 0.004
STEP_SECONDS = 0.001


class BatchDelay:
    """Spaces the calls of one thread."""

    def __init__(self) -> None:
        self._gap = 0.0
        self._latest = 0.0

    def wait(self) -> float:
        """Wait if the latest call was only just made; the moment at which this one is."""
        early = self._latest + self._gap - monotonic()
        if early > 0:
            sleep(early)
        self._latest = monotonic()
        return self._latest

    def record(self, tasks: int) -> None:
        """The call was about so many: more than one, and waiting a little longer may pay; one, and it did not."""
        if tasks > 1:
            self._gap = min(MOST_SECONDS, self._gap + STEP_SECONDS)
        elif tasks == 1:
            self._gap /= 2
