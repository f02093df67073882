"""Print results: JSON documents, JSON lines, tables and task pages; colors and progress bars only on a terminal.

Results go to standard output. Notes, progress bars and questions go to standard error, so that a pipe never gets them.
`NO_COLOR` is honored.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import click
import msgspec

from windlass.core.lifecycle import State
from windlass.core.task import Attempt, Task
from windlass.operations.presentation import ANSI, GLYPHS, Times, format_attempts, format_span
from windlass.stores.protocol import Log, ProgressSeen

STATES = (State.RUNNABLE, State.LEASED, State.WAITING, State.SCHEDULED, State.RETRYING, State.FAILED)
"""The states that tables of queues and tenants count."""


def print_json(form: str | None, value: Any, lines: Sequence[Any] | None = None) -> bool:
    """Print a value as JSON if `form` is "json" or "jsonl", and return whether it did.

    "jsonl" prints one line for each item of `lines`; by default for each item of a list, or one line for another value.
    """
    match form:
        case "json":
            click.echo(msgspec.json.format(msgspec.json.encode(value, enc_hook=str)).decode())
        case "jsonl":
            items = cast("list[Any]", value) if isinstance(value, list) else [value]
            for item in items if lines is None else lines:
                click.echo(msgspec.json.encode(item, enc_hook=str).decode())
        case _:
            return False
    return True


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]], empty: str = "") -> None:
    """Print aligned columns, or the note `empty` if there are no rows.

    A column whose head starts with `#` is aligned to the right.
    """
    if not rows and empty:
        print_note(empty)
        return
    texts = [[cell.replace("\n", " ") for cell in row] for row in rows]
    titles = [head.removeprefix("#") for head in heads]
    widths = [max(len(click.unstyle(line[place])) for line in (titles, *texts)) for place in range(len(heads))]
    right = [head.startswith("#") for head in heads]
    for number, line in enumerate((titles, *texts)):
        cells = [_pad(*each) for each in zip(line, widths, right, strict=True)]
        text = "  ".join(cells).rstrip()
        click.echo(click.style(text, bold=True) if number == 0 and has_color() else text)


def _pad(text: str, width: int, right: bool) -> str:
    space = " " * (width - len(click.unstyle(text)))
    return space + text if right else text + space


def print_note(text: str) -> None:
    """Print a message for people to standard error; it is not part of the result."""
    click.echo(text, err=True)


def color(text: str, state: State) -> str:
    """Return the text in the color of a state, if the output has colors."""
    return click.style(text, fg=ANSI[state]) if has_color() else text


def has_color() -> bool:
    """Return True if standard output may have colors."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def format_state(state: State) -> str:
    """Format a state as its glyph and its name."""
    return color(f"{GLYPHS[state]} {state.value}", state)


def format_count(count: int, noun: str = "task") -> str:
    """Format a count with its noun.

    >>> format_count(1), format_count(1200)
    ('1 task', '1,200 tasks')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_few(names: Sequence[str], limit: int = 5) -> str:
    """Join the first names, and say how many more there are."""
    more = f" and {len(names) - limit:,} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def format_pause(by: str | None, why: str | None) -> str:
    """Format who paused something and why, for a table."""
    return "PAUSED" + (f" by {by}" if by else "") + (f' "{why}"' if why else "")


def cut(text: str, width: int) -> str:
    """Cut a text to a width, with an ellipsis if something is missing."""
    return text if len(text) <= width else text[: width - 1] + "…"


def print_tasks(tasks: Sequence[Task], times: Times) -> None:
    """Print a table of tasks."""
    rows = [
        [str(task.id), format_state(task.state), task.handler, task.queue, task.tenant, times.format(task.submitted)]
        for task in tasks
    ]
    print_table(("id", "state", "handler", "queue", "tenant", "submitted"), rows, "No task matches.")


def print_task(task: Task, attempts: Sequence[Attempt], times: Times) -> None:
    """Print the fields of a task and its attempts."""
    click.echo(f"{format_state(task.state)}  {task.handler}  {task.id}")
    for name, fact in _facts(task, times):
        if fact is not None:
            click.echo(f"  {name:<10} {fact}")
    for number, attempt in enumerate(attempts, 1):
        took = format_span(attempt.ended - attempt.started)
        click.echo(f"  attempt {number}: {attempt.state.value} after {took}, {times.format(attempt.ended)}")
        if attempt.error is not None:
            click.echo(f"    {attempt.error.kind}: {attempt.error.message}")
            _print_indented(attempt.error.traceback)


def print_logs(logs: Sequence[Log], first: int = 1) -> None:
    """Print the output of attempts, numbered from `first`."""
    for number, log in enumerate(logs, first):
        click.echo(f"  output {number} (fence {log.fence}):")
        _print_indented(log.text)


def format_progress(progress: ProgressSeen) -> str:
    """Format the progress of an attempt as a percentage and a message."""
    share = "" if progress.share is None else f"{progress.share:.0%} "
    return f"{share}{progress.message or ''}".strip()


def _facts(task: Task, times: Times) -> Iterator[tuple[str, str | None]]:
    def at(instant: int | None) -> str | None:
        return None if instant is None else times.format(instant)

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
    yield "attempts", format_attempts(task)
    yield "reason", task.reason
    yield "args", task.args
    yield "result", task.result


def _print_indented(text: str) -> None:
    click.echo("".join(f"    {line}\n" for line in text.splitlines()), nl=False)


@contextmanager
def progress_bar(title: str, total: int | None, unit: str = "") -> Generator[Callable[[int], None]]:
    """Show a progress bar on a terminal and yield a function that advances it; without a total, show a pulse."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield lambda step: progress.advance(task, step)
