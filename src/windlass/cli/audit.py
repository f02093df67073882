"""`windlass audit`: show the audit log, and undo entries."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import click

from windlass.cli.options import (
    author_options,
    json_options,
    limit_option,
    parse_since,
    since_option,
    store_option,
    tz_option,
)
from windlass.cli.output import print_json, print_note, print_table
from windlass.operations import audit as operations
from windlass.operations import undo
from windlass.operations.access import Access
from windlass.operations.audit import AuditPage
from windlass.operations.author import Author
from windlass.operations.presentation import Times
from windlass.wire.audit import entry_page, entry_shape


@click.group()
def audit() -> None:
    """Show the audit log, and undo entries."""


@audit.command("ls")
@store_option
@json_options
@tz_option
@click.argument("subject", required=False)
@click.option("--author", help="Only entries of this person or node.")
@since_option()
@limit_option()
def ls(
    access: Access,
    form: str | None,
    times: Times,
    subject: str | None,
    author: str | None,
    since: str | None,
    limit: int,
) -> None:
    """List audit entries, newest first.

    SUBJECT is the kind and name of what was changed, such as queue/mail, or a kind, such as pool/.
    """
    start = None if since is None else parse_since(since, times.now)
    found = list(islice(operations.each(access, subject, by=author, since=start), limit + 1))
    page = AuditPage(found[:limit], found[limit - 1].number if len(found) > limit else None)
    shape = entry_page(page)
    if print_json(form, shape, shape.entries):
        return
    rows = [
        [str(entry.number), times.format(entry.at), entry.by or "–", entry.subject, entry.action, entry.text]
        for entry in page.entries
    ]
    heads = ("#entry", "when", "by", "subject", "action", "what")
    print_table(heads, rows, f"No audit entries{f' for {subject}' if subject else ''}.")


@audit.command("undo")
@store_option
@json_options
@click.argument("numbers", metavar="NUMBER...", nargs=-1, required=True, type=click.IntRange(min=0))
@author_options
def undo_(access: Access, form: str | None, numbers: Sequence[int], author: Author) -> None:
    """Undo what entries record, if nobody has changed it since. `windlass audit ls` shows their numbers."""
    done = [undo.undo(access, number, author) for number in numbers]
    if print_json(form, [entry_shape(entry) for entry in done], name="undone"):
        return
    for entry in done:
        print_note(f"Undid #{entry.number}: {entry.text}")
