"""The Grafana dashboard: one row per question, one panel per answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import msgspec
from msgspec import Struct

WIDTH, HEIGHT = 24, 8
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


class Panel(Struct, frozen=True):
    """One panel: its title, and its queries by legend."""

    title: str
    shows: Mapping[str, str]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8


def _quantile(share: float, metric: str, by: str) -> str:
    return f"histogram_quantile({share}, sum by (le, {by}) (rate({metric}_bucket[$__rate_interval])))"


def _rate(metric: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}[$__rate_interval]))"


def _growth(metric: str, by: str) -> str:
    return f"sum by ({by}) (increase({metric}[$__rate_interval]))"


def _pool(metric: str, by: str = "pool") -> str:
    return f'max by ({by}) ({metric}{{pool=~"$pool"}})'


def _queue(metric: str, by: str = "queue") -> str:
    return f'max by ({by}) ({metric}{{queue=~"$queue"}})'


def _tenant(metric: str) -> str:
    return _queue(metric, "queue, tenant")


_STARTED = 'sum by (pool) (max by (pool, node) (rate(windlass_node_started_total{pool=~"$pool"}[$__rate_interval])))'
_LATE = _STARTED.replace("started", "late")
_ALERTS = '(max by (pool, name) (windlass_pool_alert{pool=~"$pool"}) == 1)'

ROWS: Mapping[str, tuple[Panel, ...]] = {
    "Is it healthy?": (
        Panel("Store", {"up": "max(windlass_up)"}, kind="stat", width=4),
        Panel("Nodes alive", {"nodes": 'max(windlass_nodes{state="alive"})'}, kind="stat", width=4),
        Panel("Dead letters", {"tasks": "sum(max by (queue) (windlass_dead_letters))"}, kind="stat", width=4),
        Panel("Controller alerts", {"{{pool}} {{name}}": _ALERTS}, kind="stat", width=12),
        Panel("Attempts", {"{{outcome}}": _rate("windlass_tasks_total", "outcome")}, "ops"),
        Panel("Store calls, p99", {"{{method}}": _quantile(0.99, "windlass_store_call_seconds", "method")}, "s"),
        Panel(
            "Oldest PostgreSQL transaction",
            {"age": "max(windlass_store_xmin_age_seconds)", "scrape": "max(windlass_store_latency_seconds)"},
            "s",
        ),
    ),
    "What is waiting?": (
        Panel("Runnable", {"{{queue}}": 'max by (queue) (windlass_queue_tasks{queue=~"$queue",state="runnable"})'}),
        Panel("Longest current wait", {"{{queue}}": _queue("windlass_queue_oldest_ready_seconds")}, "s"),
        Panel("Wait, p95", {"{{queue}}": _quantile(0.95, "windlass_queue_wait_seconds", "queue")}, "s"),
        Panel("Started later than the goal", {"{{pool}}": f"{_LATE} / {_STARTED}"}, "percentunit"),
        Panel(
            "Time left until the deadline, worst 5 %",
            {"{{queue}}": _quantile(0.05, "windlass_deadline_slack_seconds", "queue")},
            "s",
        ),
        Panel(
            "Missed deadlines",
            {"{{queue}}": _growth("windlass_deadline_missed_total", "queue")},
        ),
    ),
    "Who goes next?": (
        Panel(
            "Share due",
            {"{{queue}} {{tenant}}": _tenant("windlass_fair_share_due_ratio")},
            "percentunit",
        ),
        Panel(
            "Share got",
            {"{{queue}} {{tenant}}": _tenant("windlass_fair_share_got_ratio")},
            "percentunit",
        ),
        Panel("Largest missing share", {"{{queue}}": _queue("windlass_fair_share_missing_ratio")}, "percentunit"),
        Panel(
            "Running under a limit",
            {
                "{{limit}} running": "max by (limit) (windlass_limit_running)",
                "{{limit}} max": "max by (limit) (windlass_limit_max_running)",
            },
        ),
        Panel("Held back", {"{{queue}}": _queue("windlass_queue_held_tasks")}),
        Panel(
            "Full limits and paused tenants",
            {
                "{{limit}} full": "max by (limit) (windlass_limit_full) == 1",
                "paused tenants": "max(windlass_tenants_paused)",
            },
        ),
        Panel("Tenants that share a queue", {"{{queue}}": _queue("windlass_fair_tenants")}),
    ),
    "Why this many workers?": (
        Panel(
            "Needed, target, limits",
            {
                "{{pool}} needs": _pool("windlass_pool_needs"),
                "{{pool}} target": _pool("windlass_pool_target"),
                "{{pool}} max": _pool("windlass_pool_max"),
                "{{pool}} min": _pool("windlass_pool_min"),
            },
            width=12,
        ),
        Panel("Workers", {"{{pool}} {{state}}": _pool("windlass_pool_workers", "pool, state")}, width=12),
        Panel("Running tasks", {"{{pool}}": _pool("windlass_pool_busy")}),
        Panel(
            "Resizes",
            {"{{pool}} {{direction}}, {{reason}}": _growth("windlass_pool_resizes_total", "pool, direction, reason")},
        ),
        Panel(
            "Overrides",
            {
                "{{pool}} set by a person": _pool("windlass_pool_override_active"),
                "{{pool}} paused": _pool("windlass_pool_paused"),
                "{{pool}} veto": _pool("windlass_pool_veto_active"),
                "{{queue}} paused": _queue("windlass_queue_paused"),
            },
        ),
        Panel("Worker start time, p90", {"{{pool}}": _quantile(0.9, "windlass_worker_start_seconds", "pool")}, "s"),
        Panel("Desired slots over all nodes", {"{{pool}}": _pool("windlass_desired_slots")}),
    ),
    "What fails?": (
        Panel(
            "Failures by handler",
            {"{{handler}} {{outcome}}": _rate('windlass_tasks_total{outcome!="completed"}', "handler, outcome")},
            "ops",
        ),
        Panel(
            "Retries and dead letters",
            {
                "{{queue}} retries": _rate("windlass_retries_total", "queue"),
                "{{queue}} dead": _rate("windlass_dead_lettered_total", "queue"),
            },
            "ops",
        ),
        Panel("Run time, p95", {"{{handler}}": _quantile(0.95, "windlass_task_duration_seconds", "handler")}, "s"),
        Panel(
            "Breakers that are not closed",
            {"{{downstream}} {{state}}": 'max by (downstream, state) (windlass_breaker_state{state!="closed"}) == 1'},
        ),
        Panel(
            "Lost sessions, refused reports, dead workers",
            {
                "sessions lost": "sum(increase(windlass_sessions_lost_total[$__rate_interval]))",
                "stale reports": "sum(increase(windlass_stale_reports_total[$__rate_interval]))",
                "{{pool}} deaths": _growth("windlass_worker_deaths_total", "pool"),
            },
        ),
        Panel(
            "Store errors",
            {"{{doing}}": _growth("windlass_store_troubles_total", "doing")},
        ),
    ),
}


def dashboard() -> str:
    """Return the dashboard as JSON for Grafana."""
    found: dict[str, Any] = {
        "uid": "windlass",
        "title": "Windlass",
        "tags": ["windlass"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "timezone": "browser",
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": list(_variables())},
        "annotations": {"list": []},
        "panels": list(_panels()),
    }
    return msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n"


def _variables() -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    for name, metric in (("pool", "windlass_pool_target"), ("queue", "windlass_queue_tasks")):
        query = f"label_values({metric}, {name})"
        yield {
            "name": name,
            "type": "query",
            "datasource": _SOURCE,
            "query": {"query": query, "refId": name},
            "definition": query,
            "refresh": 2,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        }


def _panels() -> Iterator[dict[str, Any]]:
    """Lay out the rows from the top and their panels from the left."""
    numbers, x, y = count(1), 0, 0
    for question, panels in ROWS.items():
        grid = {"x": 0, "y": y, "w": WIDTH, "h": 1}
        yield {"id": next(numbers), "type": "row", "title": question, "collapsed": False, "gridPos": grid, "panels": []}
        x, y = 0, y + 1
        for panel in panels:
            if x + panel.width > WIDTH:
                x, y = 0, y + HEIGHT
            yield _panel(panel, next(numbers), {"x": x, "y": y, "w": panel.width, "h": HEIGHT})
            x += panel.width
        y += HEIGHT


def _panel(panel: Panel, number: int, grid: Mapping[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + place), "datasource": _SOURCE, "expr": expression, "legendFormat": legend}
        for place, (legend, expression) in enumerate(panel.shows.items())
    ]
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": grid,
        "targets": targets,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "options": {},
    }
