"""What a metric is, before it has a value: the one form for those that are counted and those that are read.

Every family stands in a table (`node.FAMILIES`, `calls.FAMILIES`, `store.FAMILIES`), from which the docs, the dashboard
and the alert rules are checked. Units are base units and stand last in the name; counters end in `_total`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

LONG = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 7_200.0)
"""Bounds for what takes from milliseconds to hours."""
SHORT = (0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
AROUND_ZERO = (-3_600.0, -600.0, -60.0, -10.0, -1.0, 0.0, 1.0, 10.0, 60.0, 600.0, 3_600.0)


class Family(Struct, frozen=True):
    """All series of one name."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    kind: Literal["gauge", "counter", "histogram"] = "gauge"
    bounds: tuple[float, ...] = ()

    @property
    def series(self) -> tuple[str, ...]:
        """The names that can be asked for."""
        return tuple(self.name + end for end in ("_bucket", "_sum", "_count")) if self.bounds else (self.name,)


class Sample(Struct, frozen=True):
    """One value."""

    family: Family
    value: float
    labels: tuple[str, ...] = ()


def counter(family: Family, registry: CollectorRegistry) -> Counter:
    """Something to count by."""
    return Counter(family.name, family.help, family.labels, registry=registry)


def gauge(family: Family, registry: CollectorRegistry) -> Gauge:
    """Something to read a value from."""
    return Gauge(family.name, family.help, family.labels, registry=registry)


def histogram(family: Family, registry: CollectorRegistry) -> Histogram:
    """Something to measure by."""
    return Histogram(family.name, family.help, family.labels, registry=registry, buckets=family.bounds)


def exposed(families: Iterable[Family], samples: Iterable[Sample]) -> list[Metric]:
    """The samples, put into their families. A family without one is left out."""
    found: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
    known = {family.name: family for family in families}
    for sample in samples:
        family = known[sample.family.name]
        if family.name not in found:
            made = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
            found[family.name] = made(family.name, family.help, labels=family.labels)
        found[family.name].add_metric(sample.labels, sample.value)
    return list(found.values())
