"""Times the calls to a store and counts its submits."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, cast

from prometheus_client import CollectorRegistry

from windlass.clock import monotonic
from windlass.errors import WindlassError
from windlass.metrics.families import SHORT, Family, counter, histogram
from windlass.stores.protocol import Store

SECONDS = Family("windlass_store_call_seconds", "Duration of calls to the store.", ("method",), "histogram", SHORT)
ERRORS = Family(
    "windlass_store_call_errors_total", "Calls to the store that raised an error.", ("method", "code"), "counter"
)
SUBMITTED = Family("windlass_submitted_total", "Tasks submitted by this process.", (), "counter")
DUPLICATES = Family("windlass_duplicates_suppressed_total", "Submits of tasks that already existed.", (), "counter")

FAMILIES = (SECONDS, ERRORS, SUBMITTED, DUPLICATES)
UNTIMED = ("wait_for_work", "close")
"""`wait_for_work` only sleeps, and `close` is the last call."""


class StoreCalls:
    """The metrics of one process's calls to its store."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._seconds = histogram(SECONDS, self.registry)
        self._errors = counter(ERRORS, self.registry)
        self._submitted = counter(SUBMITTED, self.registry)
        self._repeated = counter(DUPLICATES, self.registry)

    def measure(self, store: Store) -> Store:
        """Return a store that forwards to this one and times its calls."""
        return cast("Store", MeasuredStore(store, self))

    def time(self, method: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that makes the call and times it."""
        seconds = self._seconds.labels(method)

        @wraps(call)
        def timed(*given: Any, **named: Any) -> Any:
            started = monotonic()
            try:
                answer = call(*given, **named)
            except Exception as error:
                self._errors.labels(method, error.code if isinstance(error, WindlassError) else "bug").inc()
                raise
            finally:
                seconds.observe(monotonic() - started)
            if method == "submit":
                self._count(answer)
            return answer

        return timed

    def _count(self, receipts: Any) -> None:
        created = sum(receipt.created for receipt in receipts)
        self._submitted.inc(created)
        self._repeated.inc(len(receipts) - created)


class MeasuredStore:
    """A store whose calls are timed. A method is wrapped on first use."""

    def __init__(self, store: Store, calls: StoreCalls) -> None:
        self.store, self.calls = store, calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.store, name)
        if name.startswith("_") or name in UNTIMED or not callable(found):
            return found
        timed = self.calls.time(name, found)
        setattr(self, name, timed)
        return timed
