"""The table of all routes. A new module of routes is added here and nowhere else."""

from __future__ import annotations

from windlass.server.http.routing import Route
from windlass.server.routes import (
    audit,
    breakers,
    crons,
    dead_letters,
    events,
    health,
    limits,
    manifest,
    metrics,
    nodes,
    pools,
    queues,
    sessions,
    tasks,
    tasks_bulk,
    tasks_stream,
    tenants,
    workflows,
)

TABLE: tuple[Route, ...] = (
    *tasks.route,
    *tasks_stream.route,
    *tasks_bulk.route,
    *dead_letters.route,
    *workflows.route,
    *queues.route,
    *tenants.route,
    *limits.route,
    *manifest.route,
    *crons.route,
    *nodes.route,
    *audit.route,
    *pools.route,
    *breakers.route,
    *sessions.route,
    *events.route,
    *health.route,
    *metrics.route,
)
