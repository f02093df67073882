"""What nodes and people agree on, over SQL: controls, reports, the audit log, and the look."""

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
from windlass.errors import CommitUnknown, SessionLost
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
    check_report,
    is_prefix,
    kind_of,
)
from windlass.stores.protocol import check_limit
from windlass.stores.sql.database import Database, Transaction, Values

_LAST = 2**63 - 1


def report(db: Database, session: SessionId, text: str) -> None:
    """Keep what a node says of its pools."""
    text = check_report(text)
    if not db.transact(lambda tx: tx.query("report", session=session, report=text, now=db.lease_now()).rows()):
        raise SessionLost(session)


def look(db: Database, queues: Sequence[str], ahead: timedelta) -> Look:
    """What there is to do in some queues, what was agreed, and who is there."""
    until, asked = span(ahead, "ahead"), check_queues(queues)
    now, counts, heads, due, controls, reports = db.snapshot(
        [
            ("now", {"now": db.now()}),
            ("queue_counts", {"queues": asked}),
            ("queue_heads", {"queues": asked}),
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


def put_control(db: Database, kind: str, name: str, value: str | None, expect: int, entries: Sequence[Entry]) -> bool:
    """Write a control if nobody was here before.

    The mark makes a second try harmless: after a commit whose answer was lost it finds what the first has written.
    """
    value, batch = check_control(kind, name, value, expect), lines(entries)
    mark, unsure = fresh_id(SystemClock().now(), entropy(1)()), False

    def work(tx: Transaction) -> bool:
        put = tx.query("put_control", kind=kind, name=name, value=value, expect=expect, mark=mark, now=db.now())
        if put.rows():
            tx.execute("note", batch, now=db.now())
            return True
        [(version, found)] = tx.query("control_mark", kind=kind, name=name).rows() or [(0, None)]
        if found is not None and db.uuid(found) == mark:
            return True
        if unsure and version > expect + 1:
            raise CommitUnknown(f"{kind} {name!r} may have been written, and somebody has changed it since")
        return False

    def recover() -> bool | None:
        nonlocal unsure
        unsure = True
        return None

    return db.transact(work, recover=recover)


def note(db: Database, entries: Sequence[Entry]) -> None:
    """Append entries to the audit log."""
    batch = lines(entries)
    if batch:
        db.transact(lambda tx: tx.execute("note", batch, now=db.now()))


def controls(db: Database, kind: str) -> list[Control]:
    """The controls of a kind."""
    check_name("kind", kind)
    return _controls(db.read(lambda tx: tx.query("controls", kinds=[kind]).rows()))


def audit(db: Database, subject: str | None, limit: int, before: int | None) -> list[EntrySeen]:
    """A page of the audit log. A subject that ends in "/" stands for all up to the character behind that."""
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
        for number, at, about, action, text, by, data in db.read(work)
    ]


def lines(entries: Sequence[Entry]) -> list[Values]:
    """Entries as the statement `note` takes them."""
    return [
        (kind_of(one.subject), one.subject, one.action, one.text, one.by, one.data) for one in check_entries(entries)
    ]


def _queues(asked: Sequence[str], counts: Sequence[Values], heads: Sequence[Values]) -> list[QueueLook]:
    # A count is a sum over deltas: were one ever lost, there would still not be fewer tasks than none.
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
