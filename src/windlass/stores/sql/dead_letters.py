"""Failed tasks by error, over SQL."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import msgspec
from msgspec import Struct

from windlass.core.fingerprint import ended_without_error
from windlass.core.lifecycle import State
from windlass.core.retry import Error
from windlass.core.task import TaskId
from windlass.core.times import FOREVER, Micros
from windlass.stores.dead_letters import MOST_GROUPS, NEWEST, DeadCursor, DeadGroup, DeadGroups, DeadIds, DeadPage
from windlass.stores.protocol import SCANNED, check_limit
from windlass.stores.sql.base import SqlBase
from windlass.stores.sql.database import Database, Values
from windlass.stores.sql.read import get_tasks
from windlass.stores.totals import COUNTED

_error = msgspec.json.Decoder(Error)
_START = DeadCursor(FOREVER, TaskId(UUID(int=2**128 - 1)))
_END = DeadCursor(-FOREVER, TaskId(UUID(int=0)))


class _Gathered(Struct):
    """A group while its rows are put together."""

    count: int = 0
    first: Micros = FOREVER
    last: Micros = 0
    handlers: set[str] = msgspec.field(default_factory=set)
    tenants: set[str] = msgspec.field(default_factory=set)
    newest: list[tuple[Micros, TaskId]] = msgspec.field(default_factory=list)

    def to_group(self, id: str, error: Error) -> DeadGroup:
        return DeadGroup(
            id=id,
            count=self.count,
            error=error,
            first=self.first,
            last=self.last,
            handlers=sorted(self.handlers),
            tenants=sorted(self.tenants),
            newest=[task for _, task in self.newest],
        )


class SqlDeadLetters(SqlBase):
    """Read failed tasks by error."""

    def dead_groups(self, *, queue: str | None = None, tenant: str | None = None, limit: int = COUNTED) -> DeadGroups:
        check_limit(limit)
        db, asked = self._db, {"queue": queue, "tenant": tenant, "newest_of_each": NEWEST, "looked_at": limit}
        rows = db.read(lambda tx: tx.query("dead_groups", None, **asked).rows())
        found, failed = _gather(db, rows)
        largest = dict(sorted(found.items(), key=lambda item: (-item[1].count, item[0]))[:MOST_GROUPS])
        errors = _last_errors(db, [one.newest[0][1] for one in largest.values()])
        unknown = ended_without_error(None)  # The task was purged after its group was read.
        groups = [one.to_group(id, errors.get(one.newest[0][1], unknown)) for id, one in largest.items()]
        return DeadGroups(groups, complete=failed <= limit and len(found) <= MOST_GROUPS)

    def dead_letters(
        self,
        group: str,
        *,
        queue: str | None = None,
        tenant: str | None = None,
        limit: int = 100,
        after: DeadCursor | None = None,
    ) -> DeadPage:
        page = self.dead_ids(group, queue=queue, tenant=tenant, limit=limit, after=after)
        tasks = get_tasks(self._db, page.ids)
        # A task may have been retried or purged since its id was read.
        return DeadPage([task for task in tasks if task is not None and task.state is State.FAILED], page.after)

    def dead_ids(
        self,
        group: str,
        *,
        queue: str | None = None,
        tenant: str | None = None,
        limit: int = 100,
        after: DeadCursor | None = None,
    ) -> DeadIds:
        check_limit(limit)
        db, start, limit = self._db, after or _START, min(limit, SCANNED)
        end = _end_of_scan(db, start)
        until = end or _END
        asked = {"finished": start.finished, "id": start.id, "end": until.finished, "end_id": until.id}
        asked |= {"error_group": group, "queue": queue, "tenant": tenant, "limit": limit + 1}
        rows = db.read(lambda tx: tx.query("dead_letters", None, **asked).rows())
        page = [DeadCursor(finished, TaskId(db.uuid(id))) for finished, id in rows]
        if len(page) > limit:
            page.pop()
            end = page[-1]
        return DeadIds([one.id for one in page], end)


def _gather(db: Database, rows: Sequence[Values]) -> tuple[dict[str, _Gathered], int]:
    """Put the rows of `dead_groups` together by group; also return the number of failed tasks."""
    found: dict[str, _Gathered] = {}
    failed = 0
    for group, handler, tenant, tasks, first, last, id in rows:
        if tenant is None:
            failed = tasks
            continue
        one = found.setdefault(group, _Gathered())
        if id is not None:
            one.newest.append((last, TaskId(db.uuid(id))))
            continue
        one.count += tasks
        one.first, one.last = min(one.first, first), max(one.last, last)
        one.handlers.add(handler)
        one.tenants.add(tenant)
    for one in found.values():
        one.newest.sort(reverse=True)
    return found, failed


def _end_of_scan(db: Database, start: DeadCursor) -> DeadCursor | None:
    """Return the last task that a call looks at, if there are more behind it.

    It is found first, because tasks that fail meanwhile must not move it.
    """
    asked = {"finished": start.finished, "id": start.id, "skip": SCANNED - 1}
    rows = db.read(lambda tx: tx.query("dead_scanned", None, **asked).rows())
    return DeadCursor(rows[0][0], TaskId(db.uuid(rows[0][1]))) if len(rows) > 1 else None


def _last_errors(db: Database, ids: list[TaskId]) -> dict[TaskId, Error]:
    if not ids:
        return {}
    rows = db.read(lambda tx: tx.query("last_errors", [(id,) for id in sorted(ids)]).rows())
    return {
        TaskId(db.uuid(id)): ended_without_error(reason) if error is None else _error.decode(error)
        for id, reason, error in rows
    }
