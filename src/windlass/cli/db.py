"""`windlass db`: show, migrate, check, back up and copy the database."""

from __future__ import annotations

from collections.abc import Callable

import click

from windlass.cli.options import (
    Consent,
    author_options,
    choose_url,
    consent_options,
    dry_run_option,
    json_options,
    open_chosen,
    url_option,
)
from windlass.cli.output import echo, format_count, print_json, print_note, print_table, progress_bar
from windlass.errors import NotAllowed
from windlass.operations.author import Author
from windlass.redaction import redact_text
from windlass.stores.admin import TABLES, Admin, DatabaseMissing, Rows, Source, Status, Table, Target
from windlass.stores.migrate import NOTHING, Applied, check_compatible, migrations
from windlass.wire.commands import CopiedRows, Epoch, Migration, finding_shape, status_shape
from windlass.wiring import open_admin, open_store


@click.group()
def db() -> None:
    """Show, migrate, check, back up and copy the database."""


def open_database(url: str | None) -> Admin:
    """Open a database for maintenance and close it when the command ends."""
    admin = open_admin(choose_url(url))
    click.get_current_context().call_on_close(admin.close)
    return admin


@db.command()
@url_option
@json_options
def status(store_url: str | None, form: str | None) -> None:
    """Show the kind, version, size, task counts and durability of the database."""
    found = open_database(store_url).status()
    if print_json(form, status_shape(found)):
        return
    echo(f"{found.kind} {found.version}, schema {found.schema}{_compare(found)}, {format_size(found.bytes)}")
    tasks = ", ".join(f"{count:,} {state}" for state, count in found.tasks.items()) or "none"
    echo(f"  {'tasks':<22} {tasks}")
    echo(f"  {'sessions':<22} {found.sessions}")
    for name, value in found.facts.items():
        echo(f"  {name:<22} {value or '–'}")


def _compare(found: Status) -> str:
    """Return what to do about a schema that is not the one of this program."""
    if found.schema == found.newest:
        return ""
    if found.schema < found.newest:
        return f" (latest is {found.newest}: run `windlass db migrate`)"
    verdict = "can use it" if found.is_usable else "cannot use it"
    return (
        f" ({format_lead(found.schema, found.newest)} newer than this program, which {verdict}: upgrade this program)"
    )


def format_lead(schema: int, newest: int) -> str:
    """Format how far a schema is ahead of this program.

    >>> format_lead(8, 7)
    'one version'
    """
    lead = schema - newest
    return "one version" if lead == 1 else f"{lead} versions"


@db.command()
@url_option
@json_options
@dry_run_option
def migrate(store_url: str | None, form: str | None, dry_run: bool) -> None:
    """Create the tables or migrate them to the latest schema.

    Every command and node also does this when it opens a store. A newer schema is left as it is.
    """
    newest = _newest(store_url)
    found = _applied(store_url)
    check_compatible(found, newest)
    if not dry_run:
        open_store(choose_url(store_url)).close()
    before, after = found.version, found.version if dry_run else _applied(store_url).version
    if print_json(form, Migration(before=before, after=after, newest=newest)):
        return
    if before == newest:
        echo(f"Schema {newest} is up to date.")
    elif before > newest:
        echo(f"Schema {before} is {format_lead(before, newest)} newer than this program. Nothing was done.")
    else:
        echo(f"Schema {before} → {newest}" + (". Nothing was done." if dry_run else ""))


def _applied(url: str | None) -> Applied:
    """Return the schema of the database."""
    try:
        found = open_database(url).status()
    except DatabaseMissing:
        return NOTHING
    return Applied(found.schema, found.compatible_from)


def _newest(url: str | None) -> int:
    return migrations("postgres" if choose_url(url).startswith("postgres") else "sqlite")[-1].version


@db.command()
@url_option
@json_options
def check(store_url: str | None, form: str | None) -> None:
    """Check the database for damage and inconsistent rows.

    Exit status 1 if anything is found.
    """
    check_compatible(_applied(store_url), _newest(store_url))
    findings = open_database(store_url).check()
    if not print_json(form, [finding_shape(each) for each in findings], name="findings"):
        for finding in findings:
            echo(f"✗ {finding.check}: {finding.text} ({finding.count:,}): {', '.join(finding.examples)}")
        if not findings:
            echo("✓ No problems found.")
    if findings:
        raise SystemExit(1)


@db.command()
@url_option
@click.argument("to", metavar="FILE")
def backup(store_url: str | None, to: str) -> None:
    """Copy a SQLite database while it is in use.

    For PostgreSQL, print the pg_dump command to use.
    """
    admin = open_database(store_url)
    with progress_bar("copying", None, "pages") as advance:
        admin.backup(to, advance)
    print_note(f"{to} is complete. Before you use it as the database, run `windlass db raise-epoch` on it.")


@db.command("raise-epoch")
@url_option
@json_options
@consent_options
@author_options
def raise_epoch(store_url: str | None, form: str | None, consent: Consent, author: Author) -> None:
    """Invalidate all leases after a restore or failover.

    Running tasks lose their leases and run again.
    """
    store = open_chosen(store_url)
    if not consent.given_for("raise the epoch, so that every running task loses its lease and runs again"):
        return
    epoch = store.raise_epoch(entries=[author.entry("database", "raised", "raised the epoch")])
    # The backup may hold leases of tasks that their nodes have finished since. A node that still runs would renew its
    # session, and with it these leases, forever.
    for session in store.sessions():
        if not session.lost:
            store.close_session(session.id)
    if not print_json(form, Epoch(epoch=epoch)):
        echo(str(epoch))


@db.command()
@url_option
@json_options
@click.argument("to_url", metavar="URL")
@click.option("--live", is_flag=True, help="Copy although nodes are running; their later changes are not copied.")
@consent_options
def copy(store_url: str | None, form: str | None, to_url: str, live: bool, consent: Consent) -> None:
    """Copy everything into another, empty database.

    SQLite and PostgreSQL in any combination. Leases of the source are invalid in the copy: leased tasks run again.
    """
    source = open_database(store_url)
    found = source.status()
    _refuse_newer(found)
    _refuse_live(found, live)
    if not consent.dry_run:
        open_store(to_url).close()  # This creates the tables.
    with source.reading() as rows:
        total = sum(rows.count(each) for each in TABLES)
        where = redact_text(to_url)
        if not consent.given_for(f"copy {format_count(total, 'row')} to {where}"):
            print_json(form, CopiedRows(rows={}))
            return
        with open_database(to_url).writing() as target, progress_bar("copying", total, "rows") as advance:
            _check_empty(target, where)
            copied = {each.name: _copy(rows, target, each, advance) for each in TABLES}
            target.end(rows.epoch() + 1)
    if not print_json(form, CopiedRows(rows=copied)):
        print_table(("table", "#rows"), [[name, f"{count:,}"] for name, count in copied.items() if count])


def _refuse_newer(found: Status) -> None:
    if found.schema > found.newest:
        raise NotAllowed(
            f"The source has schema {found.schema}. This program is for schema {found.newest} and would leave out what "
            "is newer. Upgrade this program."
        )


def _refuse_live(found: Status, live: bool) -> None:
    if found.sessions and not live:
        nodes = format_count(found.sessions, "node")
        raise NotAllowed(f"{nodes} may be running. Their later changes would not be copied. Stop them, or use --live.")


def _check_empty(target: Target, where: str) -> None:
    if not target.is_empty():
        raise NotAllowed(f"{where} is not empty. Copy into an empty database.")


def _copy(source: Source, target: Target, each: Table, advance: Callable[[int], None]) -> int:
    count = 0
    for rows in source.rows(each):
        target.write(each, _mark_lost(each, rows))
        advance(len(rows))
        count += len(rows)
    return count


def _mark_lost(each: Table, rows: Rows) -> Rows:
    """Mark the sessions of the source as lost, so that a sweep of the target releases their tasks."""
    if each.name != "session":
        return rows
    lost = each.columns.index("lost")
    return [[*row[:lost], True, *row[lost + 1 :]] for row in rows]


def format_size(count: int) -> str:
    """Format a number of bytes.

    >>> format_size(1_500_000)
    '1.5 MB'
    """
    for unit, length in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= length:
            return f"{count / length:.3g} {unit}"
    return f"{count} bytes"
