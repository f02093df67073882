"""`windlass workers`: nodes, their pools and worker processes, and nodes that ended recently."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import click
from msgspec import to_builtins

from windlass.autoscale.observe import NodeReport
from windlass.autoscale.pool_tick import read_reports
from windlass.cli.output import form_options, number_of, print_json_form, print_note, table
from windlass.cli.stores import clock, opened, store_option
from windlass.cli.time_options import length
from windlass.core.payload import json_object
from windlass.core.times import Micros, micros
from windlass.core.worker_list import WorkerProcess, decode_workers
from windlass.stores.protocol import Session
from windlass.wire.legacy_nodes import node_shape


@click.group()
def workers() -> None:
    """List nodes, their pools and their worker processes."""


@workers.command("ls")
@store_option
@form_options
@click.option("--all", "gone_too", is_flag=True, help="Also those that were closed or lost in the last day.")
def ls(store_url: str | None, form: str | None, gone_too: bool) -> None:
    """List every node with its pools, and every worker process with the tasks that it runs."""
    store = opened(store_url)
    sessions = [session for session in store.sessions(workers=True) if gone_too or not session.lost]
    reports = read_reports(store.look([], ahead=timedelta(0)))
    if print_json_form(form, [_document(session, reports.get(str(session.id))) for session in sessions]):
        return
    rows = [row for session in sessions for row in _rows(session, reports.get(str(session.id)))]
    table(("node", "pool", "queues", "#workers", "#running", "heard of", "notes"), rows)
    _print_workers([session for session in sessions if not session.lost])
    if not sessions:
        print_note("no node is alive: start one with `windlass worker APP`")


def _document(session: Session, report: NodeReport | None) -> dict[str, Any]:
    """The node as the API shows it, and its pools as it has reported them last."""
    pools: dict[str, Any] = {} if report is None else to_builtins(report.pools)
    return {**to_builtins(node_shape(session)), "pools": pools, "degraded": "" if report is None else report.degraded}


def _print_workers(sessions: Sequence[Session]) -> None:
    """Print a table of the worker processes of all nodes, each as of its node's last renewal."""
    now = clock().now()
    lists = [(session, decode_workers(session.workers)) for session in sessions]
    rows = [
        [
            session.node,
            f"{worker.number}",
            f"{worker.pid or '–'}",
            worker.pool,
            worker.state,
            _age(worker.since, now),
            f"{worker.memory >> 20} MiB" if worker.memory else "–",
            f"{worker.tasks_run:,}",
            _tasks(worker, now),
        ]
        for session, listed in lists
        for worker in listed.workers
    ]
    if rows:
        click.echo()
        table(("node", "#worker", "#pid", "pool", "state", "#for", "#memory", "#tasks run", "running"), rows)
    for session, listed in lists:
        if listed.more:
            print_note(f"{session.node}: {number_of(listed.more, 'more worker')} not listed")


def _tasks(worker: WorkerProcess, now: Micros) -> str:
    said = [f"{task.handler} {task.id} ({_age(task.since, now)})" for task in worker.tasks]
    hidden = worker.running - len(worker.tasks)
    return ", ".join([*said, f"and {hidden} more"] if hidden else said) or "–"


def _age(since: Micros, now: Micros) -> str:
    """Return the time since a moment of the node's clock, which may be a little ahead of ours."""
    return length(max(0, now - since))


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
