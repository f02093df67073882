"""`windlass workers`: list nodes, their pools and worker processes."""

from __future__ import annotations

from collections.abc import Sequence

import click

from windlass.autoscale.observe import NodeReport
from windlass.cli.options import json_options, store_option
from windlass.cli.output import echo, format_count, print_json, print_note, print_table
from windlass.core.payload import json_object
from windlass.core.times import Micros, micros
from windlass.core.worker_list import WorkerProcess
from windlass.operations import nodes
from windlass.operations.access import Access
from windlass.operations.nodes import NodeView
from windlass.operations.presentation import format_span
from windlass.wire.nodes import node_shape


@click.group()
def workers() -> None:
    """List nodes, their pools and worker processes."""


@workers.command("ls")
@store_option
@json_options
@click.option("--all", "with_lost", is_flag=True, help="Include nodes that ended in the last day.")
def ls(access: Access, form: str | None, with_lost: bool) -> None:
    """List nodes with their pools, and worker processes with their tasks."""
    found = [node for node in nodes.get_all(access) if with_lost or not node.session.lost]
    if print_json(form, [node_shape(node) for node in found], name="nodes"):
        return
    rows = [row for node in found for row in _rows(node)]
    heads = ("node", "pool", "queues", "#workers", "#running", "last seen", "notes")
    print_table(heads, rows, "No node is running. Start one with `windlass worker APP`.")
    _print_workers([node for node in found if not node.session.lost], access.now)


def _print_workers(found: Sequence[NodeView], now: Micros) -> None:
    """Print a table of the worker processes of all nodes, each as of its node's last renewal."""
    lists = [(node.session, node.workers) for node in found]
    rows = [
        [
            session.node,
            f"{worker.number}",
            f"{worker.pid or '–'}",
            worker.pool,
            worker.state,
            _format_since(worker.since, now),
            f"{worker.memory >> 20} MiB" if worker.memory else "–",
            f"{worker.tasks_run:,}",
            _tasks(worker, now),
        ]
        for session, listed in lists
        for worker in listed.workers
    ]
    if rows:
        echo()
        print_table(("node", "#worker", "#pid", "pool", "state", "#for", "#memory", "#tasks run", "running"), rows)
    for session, listed in lists:
        if listed.more:
            print_note(f"{session.node}: {format_count(listed.more, 'more worker')} not listed")


def _tasks(worker: WorkerProcess, now: Micros) -> str:
    listed = [f"{task.handler} {task.id} ({_format_since(task.since, now)})" for task in worker.tasks]
    hidden = worker.running - len(worker.tasks)
    return ", ".join([*listed, f"and {hidden} more"] if hidden else listed) or "–"


def _format_since(since: Micros, now: Micros) -> str:
    """Format the time since a moment of the node's clock, which may be a little ahead of ours."""
    return format_span(max(0, now - since))


def _rows(node: NodeView) -> list[list[str]]:
    session, report = node.session, node.report
    seen = f"{format_span(micros(session.age))} ago"
    if session.lost:
        return [[session.node, "–", "–", "–", "–", seen, "lost"]]
    if report is None:
        return _rows_without_report(node, seen)
    return [
        [
            session.node,
            name,
            ", ".join(pool.queues),
            f"{pool.ready}/{pool.target}",
            f"{pool.running}",
            seen,
            _notes(report, name),
        ]
        for name, pool in sorted(report.pools.items())
    ]


def _rows_without_report(node: NodeView, seen: str) -> list[list[str]]:
    """Return the rows of a node that has just started, or of a worker over HTTP, which reports nothing."""
    about = json_object(node.session.about)
    pools = about.get("pools") or {"–": about}
    slots = about.get("slots")  # Only workers over HTTP say this for all their queues.
    notes = "no report yet" if slots is None else f"worker over HTTP, {slots} slot{'' if slots == 1 else 's'}"
    return [
        [node.session.node, name, ", ".join(pool.get("queues") or []) or "–", "–", "–", seen, notes]
        for name, pool in pools.items()
    ]


def _notes(report: NodeReport, name: str) -> str:
    pool = report.pools[name]
    changing = (("starting", pool.starting), ("draining", pool.draining), ("asleep", pool.asleep))
    notes = [f"{count} {word}" for word, count in changing if count]
    if pool.threads > 1:
        notes.append(f"{pool.threads} slots each")
    if pool.deaths:
        notes.append(f"{format_count(pool.deaths, 'worker')} died")
    if report.degraded:
        notes.append(f"DEGRADED {report.degraded}")
    return ", ".join(notes)
