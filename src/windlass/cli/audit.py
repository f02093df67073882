"""`windlass audit`: show the audit log."""

from __future__ import annotations

from itertools import islice

import click

from windlass.cli.options import json_options, limit_option, parse_since, since_option, store_option, tz_option
from windlass.cli.output import print_json, print_table
from windlass.operations import audit as operations
from windlass.operations.access import Access
from windlass.operations.audit import AuditPage
from windlass.operations.presentation import Times
from windlass.wire.audit import entry_page


@click.group()
def audit() -> None:
    """Show the audit log."""


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
        [times.format(entry.at), entry.by or "–", entry.subject, entry.action, entry.text] for entry in page.entries
    ]
    print_table(
        ("when", "by", "subject", "action", "what"), rows, f"No audit entries{f' for {subject}' if subject else ''}."
    )
