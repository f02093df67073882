"""Reads of a SQL store, except `find` and the reads of workflows."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from windlass.core.lifecycle import State
from windlass.core.manifest import CronState, DueCrons, HandlerSeen
from windlass.core.names import check_name
from windlass.core.ordering import Queue, place
from windlass.core.payload import DAMAGED
from windlass.core.retry import Error
from windlass.core.task import Attempt, SessionId, Task, TaskId
from windlass.core.times import Micros
from windlass.core.validation import check_id, check_ids
from windlass.stores.protocol import (
    RECENT,
    Log,
    Neighbour,
    Neighbourhood,
    ProgressSeen,
    check_limit,
)
from windlass.stores.sql.base import SqlBase
from windlass.stores.sql.database import Database, Values
from windlass.stores.sql.rows import cron_from, queue_from, tasks_from

CHUNK = 1_000
"""How many tasks one read of `get` returns at most."""
_error = msgspec.json.Decoder(Error)


class SqlRead(SqlBase):
    """Read tasks and what belongs to them, queues, handlers and crons."""

    def get(self, tasks: Sequence[TaskId]) -> list[Task | None]:
        check_ids(tasks)
        return get_tasks(self._db, tasks)

    def attempts(self, task: TaskId) -> list[Attempt]:
        check_id(task)
        db = self._db
        rows = db.read(lambda tx: tx.query("attempts", task=task, limit=RECENT).rows())
        return [
            Attempt(
                fence=fence,
                session=SessionId(db.uuid(session)),
                started=started,
                ended=ended,
                state=State(state),
                error=None if error is None else _decode_error(error),
            )
            for fence, session, started, ended, state, error in rows
        ]

    def logs(self, task: TaskId) -> list[Log]:
        check_id(task)
        rows = self._db.read(lambda tx: tx.query("logs", task=task, limit=RECENT).rows())
        return [Log(fence, text, bool(running)) for fence, text, running in rows]

    def latest_output(self, tasks: Sequence[TaskId]) -> list[Log | None]:
        check_ids(tasks)
        if not tasks:
            return []
        db = self._db
        rows = db.read(lambda tx: tx.query("latest_output", [(id,) for id in sorted(set(tasks))]).rows())
        found = {db.uuid(task): Log(fence, text, bool(running)) for task, fence, text, running in rows}
        return [found.get(id) for id in tasks]

    def progress_of(self, tasks: Sequence[TaskId]) -> list[ProgressSeen | None]:
        check_ids(tasks)
        db = self._db
        if not tasks:
            return []
        found = db.read(lambda tx: tx.query("progress_of", [(id,) for id in sorted(set(tasks))]).rows())
        seen = {db.uuid(id): ProgressSeen(*rest) for id, *rest in found}
        return [seen.get(id) for id in tasks]

    def neighbourhood(self, task: TaskId, *, limit: int = 1_000) -> Neighbourhood:
        check_id(task)
        check_limit(limit)
        db = self._db
        above = db.read(lambda tx: tx.query("prerequisites", task=task, limit=limit).rows())
        below = db.read(lambda tx: tx.query("dependents", task=task, limit=limit).rows())
        return Neighbourhood(_neighbours(db, above), _neighbours(db, below))

    def ahead(self, task: TaskId, *, limit: int = 10_000) -> int | None:
        check_id(task)
        check_limit(limit)
        [(count,)] = self._db.read(lambda tx: tx.query("count_ahead", task=task, limit=limit).rows())
        return count

    def ahead_of_new(
        self, queue: str, *, due: Micros, priority: int = 0, deadline: Micros | None = None, limit: int = 10_000
    ) -> int:
        check_name("queue", queue)
        check_limit(limit)
        settings = next((each for each in self.queues() if each.name == queue), Queue(name=queue))
        band, rank, tie = place(settings, priority=priority, deadline=deadline, due=due)
        [(count,)] = self._db.read(
            lambda tx: tx.query("count_before", queue=queue, band=band, rank=rank, tie=tie, limit=limit).rows()
        )
        return count

    def queues(self) -> list[Queue]:
        return [queue_from(line) for line in self._db.read(lambda tx: tx.query("queues").rows())]

    def handlers(self) -> list[HandlerSeen]:
        rows = self._db.read(lambda tx: tx.query("handlers").rows())
        return [
            HandlerSeen(
                name=name,
                is_async=bool(is_async),
                queue=queue,
                parameters=parameters,
                returns=returns,
                doc=doc,
                template=template,
                seen=seen,
            )
            for name, is_async, queue, parameters, returns, doc, template, seen in rows
        ]

    def crons(self, name: str | None = None) -> list[CronState]:
        rows = self._db.read(lambda tx: (tx.query("crons") if name is None else tx.query("cron", name=name)).rows())
        return list(map(cron_from, rows))

    def crons_to_fire(self, handlers: Collection[str]) -> DueCrons:
        now = self._db.now()
        [[(at,)], rows] = self._db.snapshot(
            [("now", {"now": now}), ("crons_to_fire", {"handlers": sorted(handlers), "now": now})]
        )
        return DueCrons(now=at, crons=sorted(map(cron_from, rows), key=lambda cron: cron.info.name))


def get_tasks(db: Database, ids: Sequence[TaskId]) -> list[Task | None]:
    """Return the tasks with these ids, in this order; None for an unknown one.

    A read has a time limit, which must not depend on how many ids are asked for. Each thousand is a read of its own.
    """
    wanted, tasks = sorted(set(ids)), dict[TaskId, Task]()
    for start in range(0, len(wanted), CHUNK):
        batch = [(id,) for id in wanted[start : start + CHUNK]]
        found = tasks_from(db, db.read(lambda tx, batch=batch: tx.query("get", batch).rows()))
        tasks |= {task.id: task for task in found}
    return [tasks.get(id) for id in ids]


def _decode_error(text: str) -> Error:
    """Decode the error of an attempt. Damaged text becomes an error that says so."""
    try:
        return _error.decode(text)
    except (msgspec.DecodeError, TypeError):
        return Error(kind=DAMAGED, message="The stored error cannot be read.")


def _neighbours(db: Database, rows: Sequence[Values]) -> list[Neighbour]:
    return [
        Neighbour(TaskId(db.uuid(id)), None if state is None else State(state), bool(resolved))
        for id, state, resolved in rows
    ]
