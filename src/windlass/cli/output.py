"""Print results: JSON documents, JSON lines, tables and task pages; colors and progress bars only on a terminal.

Results go to standard output. Notes, progress bars and questions go to standard error, so that a pipe never gets them.
`NO_COLOR` is honored.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import click
import msgspec

from windlass.clock import entropy
from windlass.core.lifecycle import State
from windlass.core.output import OutputFollower
from windlass.core.task import Attempt, Task
from windlass.operations.presentation import (
    ANSI,
    GLYPHS,
    Times,
    escape_controls,
    escape_json,
    escape_line,
    format_attempts,
    format_span,
)
from windlass.stores.protocol import Log, ProgressSeen

_ESCAPE = "\x1b["
_MARK = f"⟦{entropy(1)():016x}⟧"
"""Stands for the beginning of our own escape sequences until they are printed. No task can contain it by chance."""
STATES = (State.RUNNABLE, State.LEASED, State.WAITING, State.SCHEDULED, State.RETRYING, State.FAILED)
"""The states that tables of queues and tenants count."""


MIN_WIDTH = 8
"""The smallest width to which a column of a table is cut."""
STORE_META = "windlass.store"
"""The key of the context that holds the URL of the store, without its password."""


def print_json(form: str | None, value: Any, lines: Sequence[Any] | None = None, *, name: str = "") -> bool:
    """Print a value as JSON if `form` is "json" or "jsonl", and return whether it did.

    "json" prints one object, which also says which store it is from; a list is its field `name`. "jsonl" prints one
    line for each item of `lines`; by default for each item of a list, or one line for another value.
    """
    match form:
        case "json":
            document = {name: cast("list[Any]", value)} if isinstance(value, list) else value
            _echo_json(msgspec.json.format(msgspec.json.encode(_with_store(document), enc_hook=str)))
        case "jsonl":
            items = cast("list[Any]", value) if isinstance(value, list) else [value]
            for item in items if lines is None else lines:
                _echo_json(msgspec.json.encode(item, enc_hook=str))
        case _:
            return False
    return True


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text. Control characters in it, which may come from a task, are printed as escapes, except for `style`."""
    click.echo(escape_controls(text).replace(_MARK, _ESCAPE), err=err, nl=nl)


def _echo_json(encoded: bytes) -> None:
    click.echo(escape_json(encoded.decode()))


def _with_store(value: Any) -> Any:
    """Return the object with the URL of the store that the command has opened."""
    store = click.get_current_context().meta.get(STORE_META)
    plain: Any = msgspec.to_builtins(value, enc_hook=str)
    return plain if store is None else {"store": store, **cast("dict[str, Any]", plain)}


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]], empty: str = "") -> None:
    """Print aligned columns, or the note `empty` if there are no rows.

    A column whose head starts with `#` is aligned to the right. On a terminal that is too narrow, the widest columns
    are cut, but not ids, numbers and states.
    """
    if not rows and empty:
        print_note(empty)
        return
    texts = [[escape_controls(cell.replace("\n", " ")) for cell in row] for row in rows]
    titles = [head.removeprefix("#") for head in heads]
    widths = [max(_width(line[place]) for line in (titles, *texts)) for place in range(len(heads))]
    right = [head.startswith("#") for head in heads]
    if sys.stdout.isatty():
        styled = [any(_MARK in line[place] for line in texts) for place in range(len(heads))]
        kept = [styled[place] or right[place] or titles[place] == "id" for place in range(len(heads))]
        widths = fit_widths(widths, kept, shutil.get_terminal_size().columns)
        texts = [[_cut_plain(cell, width) for cell, width in zip(line, widths, strict=True)] for line in texts]
    for number, line in enumerate((titles, *texts)):
        cells = [_pad(*each) for each in zip(line, widths, right, strict=True)]
        text = "  ".join(cells).rstrip()
        echo(style(text, bold=True) if number == 0 else text)


def fit_widths(widths: Sequence[int], kept: Sequence[bool], columns: int) -> list[int]:
    """Return the widths of columns that fit into a terminal, as far as possible: the widest that may be cut shrink.

    >>> fit_widths([36, 40, 10], [True, False, False], 70)
    [36, 20, 10]
    """
    found = list(widths)
    excess = sum(found) + 2 * (len(found) - 1) - columns
    while excess > 0:
        places = [place for place, width in enumerate(found) if not kept[place] and width > MIN_WIDTH]
        if not places:
            break
        found[max(places, key=lambda place: found[place])] -= 1
        excess -= 1
    return found


def _cut_plain(text: str, width: int) -> str:
    return text if _MARK in text else cut(text, width)


def _width(text: str) -> int:
    return len(click.unstyle(text.replace(_MARK, _ESCAPE)))


def _pad(text: str, width: int, right: bool) -> str:
    space = " " * (width - _width(text))
    return space + text if right else text + space


def print_note(text: str) -> None:
    """Print a message for people to standard error; it is not part of the result."""
    echo(text, err=True)


def style(text: str, *, fg: str | None = None, bold: bool = False) -> str:
    """Return the text in a color or in bold, if the output has colors. Only `echo` prints it right."""
    if not has_color():
        return text
    begin, end = click.style("", fg=fg, bold=bold or None, reset=False), click.style("")
    return f"{begin.replace(_ESCAPE, _MARK)}{text}{end.replace(_ESCAPE, _MARK)}"


def color(text: str, state: State) -> str:
    """Return the text in the color of a state, if the output has colors."""
    return style(text, fg=ANSI[state])


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


def format_pause(by: str | None, why: str | None, until: str | None = None) -> str:
    """Format who paused something, until when and why, for a table."""
    return "PAUSED" + (f" by {by}" if by else "") + (f" until {until}" if until else "") + (f' "{why}"' if why else "")


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
    echo(f"{format_state(task.state)}  {task.handler}  {task.id}")
    for name, fact in _facts(task, times):
        if fact is not None:
            echo(f"  {name:<10} {escape_line(fact)}")
    for number, attempt in enumerate(attempts, 1):
        took = format_span(attempt.ended - attempt.started)
        echo(f"  attempt {number}: {attempt.state.value} after {took}, {times.format(attempt.ended)}")
        if attempt.error is not None:
            echo(f"    {escape_line(attempt.error.kind)}: {attempt.error.message}")
            _print_indented(attempt.error.traceback)


def print_logs(logs: Sequence[Log]) -> None:
    """Print the output of attempts."""
    for number, log in enumerate(logs, 1):
        _print_log_title(number, log)
        _print_indented(log.text)


class FollowedLogs:
    """Prints the output of attempts that is read again and again, each line once."""

    def __init__(self) -> None:
        self._followers: dict[int, OutputFollower] = {}

    def print_new(self, logs: Sequence[Log]) -> None:
        """Print the lines that are new since the last call."""
        for number, log in enumerate(logs, 1):
            if log.fence not in self._followers:
                self._followers[log.fence] = OutputFollower()
                _print_log_title(number, log)
            _print_indented("\n".join(self._followers[log.fence].find_new_lines(log.text, running=log.running)))


def _print_log_title(number: int, log: Log) -> None:
    echo(f"  output {number} (fence {log.fence}{', still running' if log.running else ''}):")


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
    yield "args", escape_json(task.args)
    yield "result", None if task.result is None else escape_json(task.result)


def _print_indented(text: str) -> None:
    echo("".join(f"    {line}\n" for line in text.splitlines()), nl=False)


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
