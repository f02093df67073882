"""A Prometheus collector of the submits refused in this process."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from windlass.metrics.families import Family, Sample, group_samples
from windlass.refused_submits import refused_submits

REFUSED = Family("windlass_submits_refused_total", "Refused submits.", ("reason", "queue"), "counter")
FAMILIES = (REFUSED,)


class RefusedSubmitMetrics:
    """Collects the counts of refused submits.

    >>> prometheus_client.REGISTRY.register(RefusedSubmitMetrics())
    """

    def collect(self) -> list[Metric]:
        """Return the counts so far."""
        return group_samples(
            FAMILIES, [Sample(REFUSED, count, labels) for labels, count in refused_submits.counts().items()]
        )

    def describe(self) -> Iterable[Metric]:
        """Return nothing, because the registry does not have to check this family."""
        return ()
