"""Failed tasks by error, over SQL."""

from __future__ import annotations

from uuid import UUID

import msgspec
from msgspec import Struct

from windlass.core.fingerprint import ended_without_error
from windlass.core.lifecycle import State
from windlass.core.retry import Error
from windlass.core.task import TaskId
from windlass.core.times import FOREVER, Micros
from windlass.stores.dead_letters import MOST_GROUPS, NEWEST, DeadCursor, DeadGroup, DeadGroups, DeadPage, sort_groups
from windlass.stores.protocol import SCANNED
from windlass.stores.sql.database import Database
from windlass.stores.sql.read import get

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


def dead_groups(db: Database, queue: str | None, tenant: str | None, limit: int) -> DeadGroups:
    """Group the newest failed tasks by error: one statement for the groups, one for the newest error of each."""
    asked = {"queue": queue, "tenant": tenant, "newest_of_each": NEWEST, "looked_at": limit}
    rows = db.read(lambda tx: tx.query("dead_groups", None, **asked).rows())
    found: dict[str, _Gathered] = {}
    failed = 0
    for group, handler, of_tenant, tasks, first, last, id in rows:
        if of_tenant is None:
            failed = tasks
            continue
        one = found.setdefault(group, _Gathered())
        if id is not None:
            one.newest.append((last, TaskId(db.uuid(id))))
            continue
        one.count += tasks
        one.first, one.last = min(one.first, first), max(one.last, last)
        one.handlers.add(handler)
        one.tenants.add(of_tenant)
    for one in found.values():
        one.newest.sort(reverse=True)
    errors = _last_errors(db, [one.newest[0][1] for one in found.values()])
    groups = [one.to_group(id, errors.get(one.newest[0][1], ended_without_error(None))) for id, one in found.items()]
    return DeadGroups(sort_groups(groups), complete=failed <= limit and len(groups) <= MOST_GROUPS)


def dead_letters(
    db: Database, group: str, queue: str | None, tenant: str | None, limit: int, after: DeadCursor | None
) -> DeadPage:
    """Return a page of a group."""
    start = after or _START
    # Find first where this call stops looking: tasks that fail meanwhile must not move that.
    skip = {"finished": start.finished, "id": start.id, "skip": SCANNED - 1}
    behind = db.read(lambda tx: tx.query("dead_scanned", None, **skip).rows())
    end = DeadCursor(behind[0][0], TaskId(db.uuid(behind[0][1]))) if len(behind) > 1 else None
    until = end or _END
    asked = {"finished": start.finished, "id": start.id, "end": until.finished, "end_id": until.id}
    asked |= {"error_group": group, "queue": queue, "tenant": tenant, "limit": min(limit, SCANNED) + 1}
    rows = db.read(lambda tx: tx.query("dead_letters", None, **asked).rows())
    page = [DeadCursor(finished, TaskId(db.uuid(id))) for finished, id in rows]
    if len(page) > min(limit, SCANNED):
        page.pop()
        end = page[-1]
    tasks = get(db, [one.id for one in page])
    # A task may have been retried or purged since its id was read.
    return DeadPage([task for task in tasks if task is not None and task.state is State.FAILED], end)


def _last_errors(db: Database, ids: list[TaskId]) -> dict[TaskId, Error]:
    if not ids:
        return {}
    rows = db.read(lambda tx: tx.query("last_errors", [(id,) for id in sorted(ids)]).rows())
    return {
        TaskId(db.uuid(id)): ended_without_error(reason) if error is None else _error.decode(error)
        for id, reason, error in rows
    }
