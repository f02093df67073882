"""Smoothing of any signal: a fading mean with a half-life, and a sliding window. Small values that can be stored.

A signal that has not been heard of for too long is stale, and whoever reads it decides what that means.
"""

from __future__ import annotations

from math import ceil

from msgspec import Struct

SAMPLES = 120
"""The most samples that a window keeps; a longer one keeps every second, third, … of them."""


class Fading(Struct, frozen=True, kw_only=True, gc=False):
    """An exponentially weighted mean: what is one half-life old counts half."""

    value: float | None = None
    at: float = 0.0

    def record(self, now: float, value: float, half_life: float) -> Fading:
        """The mean after one more value; without a half-life, that value."""
        if self.value is None or half_life <= 0:
            return Fading(value=value, at=now)
        share = 0.5 ** (max(0.0, now - self.at) / half_life)
        return Fading(value=value + (self.value - value) * share, at=now)

    def stale(self, now: float, after: float) -> bool:
        """Whether nothing was heard for that long."""
        return self.value is None or now - self.at > after


class Sliding(Struct, frozen=True, kw_only=True, gc=False):
    """The samples of the latest seconds, oldest first."""

    samples: list[tuple[float, float]] = []

    def heard(self, now: float, value: float, seconds: float) -> Sliding:
        """The window after one more value."""
        kept = [(at, each) for at, each in self.samples if now - seconds < at <= now]
        if len(kept) >= 2 and kept[-1][0] - kept[-2][0] < seconds / SAMPLES:
            # Too close to be kept apart: the newer stands for both.
            kept.pop()
        return Sliding(samples=[*kept[1 - SAMPLES :], (now, value)])

    @property
    def mean(self) -> float:
        """The plain mean; 0 without samples."""
        return sum(value for _, value in self.samples) / len(self.samples) if self.samples else 0.0

    @property
    def most(self) -> float:
        """The largest."""
        return max((value for _, value in self.samples), default=0.0)

    def quantile(self, share: float) -> float:
        """The least value that is not below that share of all."""
        values = sorted(value for _, value in self.samples)
        return values[max(0, ceil(share * len(values)) - 1)] if values else 0.0

    def stale(self, now: float, after: float) -> bool:
        """Whether nothing was heard for that long."""
        return not self.samples or now - self.samples[-1][0] > after
