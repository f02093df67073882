"""Every route there is. A new module of routes is named here, and nowhere else."""

from __future__ import annotations

from windlass.server import health, manifest, metrics, nodes, pools, queues, stream, tasks
from windlass.server.routes import Route

TABLE: tuple[Route, ...] = (
    *tasks.route,
    *stream.route,
    *queues.route,
    *manifest.route,
    *nodes.route,
    *pools.route,
    *health.route,
    *metrics.route,
)
