"""Verbs that change many tasks at once: the count first, then the question, then the deed.

Without a terminal nobody can be asked: then `--yes` must say it, or nothing is done and the exit status is 2.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from windlass.cli.output import number_of, print_note
from windlass.core.task import Task
from windlass.stores.protocol import Cursor, Filter, TaskReader

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

MOST_COUNTED = 10_000
"""Beyond so many the count is only said to be greater."""
_PAGE = 1_000


def bulk_options(command: Decorated) -> Decorated:
    """`--yes` and `--dry-run`."""
    command = click.option("--dry-run", is_flag=True, help="Say how many it would be, and do nothing.")(command)
    return click.option("-y", "--yes", is_flag=True, help="Do not ask.")(command)


def counted(store: TaskReader, filter: Filter) -> int:
    """How many tasks match, as far as `MOST_COUNTED` and one more."""
    found, after = 0, None
    while found <= MOST_COUNTED:
        page = store.find(filter, limit=_PAGE, after=after)
        found, after = found + len(page.tasks), page.after
        if after is None:
            break
    return min(found, MOST_COUNTED + 1)


def counted_words(count: int, most: int | None = None) -> str:
    """Format a count; above `most` (`MOST_COUNTED` by default) it says only that there are more."""
    most = MOST_COUNTED if most is None else most
    return f"more than {number_of(most)}" if count > most else number_of(count)


def confirm(deed: str, count: int, *, yes: bool, dry_run: bool, most: int | None = None) -> bool:
    """Whether to go on: the number was said, and somebody has agreed to it. `deed` is as in "cancel".

    A count above `most` is only said to be greater.
    """
    what = f"{deed} {counted_words(count, most)}"
    if dry_run:
        print_note(f"would {what}; nothing was done")
        return False
    if yes or not count:
        return True
    if not is_attended():
        raise click.UsageError(f"this would {what}: say --yes to do it, or --dry-run to see the number alone")
    return click.confirm(f"{what}?", err=True)


def is_attended() -> bool:
    """Whether somebody is there to be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def every(store: TaskReader, filter: Filter, *, limit: int | None = None, after: Cursor | None = None) -> list[Task]:
    """All tasks that match, page by page, or the newest `limit` of them."""
    found: list[Task] = []
    while limit is None or len(found) < limit:
        page = store.find(filter, limit=_PAGE if limit is None else min(_PAGE, limit - len(found)), after=after)
        found += page.tasks
        after = page.after
        if after is None:
            break
    return found
