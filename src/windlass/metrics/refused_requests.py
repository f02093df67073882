"""A Prometheus collector of the connections of the HTTP server, and of what it refused."""

from __future__ import annotations

from prometheus_client.metrics_core import Metric

from windlass.metrics.families import Family, Sample, group_samples
from windlass.refused_requests import refused_requests

CONNECTIONS = Family("windlass_http_connections", "Open connections of the HTTP server.")
REFUSED = Family(
    "windlass_http_refused_total",
    "Connections closed and requests refused by a limit of the server.",
    ("reason",),
    "counter",
)
FAMILIES = (CONNECTIONS, REFUSED)


class RefusedRequestMetrics:
    """Collects the number of connections and the counts of refusals."""

    def collect(self) -> list[Metric]:
        """Return the numbers so far."""
        counts = [Sample(REFUSED, count, (reason,)) for reason, count in refused_requests.counts().items()]
        return group_samples(FAMILIES, [Sample(CONNECTIONS, refused_requests.connections), *counts])
