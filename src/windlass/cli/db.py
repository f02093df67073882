"""`windlass db`: how the database is doing, whether it is sound, and copies of it."""

from __future__ import annotations

from collections.abc import Callable

import click

from windlass.cli.bulk import bulk_options, is_attended
from windlass.cli.output import form_options, number_of, print_json_form, print_note, table
from windlass.cli.progress import bar
from windlass.cli.stores import chosen, opened, store_option
from windlass.errors import NotAllowed
from windlass.redaction import redact_text
from windlass.stores.admin import TABLES, Admin, DatabaseMissing, Rows, Source, Status, Table, Target
from windlass.stores.migrate import migrations
from windlass.wiring import open_admin, open_store


@click.group()
def db() -> None:
    """Look after the database: status, migrations, checks, backup, copy."""


def admin_of(url: str | None) -> Admin:
    """The keeper's view of a database, closed when the command ends."""
    admin = open_admin(chosen(url))
    click.get_current_context().call_on_close(admin.close)
    return admin


@db.command()
@store_option
@form_options
def status(store_url: str | None, form: str | None) -> None:
    """What it is, how large, at which version, how many tasks it holds, and how durable it is."""
    found = admin_of(store_url).status()
    if print_json_form(form, found):
        return
    behind = "" if found.schema == found.newest else f", {found.newest} is known: run `windlass db migrate`"
    click.echo(f"{found.kind} {found.version}, schema {found.schema}{behind}, {size(found.bytes)}")
    tasks = ", ".join(f"{count:,} {state}" for state, count in found.tasks.items()) or "none"
    click.echo(f"  {'tasks':<22} {tasks}")
    click.echo(f"  {'sessions':<22} {found.sessions}")
    for name, value in found.facts.items():
        click.echo(f"  {name:<22} {value or '–'}")


@db.command()
@store_option
@form_options
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
def migrate(store_url: str | None, form: str | None, dry_run: bool) -> None:
    """Make the tables, or bring them up to date. Every command and node does so by itself when it opens a store."""
    before = _schema(store_url)
    if not dry_run:
        opened(store_url)
    after = before if dry_run else admin_of(store_url).status().schema
    newest = _newest(store_url)
    if print_json_form(form, {"before": before, "after": after, "newest": newest}):
        return
    if before == newest:
        click.echo(f"schema {newest} is up to date")
    else:
        click.echo(f"schema {before} → {newest}" + ("; nothing was done" if dry_run else ""))


def _schema(url: str | None) -> int:
    """The version there is; 0 for a file that is yet to be made."""
    try:
        return admin_of(url).status().schema
    except DatabaseMissing:
        return 0


def _newest(url: str | None) -> int:
    return migrations("postgres" if (chosen(url) or "").startswith("postgres") else "sqlite")[-1].version


@db.command()
@store_option
@form_options
def check(store_url: str | None, form: str | None) -> None:
    """Look for damage, and for rows that break what the engine promises. Exit status 1 if anything is found."""
    findings = admin_of(store_url).check()
    if not print_json_form(form, findings):
        for finding in findings:
            click.echo(f"✗ {finding.check}: {finding.text} ({finding.count:,}): {', '.join(finding.examples)}")
        if not findings:
            click.echo("✓ nothing is wrong")
    if findings:
        raise SystemExit(1)


@db.command()
@store_option
@click.argument("to", metavar="FILE")
def backup(store_url: str | None, to: str) -> None:
    """Copy a SQLite file while it is in use; for PostgreSQL this says the command of its own tool."""
    admin = admin_of(store_url)
    with bar("copying", None, "pages") as advance:
        admin.backup(to, advance)
    print_note(f"{to} is complete; before it is used in place of the original, run `windlass db raise-epoch` on it")


@db.command("raise-epoch")
@store_option
def raise_epoch(store_url: str | None) -> None:
    """After a restore or failover: make every later fence greater than any that was handed out before."""
    click.echo(str(opened(store_url).raise_epoch()))


@db.command()
@store_option
@form_options
@click.argument("to_url", metavar="URL")
@click.option("--live", is_flag=True, help="Copy although nodes are at work: what they do meanwhile is not copied.")
@bulk_options
def copy(store_url: str | None, form: str | None, to_url: str, live: bool, yes: bool, dry_run: bool) -> None:
    """Copy everything into another, empty database: SQLite to PostgreSQL, back, or alike.

    The target's epoch is raised, so that no lease of the source means anything there; what was leased runs again.
    """
    source = admin_of(store_url)
    _refuse_live(source.status(), live)
    if not dry_run:
        open_store(to_url).close()  # Which makes the tables.
    with source.reading() as rows:
        total = sum(rows.count(each) for each in TABLES)
        where = redact_text(to_url)
        if dry_run:
            print_note(f"would copy {number_of(total, 'row')} to {where}; nothing was done")
            return
        _ask(f"copy {number_of(total, 'row')} to {where}", yes=yes)
        with admin_of(to_url).writing() as target, bar("copying", total, "rows") as advance:
            _check_empty(target, where)
            copied = [(each.name, _copied(rows, target, each, advance)) for each in TABLES]
            target.end(rows.epoch() + 1)
    if not print_json_form(form, dict(copied)):
        table(("table", "#rows"), [[name, f"{count:,}"] for name, count in copied if count])


def _ask(what: str, *, yes: bool) -> None:
    if yes:
        return
    if not is_attended():
        raise click.UsageError(f"this would {what}: say --yes to do it, or --dry-run to see the number alone")
    click.confirm(f"{what}?", err=True, abort=True)


def _refuse_live(found: Status, live: bool) -> None:
    if found.sessions and not live:
        raise NotAllowed(
            f"{found.sessions} node(s) may be at work here, and what they do meanwhile would not be copied: stop them "
            "first, or say --live"
        )


def _check_empty(target: Target, where: str) -> None:
    if not target.is_empty():
        raise NotAllowed(f"{where} is in use already; only an empty database is filled")


def _copied(source: Source, target: Target, each: Table, advance: Callable[[int], None]) -> int:
    count = 0
    for rows in source.rows(each):
        target.write(each, _adapted(each, rows))
        advance(len(rows))
        count += len(rows)
    return count


def _adapted(each: Table, rows: Rows) -> Rows:
    """Sessions are the source's: in the target they are lost, and the sweep there gives their tasks to others."""
    if each.name != "session":
        return rows
    lost = each.columns.index("lost")
    return [[*row[:lost], True, *row[lost + 1 :]] for row in rows]


def size(count: int) -> str:
    """Bytes, for people.

    >>> size(1_500_000)
    '1.5 MB'
    """
    for unit, length in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= length:
            return f"{count / length:.3g} {unit}"
    return f"{count} bytes"
