"""What nodes tell a SQL store beside the work itself: handlers, crons, and how far attempts have come."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import astuple

from windlass.core.manifest import Manifest
from windlass.core.retry import storable
from windlass.core.task import Lease, Progress
from windlass.errors import UnknownCron
from windlass.stores.coordination import Entry
from windlass.stores.sql.audited_change import AuditedChange
from windlass.stores.sql.database import Database, Transaction


def publish(db: Database, manifest: Manifest, entries: Sequence[Entry]) -> None:
    """Make handlers and crons known, in the order of their names, so that two nodes that do so do not deadlock."""
    manifest = manifest.checked()
    handlers = [
        (one.name, one.is_async, one.queue, one.parameters, one.returns, one.doc, one.template)
        for one in manifest.handlers
    ]

    crons = [astuple(cron) for cron in manifest.crons]
    act = AuditedChange(db, entries)

    def work(tx: Transaction) -> None:
        changed = [tx.query("publish_handlers", handlers, now=db.now())] if handlers else []
        tx.execute("see_handlers", [(name,) for name, *_ in handlers], now=db.now())
        changed += [tx.query("publish_crons", crons)] if crons else []
        if entries:
            act.note(tx, any(answer.rows() for answer in changed))

    db.transact(work)


def pause_cron(db: Database, name: str, paused: bool, by: str, why: str, entries: Sequence[Entry]) -> None:
    """Let a cron fire no more, or again."""
    who, reason = (storable(by), storable(why)) if paused else (None, None)
    act = AuditedChange(db, entries)

    def work(tx: Transaction) -> bool:
        changed = tx.query("pause_cron", name=name, paused=paused, paused_by=who, paused_why=reason).rows()
        act.note(tx, changed)
        return bool(changed or tx.query("cron_is_known", name=name).rows())

    if not db.transact(work):
        raise UnknownCron(name)


def progress(db: Database, reports: Sequence[Progress]) -> list[Lease]:
    """Keep the latest report of each attempt; which of them no longer hold their task."""
    latest = {report.lease: report.storable() for report in reports}
    batch = [(lease.task, lease.fence, lease.session, report.share, report.message) for lease, report in latest.items()]
    if not batch:
        return []
    kept = db.transact(lambda tx: tx.query("progress", batch, now=db.now()).rows())
    held = {(db.uuid(task), fence) for task, fence in kept}
    return [lease for lease in latest if (lease.task, lease.fence) not in held]
