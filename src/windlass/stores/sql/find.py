"""Find tasks in a SQL store.

There are three ways, and the narrowest that applies is used: tasks with the ids that the filter names; tasks of some
states or workflows, if an index shows that they are few; the newest tasks. The database filters by what it can, the
filter checks the rest, and one call reads at most `SCANNED` tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

from windlass.core.task import Task, TaskId
from windlass.core.times import FOREVER, Micros
from windlass.stores.operator import check_filter
from windlass.stores.protocol import SCANNED, Cursor, Filter, Page, check_limit
from windlass.stores.sql.base import SqlBase
from windlass.stores.sql.database import Database
from windlass.stores.sql.filter_prefetch import Prefetch, prefetch
from windlass.stores.sql.rows import tasks_from

CHUNK = 500
"""The most tasks that are read at once: fewer if their arguments are large."""
CHUNK_BYTES = 2**20
LARGE_CHUNK = 50
_FIRST, _LAST = TaskId(UUID(int=0)), TaskId(UUID(int=2**128 - 1))


class SqlFind(SqlBase):
    """Find tasks."""

    def find(self, filter: Filter, *, limit: int = 100, after: Cursor | None = None) -> Page:
        check_filter(filter)
        check_limit(limit)
        return find_page(self._db, filter, limit, after)


def find_page(db: Database, filter: Filter, limit: int, after: Cursor | None = None) -> Page:
    """Return a page of the tasks that match, newest first."""
    limit = min(limit, SCANNED)
    now = now_if_timed(db, filter)
    wanted = prefetch(filter, now)
    if wanted.empty:
        return Page([], None)
    start = min(after or Cursor(FOREVER, _LAST), Cursor(wanted.before, _FIRST), key=_key)
    known = _known(db, wanted)
    if known is not None:
        tasks = _by_id(db, [id for submitted, id in known if (submitted, id) < _key(start)])
        return _page((task for task in tasks if filter.matches(task, now)), limit, None)
    # Without conditions, nothing is skipped, and the page size is the bound.
    end = None if filter == Filter() else _end(db, wanted, start)
    tasks = _newest(db, wanted, start, end or Cursor(wanted.since, _FIRST), limit)
    return _page((task for task in tasks if filter.query is None or filter.query.matches(task, now)), limit, end)


def find_ids(db: Database, filter: Filter) -> Iterator[list[TaskId]]:
    """Yield the ids of all tasks that match, newest first, in parts of at most `CHUNK`.

    Unlike a series of pages, it chooses the way once, so that each task is read only about twice.
    """
    found: list[TaskId] = []
    for task in _find_all(db, filter):
        found.append(task.id)
        if len(found) == CHUNK:
            yield found
            found = []
    if found:
        yield found


def _find_all(db: Database, filter: Filter) -> Iterator[Task]:
    now = now_if_timed(db, filter)
    wanted = prefetch(filter, now)
    if wanted.empty:
        return
    known = _known(db, wanted)
    if known is not None:
        before = (wanted.before, _FIRST)
        tasks = _by_id(db, [id for submitted, id in known if (submitted, id) < before])
        yield from (task for task in tasks if filter.matches(task, now))
        return
    start: Cursor | None = Cursor(wanted.before, _FIRST)
    while start is not None:
        end = _end(db, wanted, start)
        tasks = _newest(db, wanted, start, end or Cursor(wanted.since, _FIRST), CHUNK)
        yield from (task for task in tasks if filter.query is None or filter.query.matches(task, now))
        start = end


def now_if_timed(db: Database, filter: Filter) -> Micros:
    """Return the store's time if the filter depends on it, else 0."""
    if filter.query is None or not filter.query.timed:
        return 0
    [(now,)] = db.read(lambda tx: tx.query("now", now=db.now()).rows())
    return now


def _key(cursor: Cursor) -> tuple[Micros, UUID]:
    return cursor.submitted, cursor.id


def _page(matching: Iterator[Task], limit: int, end: Cursor | None) -> Page:
    """Return the first `limit` of these tasks as a page. `end` is where the search stopped, if there is more."""
    tasks: list[Task] = []
    for task in matching:
        if len(tasks) == limit:
            return Page(tasks, Cursor(tasks[-1].submitted, tasks[-1].id))
        tasks.append(task)
    return Page(tasks, end)


def _known(db: Database, wanted: Prefetch) -> list[tuple[Micros, TaskId]] | None:
    """Return the submit times and ids of all tasks that can match, newest first; None if unknown or too many."""
    if wanted.ids is not None:
        rows = db.read(lambda tx: tx.query("get", [(id,) for id in wanted.ids or ()]).rows())
        return sorted(((task.submitted, task.id) for task in tasks_from(db, rows)), reverse=True)
    workflows = wanted.workflows or []
    states = set[str]() if workflows else wanted.few_states
    if not workflows and not states:
        return None
    flags = {state: state in states for state in ("failed", "leased", "runnable")}
    due = not states.isdisjoint({"scheduled", "retrying"})
    asked: dict[str, object] = {**flags, "due": due, "workflows": workflows, "limit": SCANNED + 1}
    found = db.read(lambda tx: tx.query("indexed_candidates", None, **asked).rows())
    if len(found) > SCANNED:
        return None
    # A task that was pruned meanwhile has no submit time.
    return sorted(((at, TaskId(db.uuid(id))) for at, id in found if at is not None), reverse=True)


def _by_id(db: Database, ids: Sequence[TaskId]) -> Iterator[Task]:
    for first in range(0, len(ids), CHUNK):
        chunk = ids[first : first + CHUNK]
        rows = db.read(lambda tx, chunk=chunk: tx.query("get", [(id,) for id in sorted(chunk)]).rows())
        found = {task.id: task for task in tasks_from(db, rows)}
        yield from (found[id] for id in chunk if id in found)


def _end(db: Database, wanted: Prefetch, start: Cursor) -> Cursor | None:
    """Return the last task that this call reads, if there are more; else None.

    It is determined first, so that tasks submitted meanwhile do not move it.
    """
    at, id = start.submitted, start.id
    rows = db.read(lambda tx: tx.query("scanned", submitted=at, id=id, since=wanted.since, skip=SCANNED - 1).rows())
    return Cursor(rows[0][0], TaskId(db.uuid(rows[0][1]))) if len(rows) > 1 else None


def _newest(db: Database, wanted: Prefetch, start: Cursor, end: Cursor, limit: int) -> Iterator[Task]:
    """Yield the tasks from `start` to `end`, first reading one page and then larger chunks."""
    chunk = limit + 1
    while True:
        rows = db.read(
            lambda tx, start=start, chunk=chunk: tx.query(
                "find",
                submitted=start.submitted,
                id=start.id,
                end=end.submitted,
                end_id=end.id,
                states=wanted.states,
                queues=wanted.queues,
                tenants=wanted.tenants,
                workflows=wanted.workflows,
                handlers=wanted.handlers,
                limit=chunk,
            ).rows()
        )
        tasks = tasks_from(db, rows)
        yield from tasks
        if len(rows) < chunk or not tasks:
            return
        small = sum(len(task.args) for task in tasks) < CHUNK_BYTES
        start, chunk = Cursor(tasks[-1].submitted, tasks[-1].id), CHUNK if small else LARGE_CHUNK
