"""How the pools stand, over all nodes: what is decided, what is there, what held it back, and what the nodes did.

The counters are the nodes' own, from their reports: each lasts as long as its node, and begins at 0 with the next.
"""

from __future__ import annotations

from collections.abc import Iterable

from windlass.autoscale import pool_tick
from windlass.autoscale.observe import NodeReport
from windlass.metrics.families import Family, Sample
from windlass.operations.pools import PoolView, count_desired, describe_all
from windlass.stores.coordination import Look

SECOND = 1_000_000
ALERTS = (
    "autoscaler_stalled",
    "ceiling_bound",
    "cost_capped",
    "crash_loop",
    "flapping",
    "signal_stale",
    "stalled",
)
"""Those that are known, so that each has a series that is 0 while all is well."""
_POOL = ("pool",)

WORKERS = Family("windlass_pool_workers", "Workers by state.", ("pool", "state"))
TARGET = Family("windlass_pool_target", "How many workers the pool is to have.", _POOL)
BUSY = Family("windlass_pool_busy", "Tasks that run now.", _POOL)
NEEDS = Family("windlass_pool_needs", "How many workers the load needs, before any limit.", _POOL)
FLOOR = Family("windlass_pool_floor", "The fewest workers that are allowed.", _POOL)
CEILING = Family("windlass_pool_ceiling", "The most workers that are allowed.", _POOL)
OLDEST = Family("windlass_pool_oldest_ready_seconds", "How long its longest-waiting runnable task has waited.", _POOL)
GOAL = Family("windlass_pool_wait_goal_seconds", "How long a task may wait.", _POOL)
LATE_GOAL = Family("windlass_pool_late_goal_ratio", "The share of tasks that may wait longer.", _POOL)
DECIDED = Family("windlass_pool_decision_age_seconds", "How long ago its size was decided last.", _POOL)
OVERRIDE = Family("windlass_pool_override_active", "Whether a person has set the size.", _POOL)
PAUSED = Family("windlass_pool_paused", "Whether a person has set the size to 0.", _POOL)
VETO = Family("windlass_pool_veto_active", "Whether growth is refused, as it would do harm or no good.", _POOL)
DEGRADED = Family("windlass_pool_degraded", "Whether a node's controller of it is broken.", _POOL)
ALERT = Family("windlass_pool_alert", "1 while the controller raises this alert.", ("pool", "name"))
DESIRED = Family("windlass_desired_slots", "How many tasks should be able to run at once, for who starts nodes.", _POOL)
STARTED = Family("windlass_node_started_total", "Tasks that a node began.", ("pool", "node"), "counter")
LATE = Family(
    "windlass_node_late_total", "Those of them that waited longer than the goal.", ("pool", "node"), "counter"
)
ENDED = Family("windlass_node_ended_total", "Attempts that ended on a node.", ("pool", "node"), "counter")
ERRORS = Family("windlass_node_errors_total", "Those of them that failed.", ("pool", "node"), "counter")
DEATHS = Family("windlass_node_worker_deaths_total", "Workers that died on a node.", ("pool", "node"), "counter")
SECONDS = Family("windlass_node_busy_seconds_total", "Seconds that tasks ran for.", ("pool", "node"), "counter")

_GAUGES = (TARGET, BUSY, NEEDS, FLOOR, CEILING, OLDEST, GOAL, LATE_GOAL, DECIDED, OVERRIDE, PAUSED, VETO, DEGRADED)
_COUNTERS = (STARTED, LATE, ENDED, ERRORS, DEATHS, SECONDS)
FAMILIES = (WORKERS, *_GAUGES, ALERT, DESIRED, *_COUNTERS)


def samples(look: Look) -> Iterable[Sample]:
    """Everything about every pool."""
    for view in describe_all(look):
        yield from _pool(view, look)
        yield Sample(DESIRED, count_desired(look, view.name) * view.threads, (view.name,))
    # Of two sessions of one node, the newer one comes first and knows all that the older one does.
    reports = pool_tick.read_reports(look)
    newest = {each.node: reports[str(each.session)] for each in reversed(look.reports) if str(each.session) in reports}
    for node, report in newest.items():
        yield from _node(node, report)


def _pool(view: PoolView, look: Look) -> Iterable[Sample]:
    sizes = {"ready": view.ready, "starting": view.starting, "draining": view.draining, "asleep": view.asleep}
    for state, number in sizes.items():
        yield Sample(WORKERS, number, (view.name, state))
    values = (
        view.target,
        view.running,
        view.needs,
        view.floor,
        view.ceiling,
        view.oldest,
        view.wait,
        pool_tick.read_decision(look, view.name)[0].settings.late,
        max(0.0, look.now / SECOND - view.decided_at) if view.decided_at else 0.0,
        view.override is not None,
        view.paused is not None,
        any(reason.startswith("veto:") for reason in view.reasons),
        bool(view.degraded),
    )
    for family, value in zip(_GAUGES, values, strict=True):
        yield Sample(family, value, (view.name,))
    for name in sorted({*ALERTS, *view.alerts}):
        yield Sample(ALERT, name in view.alerts, (view.name, name))


def _node(node: str, report: NodeReport) -> Iterable[Sample]:
    for name, pool in report.pools.items():
        values = (pool.started, pool.late, pool.ended, pool.errors, pool.deaths, pool.busy)
        for family, value in zip(_COUNTERS, values, strict=True):
            yield Sample(family, value, (name, node))
