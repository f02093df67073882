"""The fast path of a submit: one statement that is a transaction of its own (`shortcuts/enqueue.sql`).

It takes plain tasks (`stores.sql.plain_tasks`). All other batches, and those for which it fails, take the regular path
of `stores.sql.submit`. Every fallback is counted in `counts` and logged at debug level.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

from windlass.clock import monotonic
from windlass.core.lifecycle import State
from windlass.core.submission import CHUNK, Draft
from windlass.core.task import Lease, TaskId
from windlass.stores.postgres.arrays import array
from windlass.stores.postgres.database import PostgresDatabase
from windlass.stores.protocol import Receipt
from windlass.stores.sql.database import Values
from windlass.stores.sql.plain_tasks import Common, is_plain, split_batch
from windlass.stores.sql.submit import Submitted

REMEMBERED = 10.0
"""For this many seconds, queues that the statement refused take the regular path at once."""

_TYPES = "text", "text", "bigint", "bigint", "text", "text", "text", "integer", "bigint"
"""The types of the columns of `Common`."""

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
    """A task has a key, prerequisites, a workflow or times, or is unique."""
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
        return None if all(map(is_plain, drafts)) else SubmitPath.NOT_PLAIN

    def _submit(self, drafts: Sequence[Draft]) -> Submitted | SubmitPath:
        common, tasks = split_batch(drafts)
        queues = sorted({one.queue for one in common})
        now = monotonic()
        if any(self._not_before.get(queue, 0.0) > now for queue in queues):
            return SubmitPath.QUEUE
        to_notify = self._db.unnotified(queues)
        answer = self._run(common, tasks, to_notify)
        if answer is None:
            return SubmitPath.FAILED
        if not answer:
            self._not_before.update(dict.fromkeys(queues, now + REMEMBERED))
            return SubmitPath.QUEUE
        self._db.mark_notified(to_notify)
        return Submitted([Receipt(one.id, True, State.RUNNABLE) for one in drafts], [], set(queues))

    def _run(
        self, common: Sequence[Common], tasks: Sequence[tuple[TaskId, str, int]], to_notify: Sequence[str]
    ) -> Sequence[Values] | None:
        run, now = self._db.run_shortcut, self._db.now()
        if len(tasks) == 1:
            [(id, args, _)] = tasks
            return run("enqueue_one", None, id=id, args=args, notify=bool(to_notify), now=now, **common[0]._asdict())
        columns = dict(zip(Common._fields, map(array, _TYPES, zip(*common, strict=True)), strict=True))
        return run("enqueue", tasks, now=now, to_notify=to_notify, **columns)
