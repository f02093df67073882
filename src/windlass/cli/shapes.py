"""How tasks look on the command line: as JSON for programs, in the HTTP API's own shapes; as lines for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from windlass.cli.output import print_json_form
from windlass.cli.stores import FORM
from windlass.clock import SystemClock
from windlass.core.task import Task
from windlass.core.times import Micros, to_datetime
from windlass.operations.handler_catalog import HandlerCatalog
from windlass.operations.presentation import GLYPHS
from windlass.wire.shapes import task_shape

__all__ = ["GLYPHS", "ago", "moment", "print_json", "print_table", "task_json"]


def task_json(task: Task, offers: HandlerCatalog) -> dict[str, Any]:
    """A task as programs see it: the shape that the HTTP API answers with."""
    return msgspec.to_builtins(task_shape(task, offers.parameters(task.handler)))


def print_json(value: Any) -> None:
    """JSON on standard output: one document, or with `--jsonl` a line for each part of a list."""
    print_json_form(click.get_current_context().meta.get(FORM) or "json", value)


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as what stands in them."""
    widths = [max(len(line[column]) for line in (heads, *rows)) for column in range(len(heads))]
    for line in (heads, *rows):
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


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
