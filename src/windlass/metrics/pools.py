"""Metrics of pools over all nodes: the decided size, the workers, the limits, and the counters of the nodes.

The counters come from the nodes' reports. Each belongs to one run of a node and starts at 0 with the next.
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
    "at_max",
    "cost_capped",
    "crash_loop",
    "flapping",
    "signal_stale",
    "stalled",
)
"""All alerts. Each has a series, which is 0 while the alert is off."""
_POOL = ("pool",)

WORKERS = Family("windlass_pool_workers", "Workers by state.", ("pool", "state"))
TARGET = Family("windlass_pool_target", "Workers that the pool should have.", _POOL)
BUSY = Family("windlass_pool_busy", "Running tasks.", _POOL)
NEEDS = Family("windlass_pool_needs", "Workers that the load needs, before any limit.", _POOL)
MIN = Family("windlass_pool_min", "Minimum number of workers.", _POOL)
MAX = Family("windlass_pool_max", "Maximum number of workers.", _POOL)
OLDEST = Family("windlass_pool_oldest_ready_seconds", "How long its oldest runnable task has waited.", _POOL)
GOAL = Family("windlass_pool_wait_goal_seconds", "The longest time that a task may wait.", _POOL)
LATE_GOAL = Family("windlass_pool_late_goal_ratio", "The share of tasks that may wait longer than the goal.", _POOL)
DECIDED = Family("windlass_pool_decision_age_seconds", "Time since its size was last decided.", _POOL)
OVERRIDE = Family("windlass_pool_override_active", "Whether a person has set the size.", _POOL)
PAUSED = Family("windlass_pool_paused", "Whether a person has set the size to 0.", _POOL)
VETO = Family(
    "windlass_pool_veto_active", "Whether growth is vetoed because it would not help or would do harm.", _POOL
)
DEGRADED = Family("windlass_pool_degraded", "Whether its controller fails on a node.", _POOL)
ALERT = Family("windlass_pool_alert", "1 while the controller raises this alert.", ("pool", "name"))
DESIRED = Family("windlass_desired_slots", "Tasks that should be able to run at once, for node autoscalers.", _POOL)
STARTED = Family("windlass_node_started_total", "Tasks started by a node.", ("pool", "node"), "counter")
LATE = Family(
    "windlass_node_late_total", "Started tasks that had waited longer than the goal.", ("pool", "node"), "counter"
)
ENDED = Family("windlass_node_ended_total", "Attempts that ended on a node.", ("pool", "node"), "counter")
ERRORS = Family("windlass_node_errors_total", "Attempts on a node that failed.", ("pool", "node"), "counter")
DEATHS = Family("windlass_node_worker_deaths_total", "Workers that died on a node.", ("pool", "node"), "counter")
SECONDS = Family("windlass_node_busy_seconds_total", "Total run time of tasks.", ("pool", "node"), "counter")

_GAUGES = (TARGET, BUSY, NEEDS, MIN, MAX, OLDEST, GOAL, LATE_GOAL, DECIDED, OVERRIDE, PAUSED, VETO, DEGRADED)
_COUNTERS = (STARTED, LATE, ENDED, ERRORS, DEATHS, SECONDS)
FAMILIES = (WORKERS, *_GAUGES, ALERT, DESIRED, *_COUNTERS)


def samples(look: Look) -> Iterable[Sample]:
    """Return the samples of all pools."""
    for view in describe_all(look):
        yield from _pool(view, look)
        yield Sample(DESIRED, count_desired(look, view.name) * view.threads, (view.name,))
    # If a node has two sessions, the newer one comes first and includes the counts of the older one.
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
        view.min,
        view.max,
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
