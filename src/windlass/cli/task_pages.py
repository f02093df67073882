"""How tasks look to people: a line each, or all about one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec

from windlass.cli.output import painted, table
from windlass.cli.shapes import GLYPHS
from windlass.cli.time_options import Times, length
from windlass.core.lifecycle import State
from windlass.core.task import Attempt, Task
from windlass.operations.handler_catalog import HandlerCatalog
from windlass.redaction import redact, redact_text
from windlass.stores.protocol import Log, ProgressSeen
from windlass.wire.shapes import error_shape, log_shape


def state_shown(state: State) -> str:
    """A state's glyph and word: colour never stands alone."""
    return painted(f"{GLYPHS[state]} {state.value}", state)


def print_tasks(tasks: Sequence[Task], times: Times) -> None:
    """A line for each task."""
    rows = [
        [str(task.id), state_shown(task.state), task.handler, task.queue, task.tenant, times.both(task.submitted)]
        for task in tasks
    ]
    table(("id", "state", "handler", "queue", "tenant", "submitted"), rows)


def print_task(task: Task, attempts: Sequence[Attempt], offers: HandlerCatalog, times: Times) -> None:
    """Its facts, and how its attempts ended."""
    click.echo(f"{state_shown(task.state)}  {task.handler}  {task.id}")
    for name, fact in _facts(task, offers, times):
        if fact is not None:
            click.echo(f"  {name:<10} {fact}")
    for number, attempt in enumerate(attempts, 1):
        took = length(attempt.ended - attempt.started)
        click.echo(f"  attempt {number}: {attempt.state.value} after {took}, {times.both(attempt.ended)}")
        if attempt.error is not None:
            error = error_shape(attempt.error)
            click.echo(f"    {error.kind}: {error.message}")
            _print_indented(error.traceback)


def print_logs(logs: Sequence[Log], first: int = 1) -> None:
    """What attempts printed."""
    for number, log in enumerate(logs, first):
        click.echo(f"  output {number} (fence {log.fence}):")
        _print_indented(log_shape(log).text)


def progress_told(seen: ProgressSeen) -> str:
    """How far an attempt has come."""
    share = "" if seen.share is None else f"{seen.share:.0%} "
    return f"{share}{redact_text(seen.message or '')}".strip()


def _facts(task: Task, offers: HandlerCatalog, times: Times) -> Iterator[tuple[str, str | None]]:
    def at(instant: int | None) -> str | None:
        return None if instant is None else times.both(instant)

    yield "queue", task.queue
    yield "tenant", task.tenant
    yield "workflow", task.workflow
    yield "key", task.key
    yield "priority", str(task.priority) if task.priority else None
    yield "submitted", at(task.submitted)
    yield "due", at(task.due) if task.state in (State.SCHEDULED, State.RETRYING) else None
    yield "deadline", at(task.deadline)
    yield "expires", at(task.expires)
    yield "claimed", at(task.claimed)
    yield "finished", at(task.finished)
    yield "attempts", f"{task.attempts} (+{task.crashes} crashes, {task.losses} losses)"
    yield "reason", None if task.reason is None else redact_text(task.reason)
    yield "args", _json(redact(msgspec.json.decode(task.args), offers.parameters(task.handler)))
    yield "result", None if task.result is None else _json(redact(msgspec.json.decode(task.result)))


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _print_indented(text: str) -> None:
    click.echo("".join(f"    {line}\n" for line in text.splitlines()), nl=False)
