"""A store whose calls are timed, and whose submits are counted. Its callers do not notice."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, cast

from prometheus_client import CollectorRegistry

from windlass.clock import monotonic
from windlass.errors import WindlassError
from windlass.metrics.families import SHORT, Family, counter, histogram
from windlass.stores.protocol import Store

SECONDS = Family("windlass_store_call_seconds", "How long calls to the store took.", ("method",), "histogram", SHORT)
ERRORS = Family("windlass_store_call_errors_total", "Calls that the store refused.", ("method", "code"), "counter")
SUBMITTED = Family("windlass_submitted_total", "Tasks that this process submitted.", (), "counter")
REPEATED = Family("windlass_duplicates_suppressed_total", "Submits of what was there already.", (), "counter")

FAMILIES = (SECONDS, ERRORS, SUBMITTED, REPEATED)
UNTIMED = ("wait_for_work", "close")
"""Sleeping is no work, and after closing nobody asks."""


class StoreCalls:
    """The calls of one process to its store."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._seconds = histogram(SECONDS, self.registry)
        self._errors = counter(ERRORS, self.registry)
        self._submitted = counter(SUBMITTED, self.registry)
        self._repeated = counter(REPEATED, self.registry)

    def measured(self, store: Store) -> Store:
        """The same store, timed."""
        return cast("Store", Measured(store, self))

    def timed(self, method: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, timed."""
        seconds = self._seconds.labels(method)

        @wraps(call)
        def timed(*given: Any, **named: Any) -> Any:
            begun = monotonic()
            try:
                answer = call(*given, **named)
            except Exception as error:
                self._errors.labels(method, error.code if isinstance(error, WindlassError) else "bug").inc()
                raise
            finally:
                seconds.observe(monotonic() - begun)
            if method == "submit":
                self._count(answer)
            return answer

        return timed

    def _count(self, receipts: Any) -> None:
        created = sum(receipt.created for receipt in receipts)
        self._submitted.inc(created)
        self._repeated.inc(len(receipts) - created)


class Measured:
    """Stands in for a store. A method is wrapped when it is first asked for."""

    def __init__(self, store: Store, calls: StoreCalls) -> None:
        self.store, self.calls = store, calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.store, name)
        if name.startswith("_") or name in UNTIMED or not callable(found):
            return found
        timed = self.calls.timed(name, found)
        setattr(self, name, timed)
        return timed
