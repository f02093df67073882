"""`windlass workers`: the nodes that are alive, what their pools have, and those that went of late."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click
from msgspec import to_builtins

from windlass.autoscale.reports import NodeReport
from windlass.autoscale.steering import reports_of
from windlass.cli.moments import length
from windlass.cli.output import for_programs, form_options, number_of, say, table
from windlass.cli.stores import opened, store_option
from windlass.core.times import micros
from windlass.server.shapes import json_object, node_shape
from windlass.stores.protocol import Session


@click.group()
def workers() -> None:
    """See which nodes are alive, and what their pools have."""


@workers.command("ls")
@store_option
@form_options
@click.option("--all", "gone_too", is_flag=True, help="Also those that were closed or lost in the last day.")
def ls(store_url: str | None, form: str | None, gone_too: bool) -> None:
    """Every node: its pools, how many workers they have and are to have, and how many tasks they run."""
    store = opened(store_url)
    sessions = [session for session in store.sessions() if gone_too or not session.lost]
    reports = reports_of(store.look([], ahead=timedelta(0)))
    if for_programs(form, [_document(session, reports.get(str(session.id))) for session in sessions]):
        return
    rows = [row for session in sessions for row in _rows(session, reports.get(str(session.id)))]
    table(("node", "pool", "queues", "#workers", "#running", "heard of", "notes"), rows)
    if not sessions:
        say("no node is alive: start one with `windlass worker APP`")


def _document(session: Session, report: NodeReport | None) -> dict[str, Any]:
    """The node as the API shows it, and its pools as it has reported them last."""
    pools: dict[str, Any] = {} if report is None else to_builtins(report.pools)
    return {**to_builtins(node_shape(session)), "pools": pools, "degraded": "" if report is None else report.degraded}


def _rows(session: Session, report: NodeReport | None) -> list[list[str]]:
    heard = f"{length(micros(session.age))} ago"
    if session.lost:
        return [[session.node, "–", "–", "–", "–", heard, "gone"]]
    if report is None:
        said = json_object(session.about).get("pools", {})
        return [
            [session.node, name, ", ".join(pool.get("queues", [])), "–", "–", heard, "has not reported yet"]
            for name, pool in said.items()
        ] or [[session.node, "–", "–", "–", "–", heard, "says nothing of itself"]]
    return [
        [
            session.node,
            name,
            ", ".join(pool.queues),
            f"{pool.ready}/{pool.target}",
            f"{pool.running}",
            heard,
            _notes(report, name),
        ]
        for name, pool in sorted(report.pools.items())
    ]


def _notes(report: NodeReport, name: str) -> str:
    pool = report.pools[name]
    moving = (("starting", pool.starting), ("draining", pool.draining), ("asleep", pool.asleep))
    said = [f"{count} {word}" for word, count in moving if count]
    if pool.threads > 1:
        said.append(f"{pool.threads} slots each")
    if pool.deaths:
        said.append(f"{number_of(pool.deaths, 'worker')} died")
    if report.degraded:
        said.append(f"DEGRADED {report.degraded}")
    return ", ".join(said)
