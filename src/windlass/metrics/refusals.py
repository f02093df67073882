"""The submits that this process saw refused, as a collector for any Prometheus registry."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from windlass.metrics.families import Family, Sample, exposed
from windlass.refusals import refusals

REFUSED = Family("windlass_submits_refused_total", "Submits that were refused.", ("reason", "queue"), "counter")
FAMILIES = (REFUSED,)


class RefusalMetrics:
    """Tells Prometheus of refused submits.

    >>> prometheus_client.REGISTRY.register(RefusalMetrics())
    """

    def collect(self) -> list[Metric]:
        """The counts so far."""
        return exposed(FAMILIES, [Sample(REFUSED, count, labels) for labels, count in refusals.counts().items()])

    def describe(self) -> Iterable[Metric]:
        """Nothing: the family has no values of its own to be checked against others."""
        return ()
