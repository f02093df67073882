"""The arithmetic of fences."""

from __future__ import annotations

from windlass.core.times import Micros

EPOCH_SHIFT = 40
_TICK = 10_000
"""Microseconds a tick: ticks since 1970 fit below the epoch for some three hundred years."""


def next_fence(fence: int, *, epoch: int, submitted: Micros) -> int:
    """The fence of the next lease of a task whose latest one was `fence`.

    The counter starts at the time of the submit, not at zero: a task that was purged and submitted again under the same
    key goes on above every fence of its earlier life, unless that was leased a hundred times a second throughout.
    """
    return max(fence, (epoch << EPOCH_SHIFT) + submitted // _TICK) + 1
