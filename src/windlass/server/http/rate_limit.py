"""How often one caller may ask: a bucket of permits for each, which fills with time."""

from __future__ import annotations

from collections.abc import Callable

from windlass.clock import monotonic
from windlass.errors import Refused
from windlass.operations.caller import Caller


class Rates:
    """One bucket for each name; names are those of tokens, so there are not many."""

    def __init__(self, rate: float, clock: Callable[[], float] = monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, who: Caller) -> None:
        """One more request; refused when the bucket is empty."""
        rate = self._rate if who.rate is None else who.rate
        most, now = max(1.0, 2 * rate), self._clock()
        permits, since = self._buckets.get(who.name, (most, now))
        permits = min(most, permits + rate * (now - since))
        if permits < 1:
            wait = max(1, round((1 - permits) / rate + 0.5)) if rate > 0 else 3_600
            raise Refused(
                "rate_limited",
                f"{who.name} may ask {rate:g} times a second; try again in {wait} s",
                headers={"Retry-After": str(wait)},
            )
        self._buckets[who.name] = (permits - 1, now)
