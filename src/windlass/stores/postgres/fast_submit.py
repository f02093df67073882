"""The fast path of a submit: one statement that is a transaction of its own (`shortcuts/enqueue.sql`).

It takes plain tasks, which most calls of `enqueue` submit: no key, prerequisites, workflow or times, in a queue with
the default order and no limit. All other batches, and those for which it fails, take the regular path of
`stores.sql.submit`. Every fallback is counted in `counts` and logged at debug level.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

from windlass.clock import monotonic
from windlass.core.lifecycle import State
from windlass.core.ordering import Queue, place
from windlass.core.serving import kind_of
from windlass.core.submission import CHUNK, Draft, encode_rules
from windlass.core.task import Lease
from windlass.stores.postgres.database import PostgresDatabase
from windlass.stores.protocol import Receipt
from windlass.stores.sql.database import Values
from windlass.stores.sql.submit import Submitted

REMEMBERED = 10.0
"""For this many seconds, queues that the statement refused take the regular path at once."""

log = logging.getLogger(__name__)


class SubmitPath(StrEnum):
    """The path of a submit: the fast one, or why the regular one was used."""

    FAST = "fast"
    POOLER = "pooler"
    """The store connects through a transaction pooler, which allows no prepared statements."""
    LEASE = "lease"
    """The batch is submitted on behalf of an attempt."""
    ENTRIES = "entries"
    """The batch has audit entries."""
    LARGE = "large"
    """The batch has more tasks than one chunk."""
    NOT_PLAIN = "not_plain"
    """A task has a key, prerequisites, a workflow or times."""
    QUEUE = "queue"
    """A queue has another order, or a limit."""
    FAILED = "failed"
    """The statement failed, or its answer was lost: it may have been committed."""


class FastSubmits:
    """The fast path of one store."""

    def __init__(self, db: PostgresDatabase, *, pooler: bool) -> None:
        self._db = db
        self._pooler = pooler
        self._not_before: dict[str, float] = {}
        self.counts: Counter[SubmitPath] = Counter()

    def __call__(self, drafts: Sequence[Draft], lease: Lease | None, notes: Sequence[Values]) -> Submitted | SubmitPath:
        """Submit a batch. Return why not, if it must take the regular path."""
        submitted = self._why_not(drafts, lease, notes) or self._submit(drafts)
        path = submitted if isinstance(submitted, SubmitPath) else SubmitPath.FAST
        self.counts[path] += 1
        if path is not SubmitPath.FAST:
            log.debug("a submit of %d tasks takes the regular path: %s", len(drafts), path)
        return submitted

    def _why_not(self, drafts: Sequence[Draft], lease: Lease | None, notes: Sequence[Values]) -> SubmitPath | None:
        if self._pooler:
            return SubmitPath.POOLER
        if lease is not None:
            return SubmitPath.LEASE
        if notes:
            return SubmitPath.ENTRIES
        if len(drafts) > CHUNK:
            return SubmitPath.LARGE
        return None if all(map(_is_plain, drafts)) else SubmitPath.NOT_PLAIN

    def _submit(self, drafts: Sequence[Draft]) -> Submitted | SubmitPath:
        queues = sorted({one.new.queue for one in drafts})
        now = monotonic()
        if any(self._not_before.get(queue, 0.0) > now for queue in queues):
            return SubmitPath.QUEUE
        defaults = {queue: Queue(name=queue) for queue in queues}
        batch = [_columns(nth, one, defaults[one.new.queue]) for nth, one in enumerate(drafts)]
        to_notify = self._db.unnotified(queues)
        answer = self._db.run_shortcut("enqueue", batch, queues=queues, now=self._db.now(), to_notify=to_notify)
        if answer is None:
            return SubmitPath.FAILED
        if not answer:
            self._not_before.update(dict.fromkeys(queues, now + REMEMBERED))
            return SubmitPath.QUEUE
        self._db.mark_notified(to_notify)
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
    """Return a row for `enqueue`. The last part of the task's place is its due time, which the database adds."""
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
