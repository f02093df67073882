"""A bar on standard error for what takes its time; nothing at all when that is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def bar(title: str, total: int | None, unit: str = "") -> Generator[Callable[[int], None]]:
    """Calls of what this gives move the bar on. Without a total it only shows that something moves."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield lambda step: progress.advance(task, step)
