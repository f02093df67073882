"""The text that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Protocol

from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import Metric

from windlass.metrics.calls import Measured
from windlass.metrics.refused_submits import RefusedSubmitMetrics
from windlass.metrics.store import StoreMetrics
from windlass.stores.protocol import Store

MEDIA_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class Collector(Protocol):
    """Whatever has metrics."""

    def collect(self) -> Iterable[Metric]: ...


class Together:
    """Several collectors as one, without the moments at which counters began: nobody asks for those."""

    def __init__(self, collectors: Sequence[Collector]) -> None:
        self._collectors = collectors

    def collect(self) -> Iterable[Metric]:
        for collector in self._collectors:
            for metric in collector.collect():
                metric.samples = [each for each in metric.samples if not each.name.endswith("_created")]
                yield metric


def exposition(store: Store) -> bytes:
    """How things stand in a store. With one that is timed (`StoreCalls.measured`), the calls of this process too."""
    if isinstance(store, Measured):
        return text(_collector(store.store), store.calls.registry, RefusedSubmitMetrics())
    return text(_collector(store))


@lru_cache(maxsize=4)
def _collector(store: Store) -> StoreMetrics:
    """One for each store, so that all who ask share its readings. A process has one store, tests have a few."""
    return StoreMetrics(store)


def text(*collectors: Collector) -> bytes:
    """Everything that these have to say."""
    together: Any = Together(collectors)  # All that is asked of a registry here is that it collects.
    return generate_latest(together)
