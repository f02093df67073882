"""The definitions of metrics, the same for counted and for collected ones.

Every family is listed in a table (`node.FAMILIES`, `calls.FAMILIES`, `store.FAMILIES`), against which the docs, the
dashboard and the alert rules are checked. Names end with the base unit, those of counters with `_total`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

LONG = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 7_200.0)
"""Buckets for durations from milliseconds to hours."""
SHORT = (0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
AROUND_ZERO = (-3_600.0, -600.0, -60.0, -10.0, -1.0, 0.0, 1.0, 10.0, 60.0, 600.0, 3_600.0)


class Family(Struct, frozen=True):
    """The definition of a metric: all series of one name."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    kind: Literal["gauge", "counter", "histogram"] = "gauge"
    bounds: tuple[float, ...] = ()

    @property
    def series(self) -> tuple[str, ...]:
        """The names of its series."""
        return tuple(self.name + end for end in ("_bucket", "_sum", "_count")) if self.bounds else (self.name,)


class Sample(Struct, frozen=True):
    """One value of a metric."""

    family: Family
    value: float
    labels: tuple[str, ...] = ()


def counter(family: Family, registry: CollectorRegistry) -> Counter:
    """Create a counter."""
    return Counter(family.name, family.help, family.labels, registry=registry)


def gauge(family: Family, registry: CollectorRegistry) -> Gauge:
    """Create a gauge."""
    return Gauge(family.name, family.help, family.labels, registry=registry)


def histogram(family: Family, registry: CollectorRegistry) -> Histogram:
    """Create a histogram."""
    return Histogram(family.name, family.help, family.labels, registry=registry, buckets=family.bounds)


def group_samples(families: Iterable[Family], samples: Iterable[Sample]) -> list[Metric]:
    """Group samples by family. A family without samples is omitted."""
    found: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
    known = {family.name: family for family in families}
    for sample in samples:
        family = known[sample.family.name]
        if family.name not in found:
            made = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
            found[family.name] = made(family.name, family.help, labels=family.labels)
        found[family.name].add_metric(sample.labels, sample.value)
    return list(found.values())
