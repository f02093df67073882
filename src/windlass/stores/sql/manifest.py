"""Handlers and crons in a SQL store."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import astuple

from windlass.core.manifest import Manifest
from windlass.core.names import check_text
from windlass.core.retry import storable
from windlass.core.validation import check_flag
from windlass.errors import UnknownCron
from windlass.stores.coordination import Entry
from windlass.stores.sql.audited_change import AuditedChange
from windlass.stores.sql.base import SqlBase
from windlass.stores.sql.database import Transaction


class SqlManifest(SqlBase):
    """Publish handlers and crons, and pause crons."""

    def publish(self, manifest: Manifest, *, entries: Sequence[Entry] = ()) -> None:
        db = self._db
        manifest = manifest.checked()
        # In order of names, so that two nodes that publish at the same time do not deadlock.
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

    def pause_cron(
        self, name: str, paused: bool, *, by: str = "", why: str = "", entries: Sequence[Entry] = ()
    ) -> None:
        check_text("cron", name)
        check_flag("paused", paused)
        db = self._db
        who, reason = (storable(by), storable(why)) if paused else (None, None)
        act = AuditedChange(db, entries)

        def work(tx: Transaction) -> bool:
            changed = tx.query("pause_cron", name=name, paused=paused, paused_by=who, paused_why=reason).rows()
            act.note(tx, changed)
            return bool(changed or tx.query("cron_is_known", name=name).rows())

        if not db.transact(work):
            raise UnknownCron(name)

    def remove_cron(self, name: str, *, entries: Sequence[Entry] = ()) -> None:
        check_text("cron", name)
        db = self._db
        act = AuditedChange(db, entries)

        def work(tx: Transaction) -> bool:
            removed = tx.query("remove_cron", name=name).rows()
            act.note(tx, removed)
            return bool(removed)

        if not db.transact(work, recover=act.recover) and not act.unsure:
            raise UnknownCron(name)
