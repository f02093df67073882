"""Controls, the audit log and the look at queues in a SQL store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from windlass.clock import SystemClock, entropy
from windlass.core.ids import fresh_id
from windlass.core.lifecycle import State
from windlass.core.names import check_name
from windlass.core.task import SessionId
from windlass.core.times import span
from windlass.errors import CommitUnknown
from windlass.stores.coordination import (
    LOOKED_AT,
    STEERING,
    Control,
    Due,
    Entry,
    EntrySeen,
    Look,
    QueueLook,
    Report,
    check_control,
    check_entries,
    check_queues,
    is_prefix,
    kind_of,
)
from windlass.stores.protocol import check_limit
from windlass.stores.sql.base import SqlBase
from windlass.stores.sql.database import Transaction, Values
from windlass.stores.sql.limit_settings import note_change

_LAST = 2**63 - 1


class SqlCoordination(SqlBase):
    """Look at queues, write controls, and keep the audit log."""

    def look(self, queues: Sequence[str], *, ahead: timedelta) -> Look:
        db = self._db
        until, asked = span(ahead, "ahead"), check_queues(queues)
        now, counts, heads, due, controls, reports = db.snapshot(
            [
                ("now", {"now": db.now()}),
                ("queue_counts", {"queues": asked}),
                ("queue_heads", {"queues": asked, "now": db.now()}),
                ("due_soon", {"queues": asked, "ahead": until, "limit": LOOKED_AT, "now": db.now()}),
                ("controls", {"kinds": list(STEERING)}),
                ("reports", {"now": db.lease_now(), "boot": db.boot()}),
            ]
        )
        return Look(
            now=now[0][0],
            queues=_queues(asked, counts, heads),
            due=[
                Due(queue=queue, state=State(state), seconds=seconds, tasks=tasks)
                for queue, state, seconds, tasks in sorted(due)
            ],
            controls=_controls(controls),
            reports=[
                Report(session=SessionId(db.uuid(id)), node=node, report=text, age=timedelta(microseconds=age))
                for id, node, text, age in reports
            ],
        )

    def put_control(
        self, kind: str, name: str, value: str | None, *, expect: int, entries: Sequence[Entry] = ()
    ) -> bool:
        db = self._db
        value, batch = check_control(kind, name, value, expect), entry_rows(entries)
        mark, unsure = fresh_id(SystemClock().now(), entropy(1)()), False

        def work(tx: Transaction) -> bool:
            put = tx.query("put_control", kind=kind, name=name, value=value, expect=expect, mark=mark, now=db.now())
            if put.rows():
                note_change(tx, kind, name)
                tx.execute("note", batch, now=db.now())
                return True
            [(version, found)] = tx.query("control_mark", kind=kind, name=name).rows() or [(0, None)]
            if found is not None and db.uuid(found) == mark:
                return True
            if unsure and version > expect + 1:
                raise CommitUnknown(f"{kind} {name!r} may have been written, and it has been changed since")
            return False

        def recover() -> bool | None:
            nonlocal unsure
            unsure = True
            return None

        return db.transact(work, recover=recover)

    def note(self, entries: Sequence[Entry]) -> None:
        db = self._db
        batch = entry_rows(entries)
        if batch:
            db.transact(lambda tx: tx.execute("note", batch, now=db.now()))

    def controls(self, kind: str) -> list[Control]:
        check_name("kind", kind)
        return _controls(self._db.read(lambda tx: tx.query("controls", kinds=[kind]).rows()))

    def audit(self, subject: str | None = None, *, limit: int = 100, before: int | None = None) -> list[EntrySeen]:
        check_limit(limit)
        page: dict[str, Any] = {"limit": limit, "before": _LAST if before is None else before}

        def work(tx: Transaction) -> Sequence[Values]:
            if subject is None:
                return tx.query("audit", **page).rows()
            if not is_prefix(subject):
                return tx.query("audit_of", subject=subject, **page).rows()
            behind = subject[:-1] + chr(ord("/") + 1)
            return tx.query("audit_under", kind=kind_of(subject), first=subject, behind=behind, **page).rows()

        return [
            EntrySeen(number=number, at=at, subject=about, action=action, text=text, by=by, data=data)
            for number, at, about, action, text, by, data in self._db.read(work)
        ]


def entry_rows(entries: Sequence[Entry]) -> list[Values]:
    """Return entries as rows for the statement `note`."""
    return [
        (kind_of(one.subject), one.subject, one.action, one.text, one.by, one.data) for one in check_entries(entries)
    ]


def _queues(asked: Sequence[str], counts: Sequence[Values], heads: Sequence[Values]) -> list[QueueLook]:
    # A count is a sum of deltas. It is never negative, even if a delta were lost.
    tasks = {(queue, state): max(0, number) for queue, state, number in counts}
    head = {queue: (oldest, bool(paused)) for queue, oldest, paused in heads}
    return [
        QueueLook(
            queue=queue,
            runnable=tasks.get((queue, State.RUNNABLE), 0),
            leased=tasks.get((queue, State.LEASED), 0),
            scheduled=tasks.get((queue, State.SCHEDULED), 0),
            retrying=tasks.get((queue, State.RETRYING), 0),
            oldest=head[queue][0],
            paused=head[queue][1],
        )
        for queue in asked
    ]


def _controls(rows: Sequence[Values]) -> list[Control]:
    return [
        Control(kind=kind, name=name, version=version, value=value, changed=changed)
        for kind, name, version, value, changed in rows
    ]
