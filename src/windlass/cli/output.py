"""How results look: JSON in one document, JSON by lines, or text for people; colour only on a terminal.

Results are printed here to standard output. Talk, bars and questions go to standard error, so that a pipe never gets
them. `NO_COLOR` is honoured.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
import msgspec

from windlass.core.lifecycle import State

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

COLOURS = {
    State.WAITING: "white",
    State.SCHEDULED: "blue",
    State.RUNNABLE: "cyan",
    State.LEASED: "bright_blue",
    State.RETRYING: "yellow",
    State.COMPLETED: "green",
    State.FAILED: "red",
    State.CANCELLED: "bright_black",
    State.EXPIRED: "magenta",
}


def form_options(command: Decorated) -> Decorated:
    """`--json` and `--jsonl`, as `form`."""
    for name, text in (("jsonl", "Print JSON, one object a line."), ("json", "Print JSON for programs.")):
        command = click.option(f"--{name}", "form", flag_value=name, default=None, help=text)(command)
    return command


def print_json_form(form: str | None, found: Any) -> bool:
    """Print what was found if a program asked for it; whether one did."""
    match form:
        case "json":
            click.echo(msgspec.json.format(msgspec.json.encode(found, enc_hook=str)).decode())
        case "jsonl":
            for line in _lines(found):
                click.echo(msgspec.json.encode(line, enc_hook=str).decode())
        case _:
            return False
    return True


def _lines(found: Any) -> Sequence[Any]:
    return found if isinstance(found, list | tuple) else [found]  # pyright: ignore[reportUnknownVariableType] - JSON


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as what stands in them; numbers, by their heading `#`, to the right."""
    texts = [[cell.replace("\n", " ") for cell in row] for row in rows]
    titles = [head.removeprefix("#") for head in heads]
    widths = [max(len(click.unstyle(line[place])) for line in (titles, *texts)) for place in range(len(heads))]
    right = [head.startswith("#") for head in heads]
    for number, line in enumerate((titles, *texts)):
        cells = [_padded(*each) for each in zip(line, widths, right, strict=True)]
        text = "  ".join(cells).rstrip()
        click.echo(click.style(text, bold=True) if number == 0 and coloured() else text)


def _padded(text: str, width: int, to_the_right: bool) -> str:
    space = " " * (width - len(click.unstyle(text)))
    return space + text if to_the_right else text + space


def painted(text: str, state: State) -> str:
    """A text in the colour of a state, on a terminal."""
    return click.style(text, fg=COLOURS[state]) if coloured() else text


def coloured() -> bool:
    """Whether results may have colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def print_note(text: str) -> None:
    """Talk: for people, and not part of the result."""
    click.echo(text, err=True)


def number_of(count: int, noun: str = "task") -> str:
    """A count in words.

    >>> number_of(1), number_of(1200)
    ('1 task', '1,200 tasks')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
