"""`windlass workers`: list nodes, their pools and worker processes; drain and stop them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from windlass.autoscale.observe import NodeReport
from windlass.cli.completion import complete_node
from windlass.cli.options import author_options, json_options, store_option
from windlass.cli.output import echo, format_count, print_json, print_note, print_table
from windlass.core.payload import json_object
from windlass.core.times import Micros, micros
from windlass.core.worker_list import WorkerProcess
from windlass.operations import nodes
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.nodes import NodeView
from windlass.operations.presentation import format_span
from windlass.wire.nodes import node_shape


@click.group()
def workers() -> None:
    """List nodes and worker processes, drain and stop them."""


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


def _change(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what both commands have that stop something."""
    for option in (
        author_options,
        click.option("--whole-node", is_flag=True, help="The node itself, not one of its workers. It ends."),
        click.argument("number", type=int, required=False),
        click.argument("node", shell_complete=complete_node),
        json_options,
        store_option,
    ):
        command = option(command)
    return command


@workers.command()
@_change
def drain(access: Access, form: str | None, node: str, number: int | None, whole_node: bool, author: Author) -> None:
    """Drain a worker: it takes nothing new, finishes its running tasks and exits.

    Its pool starts another one if it still wants as many. With --whole-node, the node ends, as after SIGTERM.
    NODE is the name of a node or its session, NUMBER the number of a worker in `windlass workers ls`.
    """
    _check_target(number, whole_node)
    found = nodes.drain(access, node, number, author=author)
    if not print_json(form, node_shape(found)):
        what = f"Node {node} drains" if whole_node else f"Worker {number} of {node} drains"
        print_note(f"{what}: it finishes its running tasks and exits.")


@workers.command()
@_change
@click.option("--grace", metavar="TIME", default="5s", show_default=True, help="Time for running tasks to end.")
def stop(
    access: Access, form: str | None, node: str, number: int | None, whole_node: bool, grace: str, author: Author
) -> None:
    """Stop a worker: drain it, and after a grace kill it and release its tasks.

    Released tasks run again elsewhere; this counts neither as an attempt nor as a crash. A task with at_most_once
    fails. NODE is the name of a node or its session, NUMBER the number of a worker in `windlass workers ls`.
    """
    _check_target(number, whole_node)
    found = nodes.stop(access, node, number, author=author, grace=grace)
    if not print_json(form, node_shape(found)):
        what = f"Node {node}" if whole_node else f"Worker {number} of {node}"
        print_note(f"{what} stops. Tasks that still run after {grace} are released and run elsewhere.")


def _check_target(number: int | None, whole_node: bool) -> None:
    """Refuse a command that names no worker, so that nobody stops a whole node by mistake."""
    if (number is None) != whole_node:
        raise click.UsageError("Give either the NUMBER of a worker or --whole-node.")


def _print_workers(found: Sequence[NodeView], now: Micros) -> None:
    """Print a table of the worker processes of all nodes, each as of its node's last renewal."""
    rows = [
        [
            node.session.node,
            f"{worker.number}",
            f"{worker.pid or '–'}",
            worker.pool,
            node.describe_state(worker),
            _format_since(worker.since, now),
            f"{worker.memory >> 20} MiB" if worker.memory else "–",
            f"{worker.tasks_run:,}",
            _tasks(worker, now),
        ]
        for node in found
        for worker in node.workers.workers
    ]
    if rows:
        echo()
        print_table(("node", "#worker", "#pid", "pool", "state", "#for", "#memory", "#tasks run", "running"), rows)
    for node in found:
        if node.workers.more:
            print_note(f"{node.session.node}: {format_count(node.workers.more, 'more worker')} not listed")
        if stuck := node.describe_stuck():
            print_note(f"{node.session.node}: {stuck}")


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
            _notes(node, report, name),
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


def _notes(node: NodeView, report: NodeReport, name: str) -> str:
    pool = report.pools[name]
    changing = (("starting", pool.starting), ("draining", pool.draining), ("asleep", pool.asleep))
    notes = [f"{count} {word}" for word, count in changing if count]
    if request := node.find_request():
        notes.append(f"the node was {request.describe()}")
    if pool.threads > 1:
        notes.append(f"{pool.threads} slots each")
    if pool.deaths:
        notes.append(f"{format_count(pool.deaths, 'worker')} died")
    if report.degraded:
        notes.append(f"DEGRADED {report.degraded}")
    return ", ".join(notes)
