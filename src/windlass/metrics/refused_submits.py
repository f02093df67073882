"""The submits that this process saw refused, as a collector for any Prometheus registry."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from windlass.metrics.families import Family, Sample, exposed
from windlass.refused_submits import refused_submits

REFUSED = Family("windlass_submits_refused_total", "Submits that were refused.", ("reason", "queue"), "counter")
FAMILIES = (REFUSED,)


class RefusedSubmitMetrics:
    """Tells Prometheus of refused submits.

    >>> prometheus_client.REGISTRY.register(RefusedSubmitMetrics())
    """

    def collect(self) -> list[Metric]:
        """The counts so far."""
        return exposed(FAMILIES, [Sample(REFUSED, count, labels) for labels, count in refused_submits.counts().items()])

    def describe(self) -> Iterable[Metric]:
        """Nothing: the family has no values of its own to be checked against others."""
        return ()
