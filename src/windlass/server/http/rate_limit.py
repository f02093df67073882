"""Rate limits: one token bucket per caller."""

from __future__ import annotations

from collections.abc import Callable

from windlass.clock import monotonic
from windlass.errors import Refused
from windlass.operations.caller import Caller


class RateLimiter:
    """Buckets by caller name. Names are those of API tokens, so there are few."""

    def __init__(self, rate: float, clock: Callable[[], float] = monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, caller: Caller) -> None:
        """Count one request. Refused when the caller's bucket is empty."""
        rate = self._rate if caller.rate is None else caller.rate
        burst, now = max(1.0, 2 * rate), self._clock()
        permits, since = self._buckets.get(caller.name, (burst, now))
        permits = min(burst, permits + rate * (now - since))
        if permits < 1:
            wait = max(1, round((1 - permits) / rate + 0.5)) if rate > 0 else 3_600
            raise Refused(
                "rate_limited",
                f"Token {caller.name!r} is limited to {rate:g} requests per second. Retry in {wait} s.",
                headers={"Retry-After": str(wait)},
            )
        self._buckets[caller.name] = (permits - 1, now)
