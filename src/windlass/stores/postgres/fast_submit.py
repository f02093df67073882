"""The short way of a submit: plain tasks in one statement that is a transaction by itself.

A task is plain that has no key, prerequisites, workflow or times of its own, in a queue with the default order and no
limit; nearly every single `enqueue` is. Everything else, and whatever goes wrong here, goes the long way of
`stores.sql.submit`, which sees more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from windlass.clock import monotonic
from windlass.core.lifecycle import State
from windlass.core.ordering import Queue, place
from windlass.core.serving import kind_of
from windlass.core.submission import Draft, encode_rules
from windlass.stores.postgres.database import PostgresDatabase
from windlass.stores.protocol import Receipt
from windlass.stores.sql.submit import Submitted

REMEMBERED = 10.0
"""Seconds for which a queue with settings of its own is not asked about again."""


class FastSubmits:
    """Tries the short way for one store."""

    def __init__(self, db: PostgresDatabase) -> None:
        self._db = db
        self._not_before: dict[str, float] = {}

    def __call__(self, drafts: Sequence[Draft]) -> Submitted | Literal["not plain", "unsure"]:
        """Submit them if they are plain. Unsure is whether they are there when the connection was lost on the way."""
        queues = sorted({one.new.queue for one in drafts})
        now = monotonic()
        if not all(map(_is_plain, drafts)) or any(self._not_before.get(queue, 0.0) > now for queue in queues):
            return "not plain"
        by_default = {queue: Queue(name=queue) for queue in queues}
        batch = [_columns(nth, one, by_default[one.new.queue]) for nth, one in enumerate(drafts)]
        ring = self._db.silent(queues)
        answer = self._db.alone("enqueue", batch, queues=queues, now=self._db.now(), ring=ring)
        if answer is None:
            return "unsure"
        if not answer:
            self._not_before.update(dict.fromkeys(queues, now + REMEMBERED))
            return "not plain"
        self._db.notified(ring)
        return Submitted([Receipt(one.id, True, State.RUNNABLE) for one in drafts], [], set(queues))


def _is_plain(one: Draft) -> bool:
    new = one.new
    return (
        new.key is None
        and not one.prerequisites
        and new.workflow is None
        and new.deadline is None
        and new.delay is None
        and new.at is None
        and new.expires is None
    )


def _columns(nth: int, one: Draft, queue: Queue) -> tuple[object, ...]:
    """What is written of one task. The last part of its place is its due time, which only the database knows."""
    new = one.new
    band, rank, _ = place(queue, priority=new.priority, deadline=None, due=0)
    return (
        one.id,
        nth,
        new.queue,
        new.tenant,
        band,
        rank,
        new.on_failure.value,
        new.handler,
        one.args,
        encode_rules(one.rules),
        new.priority,
        kind_of(new.handler, one.rules),
    )
