"""Handlers and crons in a SQL store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import asdict

from windlass.core.manifest import CronInfo, CronState, Manifest
from windlass.core.names import check_text
from windlass.core.retry import storable
from windlass.core.schedule import check_cron, check_version, put_cron
from windlass.core.validation import check_flag
from windlass.errors import CronExists, UnknownCron
from windlass.stores.coordination import Entry
from windlass.stores.sql.audited_change import AuditedChange
from windlass.stores.sql.base import SqlBase
from windlass.stores.sql.database import Transaction
from windlass.stores.sql.rows import cron_from


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
        crons = [(one.name, one.handler, one.schedule, one.timezone, one.misfire, one.args) for one in manifest.crons]
        act = AuditedChange(db, entries)

        def work(tx: Transaction) -> None:
            changed = [tx.query("publish_handlers", handlers, now=db.now())] if handlers else []
            tx.execute("see_handlers", [(name,) for name, *_ in handlers], now=db.now())
            changed += [tx.query("publish_crons", crons, now=db.now())] if crons else []
            if entries:
                act.note(tx, any(answer.rows() for answer in changed))

        db.transact(work)

    def put_cron(
        self, cron: CronInfo, *, expect: int, pause: tuple[str, str] | None = None, entries: Sequence[Entry] = ()
    ) -> CronState:
        cron, db = check_cron(cron), self._db
        act = AuditedChange(db, entries)

        def work(tx: Transaction) -> CronState:
            [(now,)] = tx.query("now", now=db.now()).rows()
            known = _lock_cron(tx, cron.name)
            if act.unsure and known is not None and known.info == cron:
                return known
            after = put_cron(known, cron, expect, now, pause)
            statement = "create_cron" if known is None else "change_cron"
            if after != known and not tx.query(statement, **_columns(after)).rows():
                raise CronExists(cron.name)
            act.note(tx, after != known)
            return after

        return db.transact(work, recover=act.recover)

    def pause_cron(
        self,
        name: str,
        paused: bool,
        *,
        by: str = "",
        why: str = "",
        expect: int | None = None,
        entries: Sequence[Entry] = (),
    ) -> None:
        check_text("cron", name)
        check_flag("paused", paused)
        db = self._db
        who, reason = (storable(by), storable(why)) if paused else (None, None)
        act = AuditedChange(db, entries)

        def work(tx: Transaction) -> bool:
            if expect is not None and (known := _lock_cron(tx, name)) is not None:
                check_version(known, expect)
            reasons: dict[str, Any] = {"paused_by": who, "paused_why": reason}
            changed = tx.query("pause_cron", name=name, paused=paused, **reasons, now=db.now()).rows()
            act.note(tx, changed)
            return bool(changed or tx.query("cron_is_known", name=name).rows())

        if not db.transact(work):
            raise UnknownCron(name)

    def remove_cron(self, name: str, *, expect: int | None = None, entries: Sequence[Entry] = ()) -> None:
        check_text("cron", name)
        db = self._db
        act = AuditedChange(db, entries)

        def work(tx: Transaction) -> bool:
            if expect is not None and (known := _lock_cron(tx, name)) is not None:
                check_version(known, expect)
            removed = tx.query("remove_cron", name=name).rows()
            act.note(tx, removed)
            return bool(removed)

        if not db.transact(work, recover=act.recover) and not act.unsure:
            raise UnknownCron(name)


def _lock_cron(tx: Transaction, name: str) -> CronState | None:
    """Lock a cron against firing and changes, and return it."""
    rows = tx.query("lock_cron", name=name).rows()
    return cron_from(rows[0]) if rows else None


def _columns(cron: CronState) -> dict[str, Any]:
    """Return the parameters of `create_cron` and `change_cron`."""
    return {**asdict(cron.info), **{name: value for name, value in asdict(cron).items() if name != "info"}}
