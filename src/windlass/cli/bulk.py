"""The bulk verbs cancel, retry and purge: show the count, ask, then change the tasks."""

from __future__ import annotations

from collections.abc import Sequence

import click

from windlass.cli.options import (
    Consent,
    FilterCommand,
    TaskOptions,
    author_options,
    consent_options,
    json_options,
    store_option,
    task_options,
    words_argument,
)
from windlass.cli.output import echo, format_count, print_json
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.bulk import BulkAction, Verb, check_known
from windlass.stores.protocol import Filter, Selection
from windlass.wire.tasks import Done


def bulk_command(verb: Verb, help: str) -> click.Command:
    """Return the command that applies a verb to the tasks of ids or a filter."""

    @click.command(verb.value, cls=FilterCommand, help=help)
    @store_option
    @json_options
    @task_options
    @words_argument("ID...|FILTER...")
    @consent_options
    @author_options
    def command(
        access: Access,
        form: str | None,
        chosen: TaskOptions,
        words: Sequence[str],
        consent: Consent,
        author: Author,
    ) -> None:
        apply_verb(access, verb, chosen.selection(words), consent, author, form)

    return command


def apply_verb(
    access: Access, verb: Verb, which: Selection, consent: Consent, author: Author, form: str | None
) -> None:
    """Count the tasks, ask if a filter selects them, apply the verb and print how many tasks it changed.

    Raise `UnknownTask` for an id that no task has, before anything is changed.
    """
    if not isinstance(which, Filter):
        check_known(access, which)
    action = BulkAction(access, verb, which, author)
    count = action.count()
    # Tasks that are named one by one need no question.
    asked = Consent(yes=consent.yes or not isinstance(which, Filter), dry_run=consent.dry_run)
    if not asked.given(verb.value, count, exact=action.exact):
        print_json(form, Done(done=0, total=count))
        return
    done = action.run()
    if not print_json(form, Done(done=done, total=count)):
        echo(f"{verb.done.capitalize()} {format_count(done)}.")


COMMANDS = (
    bulk_command(Verb.CANCEL, "Cancel tasks by id or filter; running tasks are asked to stop."),
    bulk_command(Verb.RETRY, "Retry failed, cancelled or expired tasks by id or filter."),
    bulk_command(Verb.PURGE, "Delete finished tasks by id or filter."),
)
