"""Limits per caller: one token bucket for the rate, and how many requests run at the same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager

from windlass.clock import monotonic
from windlass.errors import Refused
from windlass.operations.caller import Caller
from windlass.refused_requests import refused_requests


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
            refused_requests.count("rate_limited")
            raise Refused(
                "rate_limited",
                f"Token {caller.name!r} is limited to {rate:g} requests per second. Retry in {wait} s.",
                headers={"Retry-After": str(wait)},
            )
        self._buckets[caller.name] = (permits - 1, now)


class ConcurrencyLimiter:
    """Counts the running requests of each caller. Use it in the event loop only."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._running: Counter[str] = Counter()

    @contextmanager
    def running(self, caller: Caller) -> Generator[None]:
        """Count a request while it runs. Refused when the caller has too many."""
        name = caller.name
        if self._running[name] >= self._limit:
            refused_requests.count("token_requests")
            raise Refused(
                "too_many_requests", f"Token {name!r} has {self._limit:,} running requests. Wait for some to end."
            )
        self._running[name] += 1
        try:
            yield
        finally:
            self._running[name] -= 1
            if not self._running[name]:
                del self._running[name]
