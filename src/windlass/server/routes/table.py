"""The table of all routes. A new module of routes is added here and nowhere else."""

from __future__ import annotations

from windlass.server.http.routing import Route
from windlass.server.routes import (
    breakers,
    bulk,
    crons,
    dead_letters,
    events,
    health,
    manifest,
    metrics,
    nodes,
    pools,
    publishing,
    queues,
    sessions,
    task_stream,
    tasks,
    whatif,
    workflows,
)

TABLE: tuple[Route, ...] = (
    *tasks.route,
    *task_stream.route,
    *bulk.route,
    *dead_letters.route,
    *workflows.route,
    *queues.route,
    *manifest.route,
    *crons.route,
    *nodes.route,
    *pools.route,
    *whatif.route,
    *breakers.route,
    *sessions.route,
    *publishing.route,
    *events.route,
    *health.route,
    *metrics.route,
)
