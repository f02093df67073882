"""`windlass audit`: what people and the autoscaler did or decided, and why."""

from __future__ import annotations

import click

from windlass.cli.output import form_options, print_json_form, print_note, table
from windlass.cli.stores import opened, store_option
from windlass.cli.time_options import Times, since, tz_option
from windlass.stores.coordination import EntrySeen
from windlass.stores.protocol import TaskReader
from windlass.wire.shapes import entry_shape

_PAGE = 1_000


@click.group()
def audit() -> None:
    """See what people and the autoscaler did or decided."""


@audit.command("ls")
@store_option
@form_options
@tz_option
@click.argument("subject", required=False)
@click.option("--by", help="Only what this person or node did.")
@click.option("--since", "beginning", metavar="WHEN", help="So long ago, as in 2h, or a moment.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 100_000))
def ls(
    store_url: str | None,
    form: str | None,
    times: Times,
    subject: str | None,
    by: str | None,
    beginning: str | None,
    limit: int,
) -> None:
    """The log, the newest first. SUBJECT is one of its subjects, as in queue/mail, or a kind, as in pool/."""
    earliest = None if beginning is None else since(beginning, times.now)
    entries = _entries(opened(store_url), subject, by, earliest, limit)
    if print_json_form(form, [entry_shape(entry) for entry in entries]):
        return
    shapes = [entry_shape(entry) for entry in entries]
    rows = [
        [times.both(entry.at), shape.by or "–", shape.subject, shape.action, shape.text]
        for entry, shape in zip(entries, shapes, strict=True)
    ]
    table(("when", "by", "subject", "action", "what"), rows)
    if not entries:
        print_note("nothing is in the log" + (f" of {subject}" if subject else ""))


def _entries(
    store: TaskReader, subject: str | None, by: str | None, earliest: int | None, limit: int
) -> list[EntrySeen]:
    found: list[EntrySeen] = []
    before = None
    while len(found) < limit:
        page = store.audit(subject, limit=min(_PAGE, limit), before=before)
        young = [entry for entry in page if earliest is None or entry.at >= earliest]
        found += [entry for entry in young if by in (None, entry.by)]
        if len(page) < min(_PAGE, limit) or len(young) < len(page):
            break
        before = page[-1].number
    return found[:limit]
