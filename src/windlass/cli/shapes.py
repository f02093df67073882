"""How tasks look on the command line: as JSON for programs, in the HTTP API's own shapes; as lines for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import click
import msgspec

from windlass.clock import SystemClock
from windlass.core.lifecycle import State
from windlass.core.task import Attempt, Task
from windlass.core.times import Micros, to_datetime
from windlass.redaction import redacted
from windlass.server.offers import Offers
from windlass.server.shapes import error_shape, log_shape, task_shape
from windlass.stores.protocol import Log

GLYPHS = {
    State.WAITING: "◇",
    State.SCHEDULED: "◷",
    State.RUNNABLE: "▸",
    State.LEASED: "▶",
    State.RETRYING: "↻",
    State.COMPLETED: "✓",
    State.FAILED: "✗",
    State.CANCELLED: "–",
    State.EXPIRED: "⧗",
}


def task_json(task: Task, offers: Offers) -> dict[str, Any]:
    """A task as programs see it: the shape that the HTTP API answers with."""
    return msgspec.to_builtins(task_shape(task, offers.parameters(task.handler)))


def print_json(value: Any) -> None:
    """One JSON value on standard output."""
    click.echo(msgspec.json.format(msgspec.json.encode(value)).decode())


def print_tasks(tasks: Sequence[Task]) -> None:
    """A line for each task."""
    rows = [
        (str(task.id), f"{GLYPHS[task.state]} {task.state}", task.handler, task.queue, task.tenant, ago(task.submitted))
        for task in tasks
    ]
    print_table(("id", "state", "handler", "queue", "tenant", "submitted"), rows)


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as what stands in them."""
    widths = [max(len(line[column]) for line in (heads, *rows)) for column in range(len(heads))]
    for line in (heads, *rows):
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def print_task(task: Task, attempts: Sequence[Attempt], logs: Sequence[Log], offers: Offers) -> None:
    """All about one task."""
    click.echo(f"{GLYPHS[task.state]} {task.state}  {task.handler}  {task.id}")
    facts = {
        "queue": task.queue,
        "tenant": task.tenant,
        "workflow": task.workflow,
        "key": task.key,
        "priority": task.priority or None,
        "submitted": moment(task.submitted),
        "due": moment(task.due) if task.state in (State.SCHEDULED, State.RETRYING) else None,
        "deadline": moment(task.deadline),
        "expires": moment(task.expires),
        "finished": moment(task.finished),
        "attempts": f"{task.attempts} (+{task.crashes} crashes, {task.losses} losses)",
        "reason": task.reason,
        "args": _line(redacted(msgspec.json.decode(task.args), offers.parameters(task.handler))),
        "result": None if task.result is None else _line(redacted(msgspec.json.decode(task.result))),
    }
    for name, fact in facts.items():
        if fact is not None:
            click.echo(f"  {name:<10} {fact}")
    for number, attempt in enumerate(attempts, 1):
        took = timedelta(microseconds=attempt.ended - attempt.started)
        click.echo(f"  attempt {number}: {attempt.state} after {took.total_seconds():.3f} s")
        if attempt.error is not None:
            error = error_shape(attempt.error)
            click.echo(f"    {error.kind}: {error.message}")
            click.echo("".join(f"    {line}\n" for line in error.traceback.splitlines()), nl=False)
    for log in logs:
        click.echo(f"  output of fence {log.fence}:")
        click.echo("".join(f"    {line}\n" for line in log_shape(log).text.splitlines()), nl=False)


def _line(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def moment(instant: Micros | None) -> str | None:
    """A point in time, absolute and relative."""
    if instant is None:
        return None
    return f"{to_datetime(instant).astimezone():%Y-%m-%d %H:%M:%S %z} · {ago(instant)}"


def ago(instant: Micros) -> str:
    """How far away a moment is, in words."""
    seconds = (SystemClock().now() - instant) / 1e6
    size = abs(seconds)
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        if size >= length:
            return f"{size / length:.0f} {unit} ago" if seconds > 0 else f"in {size / length:.0f} {unit}"
    return "now"
