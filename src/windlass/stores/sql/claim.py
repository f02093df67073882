"""Claims in a SQL store: select and lock the next tasks, and write their leases.

Usually the claimer can run every task at the head of a queue, and one index scan finds them (`claim`). If that finds a
task that the claimer cannot run, the claim reads which kinds of tasks the queue has, decides about each kind
with `core.serving`, and takes the first tasks of the kinds that are served (`claim_kinds`) without reading the others.
Merged queues are always claimed by kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from windlass.core.fence import next_fence
from windlass.core.serving import EVERYTHING, Serves
from windlass.core.submission import decode_rules
from windlass.core.task import Claim, Lease, SessionId, TaskId
from windlass.core.times import Micros
from windlass.errors import SessionLost
from windlass.stores.sql.base import SqlBase
from windlass.stores.sql.database import Database, Transaction, Values
from windlass.stores.sql.rows import Counts, fence_of, place_of, rows_from, submitted_of, task_from

REACH = 2
"""A claim by kinds reads this many times its limit, because others may have locked the first tasks."""
REMEMBERED = 1_000


class SqlClaim(SqlBase):
    """Claim tasks. The store remembers in which queues it found tasks that a claimer does not serve."""

    def __init__(self, db: Database, retention: timedelta, series_kept: timedelta) -> None:
        super().__init__(db, retention, series_kept)
        self._mixed: set[tuple[str, Serves]] = set()

    def claim(
        self,
        session: SessionId,
        queues: Sequence[str],
        limit: int,
        *,
        serves: Serves = EVERYTHING,
        merge: bool = False,
    ) -> list[Claim]:
        db = self._db
        asked = list(dict.fromkeys(queues))
        chosen: list[Claim] = []

        def work(tx: Transaction) -> list[Claim]:
            chosen.clear()
            if merge and len(asked) > 1:
                kinds = [kind for queue in asked for kind in self._kinds(tx, queue, serves)[0]]
                chosen.extend(self._by_kind(tx, session, kinds, limit))
            else:
                for queue in asked:
                    if len(chosen) < limit:
                        chosen.extend(self._next(tx, session, queue, limit - len(chosen), serves))
            if chosen:
                _grant(tx, session, chosen)
            elif not tx.query("session_is_alive", session=session).rows():
                raise SessionLost(session)
            return list(chosen)

        def recover() -> list[Claim] | None:
            """After the answer to a commit was lost, return the claims if it was committed, or None to try again.

            The rows are locked to read them, because the commit may still be in progress.
            """
            if not chosen:
                return None
            ids = sorted((one.lease.task,) for one in chosen)
            held = db.transact(lambda tx: tx.query("lock_tasks", ids).rows())
            stored = {row.id: (row.fence, row.session) for row in rows_from(db, held)}
            stand = [one for one in chosen if stored.get(one.lease.task) == (one.lease.fence, session)]
            return stand or None

        return db.transact(work, recover=recover)

    def _next(self, tx: Transaction, session: SessionId, queue: str, limit: int, serves: Serves) -> list[Claim]:
        """Lock and return the next tasks of a queue that the claimer serves."""
        mixed = (queue, serves)
        if mixed in self._mixed:
            kinds, all_served = self._kinds(tx, queue, serves)
            if not all_served:
                return self._by_kind(tx, session, kinds, limit)
            self._mixed.discard(mixed)
        asked = tx.query("claim", queue=queue, session=session, limit=limit, now=self._db.now())
        claims = self._claims(session, asked.rows())
        if serves == EVERYTHING or all(serves.can_run(claim.task.handler, claim.task.rules) for claim in claims):
            return claims
        if len(self._mixed) >= REMEMBERED:
            self._mixed.clear()
        self._mixed.add(mixed)
        return self._by_kind(tx, session, self._kinds(tx, queue, serves)[0], limit)

    def _kinds(self, tx: Transaction, queue: str, serves: Serves) -> tuple[list[Values], bool]:
        """Return the kinds of runnable tasks in a queue that the claimer serves, and True if it serves all."""
        there = tx.query("kinds", queue=queue).rows()
        served = [(queue, kind) for kind, handler, rules in there if serves.can_run(handler, decode_rules(rules))]
        return served, len(served) == len(there)

    def _by_kind(self, tx: Transaction, session: SessionId, kinds: Sequence[Values], limit: int) -> list[Claim]:
        if not kinds:
            return []
        asked = tx.query("claim_kinds", kinds, session=session, limit=limit, reach=REACH * limit, now=self._db.now())
        return self._claims(session, sorted(asked.rows(), key=place_of)[:limit])

    def _claims(self, session: SessionId, lines: Sequence[Values]) -> list[Claim]:
        return [_claim(self._db, session, line) for line in lines]


def _claim(db: Database, session: SessionId, line: Values) -> Claim:
    epoch, now, id = line[:3]
    fence = next_fence(fence_of(line[2:]), epoch=epoch, submitted=submitted_of(line[2:]))
    lease = Lease(TaskId(db.uuid(id)), fence, session)
    return Claim(lease, task_from(db, line[2:], lease=lease, now=now))


def _grant(tx: Transaction, session: SessionId, claims: Sequence[Claim]) -> None:
    """Write the leases of locked tasks."""
    waits: dict[tuple[str, str], list[Micros]] = {}
    for claim in claims:
        task = claim.task
        # A task of a batch is due some microseconds after its submit, so it may be claimed before that.
        waits.setdefault((task.queue, task.tenant), []).append(max(0, (task.claimed or 0) - task.due))
    counts = Counts()
    for (queue, tenant), each in waits.items():
        counts.claim(queue, tenant, len(each), sum(each), max(each))
    grants = [(claim.lease.task, claim.lease.fence) for claim in claims]
    tx.execute("lease", grants, session=session, now=claims[0].task.claimed)
    counts.write(tx, claims[0].task.claimed)
