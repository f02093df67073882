"""Renders metrics as the text that Prometheus scrapes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Protocol

from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import Metric

from windlass.metrics.calls import MeasuredStore
from windlass.metrics.refused_requests import RefusedRequestMetrics
from windlass.metrics.refused_submits import RefusedSubmitMetrics
from windlass.metrics.store import StoreMetrics
from windlass.stores.protocol import Store

MEDIA_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class Collector(Protocol):
    """Anything that collects metrics."""

    def collect(self) -> Iterable[Metric]: ...


class CombinedCollector:
    """Combines several collectors and drops the `_created` series, which nothing uses."""

    def __init__(self, collectors: Sequence[Collector]) -> None:
        self._collectors = collectors

    def collect(self) -> Iterable[Metric]:
        for collector in self._collectors:
            for metric in collector.collect():
                metric.samples = [each for each in metric.samples if not each.name.endswith("_created")]
                yield metric


def store_metrics(store: Store) -> bytes:
    """Render the metrics of a store, and those of this process's calls if it is timed (`StoreCalls.measure`)."""
    if isinstance(store, MeasuredStore):
        return render(_collector(store.store), store.calls.registry, RefusedSubmitMetrics(), RefusedRequestMetrics())
    return render(_collector(store))


@lru_cache(maxsize=4)
def _collector(store: Store) -> StoreMetrics:
    """Return the collector of a store, so that all scrapes share its readings. Tests have several stores."""
    return StoreMetrics(store)


def render(*collectors: Collector) -> bytes:
    """Render the metrics of these collectors."""
    combined: Any = CombinedCollector(collectors)  # A registry needs only `collect` here.
    return generate_latest(combined)
