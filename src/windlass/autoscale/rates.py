"""How fast tasks arrive: a slow window that forgets at once when the rate has changed.

The window is kept as ticks of one second for the last minute and as blocks of 16 s before that, so that its state stays
small enough to be stored at each tick. A tick far above the rate is a batch: it shows as backlog, and only three in a
row are taken for a rate.
"""

from __future__ import annotations

from math import sqrt

from msgspec import Struct

TICKS = 64
BLOCK = 16
SLOW = 120
"""Seconds that the window spans at least."""
ENOUGH = 100
"""Arrivals that it holds, if they come within 900 s."""
BLOCKS = (900 - TICKS) // BLOCK
SPANS = (3, 6, 12, 24, 48)
"""The lengths at which the latest arrivals are compared with those before."""


class Rates(Struct, frozen=True, kw_only=True, gc=False):
    """The window, newest last."""

    ticks: list[float] = []
    blocks: list[float] = []
    excess: list[float] = []
    """What was cut off the latest ticks, while they stand above the rest."""
    jump: int = 0
    """1 or -1 in the tick in which a change was found."""

    @property
    def span(self) -> int:
        """Seconds since the last change, as far as the window remembers."""
        return len(self.ticks) + BLOCK * len(self.blocks)

    @property
    def rate(self) -> float:
        """Arrivals per second."""
        span = self.span
        return (sum(self.ticks) + sum(self.blocks)) / span if span else 0.0

    def last(self, seconds: int) -> float:
        """Arrivals in the latest seconds, at most a minute."""
        return sum(self.ticks[-seconds:])

    @property
    def slope(self) -> float:
        """By how much the rate grows in a second, if it surely does: the halves differ by more than two sigma."""
        half = min(len(self.ticks), self.span) // 2
        if half < BLOCK:
            return 0.0
        newer, older = self.last(half), sum(self.ticks[-2 * half : -half])
        return (newer - older) / half**2 if newer - older > 2 * sqrt(newer + older) else 0.0


def record_arrivals(rates: Rates, arrivals: float, patience: float) -> Rates:
    """The window after one more tick. Changes shorter than `patience` seconds are not looked for."""
    if rates.span:
        rates = damp_jump(rates, arrivals)
    else:
        rates = Rates(ticks=[arrivals])
    return drop_before_change(trim(rates), patience)


def damp_jump(rates: Rates, arrivals: float) -> Rates:
    """One tick more, cut to what chance explains unless it is the third in a row that exceeds it."""
    rate = rates.rate
    most = rate + 4 * sqrt(rate + 1) + 3
    if arrivals <= most:
        return Rates(ticks=[*rates.ticks, arrivals], blocks=rates.blocks)
    excess = [*rates.excess, arrivals - most]
    if len(excess) < 3:
        return Rates(ticks=[*rates.ticks, most], blocks=rates.blocks, excess=excess)
    back = [tick + more for tick, more in zip(rates.ticks[-2:], excess[:2], strict=False)]
    return Rates(ticks=[*rates.ticks[:-2], *back, arrivals], blocks=rates.blocks)


def trim(rates: Rates) -> Rates:
    """The window without what is too old to count."""
    ticks, blocks = rates.ticks, rates.blocks
    if len(ticks) >= TICKS + BLOCK:
        ticks, blocks = ticks[BLOCK:], [*blocks, sum(ticks[:BLOCK])]
    count = sum(ticks) + sum(blocks)
    drop = 0
    while drop < len(blocks) and (
        len(blocks) - drop > BLOCKS
        or (len(ticks) + BLOCK * (len(blocks) - drop - 1) >= SLOW and count - blocks[drop] >= ENOUGH)
    ):
        count -= blocks[drop]
        drop += 1
    return Rates(ticks=ticks, blocks=blocks[drop:], excess=rates.excess)


def drop_before_change(rates: Rates, patience: float) -> Rates:
    """The window without what an abrupt change has made irrelevant."""
    span = rates.span
    count = sum(rates.ticks) + sum(rates.blocks)
    for length in SPANS:
        if length < patience or span < 2 * length or rates.excess:
            continue
        lately = rates.last(length)
        before = (count - lately) / (span - length)
        expected = before * length
        surprise = (lately - expected) / sqrt(max(1.0, expected * (1 + length / (span - length))))
        if abs(surprise) > (4 if length >= 10 else 5):
            return Rates(ticks=rates.ticks[-length:], jump=1 if surprise > 0 else -1)
    return rates
