"""The verbs that take many tasks at once: cancel, retry, purge. By filter they say the number first, and ask."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

import click
from msgspec import Struct

from windlass.cli.audit_options import because, by_option, entry, why_option
from windlass.cli.bulk import bulk_options, confirm, counted, counted_words
from windlass.cli.output import form_options, number_of, print_json_form
from windlass.cli.stores import opened, store_option
from windlass.cli.task_selection import Filtered, TaskSelection, filter_options, narrowed, words_argument
from windlass.core.lifecycle import FINAL, UNFINISHED, State
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Filter, Selection, Store

_ENDED_BADLY = [state for state in FINAL if state.ended_badly]


class Verb(Struct, frozen=True, kw_only=True):
    """What is done, in words, and to tasks in which states."""

    name: str
    done: str
    states: Sequence[State]


CANCEL = Verb(name="cancel", done="cancelled", states=sorted(UNFINISHED))
RETRY = Verb(name="retry", done="retried", states=_ENDED_BADLY)
PURGE = Verb(name="purge", done="purged", states=list(FINAL))


class Asked(Struct, frozen=True, kw_only=True):
    """How it was asked for."""

    form: str | None
    yes: bool
    dry_run: bool
    why: str
    by: str | None


@click.command(cls=Filtered)
@store_option
@form_options
@filter_options
@words_argument("ID...|FILTER...")
@bulk_options
@click.option("--reason", "why", default="cancelled from the command line", show_default=True)
@by_option
def cancel(
    store_url: str | None,
    form: str | None,
    chosen: TaskSelection,
    words: Sequence[str],
    yes: bool,
    dry_run: bool,
    why: str,
    by: str | None,
) -> None:
    """Cancel the tasks with these IDs, or all that the filter matches. A running one is asked to stop."""
    store, which = opened(store_url), chosen.which(words)
    asked = Asked(form=form, yes=yes, dry_run=dry_run, why=why, by=by)
    perform(store, CANCEL, which, partial(store.cancel, reason=why), asked)


@click.command(cls=Filtered)
@store_option
@form_options
@filter_options
@words_argument("ID...|FILTER...")
@bulk_options
@why_option
@by_option
def retry(
    store_url: str | None,
    form: str | None,
    chosen: TaskSelection,
    words: Sequence[str],
    yes: bool,
    dry_run: bool,
    why: str,
    by: str | None,
) -> None:
    """Bring back failed, cancelled or expired tasks: those with these IDs, or all that the filter matches."""
    store, which = opened(store_url), chosen.which(words)
    perform(store, RETRY, which, store.retry, Asked(form=form, yes=yes, dry_run=dry_run, why=why, by=by))


@click.command(cls=Filtered)
@store_option
@form_options
@filter_options
@words_argument("ID...|FILTER...")
@bulk_options
@why_option
@by_option
def purge(
    store_url: str | None,
    form: str | None,
    chosen: TaskSelection,
    words: Sequence[str],
    yes: bool,
    dry_run: bool,
    why: str,
    by: str | None,
) -> None:
    """Remove finished tasks for good, dead letters too: those with these IDs, or all that the filter matches."""
    store, which = opened(store_url), chosen.which(words)
    perform(store, PURGE, which, store.purge, Asked(form=form, yes=yes, dry_run=dry_run, why=why, by=by))


class BulkAction(Protocol):
    """What is done to some tasks, with its line in the audit log; to how many it was."""

    def __call__(self, which: Selection, *, entries: Sequence[Entry]) -> int: ...


def perform(store: Store, verb: Verb, which: Selection, deed: BulkAction, asked: Asked) -> None:
    """Count, ask, do, and say how many it were."""
    left = _meant(store, verb, which)
    count = 0 if left is None else counted(store, left) if isinstance(left, Filter) else len(left)
    # Whoever names tasks one by one knows how many they are.
    named = not isinstance(which, Filter)
    if not confirm(verb.name, count, yes=asked.yes or named, dry_run=asked.dry_run):
        print_json_form(asked.form, {verb.done: 0, "matching": count})
        return
    done = 0 if left is None or not count else deed(left, entries=[_entry(verb, which, count, asked)])
    if not print_json_form(asked.form, {verb.done: done}):
        click.echo(f"{verb.done} {number_of(done)}")


def _entry(verb: Verb, which: Selection, count: int, asked: Asked) -> Entry:
    """What the audit log says of it. Of a filter it says how many tasks matched when it began."""
    if isinstance(which, Filter):
        subject, text = "tasks", f"{verb.done} what matched, {counted_words(count)}"
    else:
        subject, text = f"task/{which[0]}" if len(which) == 1 else "tasks", f"{verb.done} {number_of(count)}"
    return entry(subject, verb.done, text + because(asked.why), by=asked.by, which=_described(which))


def _meant(store: Store, verb: Verb, which: Selection) -> Selection | None:
    """Those of the tasks to which this can be done."""
    if isinstance(which, Filter):
        return narrowed(which, verb.states)
    return [task.id for task in store.get(which) if task is not None and task.state in verb.states]


def _described(which: Selection) -> object:
    """What was asked for, as the audit log keeps it."""
    if not isinstance(which, Filter):
        return [str(id) for id in which[:100]]
    given = {name: getattr(which, name) for name in ("queue", "tenant", "workflow", "handler")}
    said: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    if which.states:
        said["states"] = sorted(state.value for state in which.states)
    return said if which.query is None else {**said, "query": str(which.query)}
