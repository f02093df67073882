"""Fences: numbers that grow with every lease of a task."""

from __future__ import annotations

from windlass.core.times import Micros

EPOCH_SHIFT = 40
_TICK = 10_000
"""Microseconds per tick. Ticks since 1970 fit below the epoch for about three hundred years."""


def next_fence(fence: int, *, epoch: int, submitted: Micros) -> int:
    """Return the fence of the next lease of a task whose latest one was `fence`.

    The counter starts at the time of the submit, not at zero. So a task that is purged and submitted again under the
    same key gets greater fences than before, unless it was leased a hundred times a second all the time.
    """
    return max(fence, (epoch << EPOCH_SHIFT) + submitted // _TICK) + 1
