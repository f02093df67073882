"""Every route there is. A new module of routes is named here, and nowhere else."""

from __future__ import annotations

from windlass.server import (
    breakers,
    bulk,
    dead_letters,
    events,
    health,
    manifest,
    metrics,
    nodes,
    pools,
    publishing,
    queues,
    schedules,
    stream,
    tasks,
    whatif,
    work,
    workflows,
)
from windlass.server.routes import Route

TABLE: tuple[Route, ...] = (
    *tasks.route,
    *stream.route,
    *bulk.route,
    *dead_letters.route,
    *workflows.route,
    *queues.route,
    *manifest.route,
    *schedules.route,
    *nodes.route,
    *pools.route,
    *whatif.route,
    *breakers.route,
    *work.route,
    *publishing.route,
    *events.route,
    *health.route,
    *metrics.route,
)
