"""The read path over SQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec

from windlass.core.lifecycle import State
from windlass.core.manifest import CronInfo, CronState, HandlerSeen
from windlass.core.ordering import Queue
from windlass.core.retry import Error
from windlass.core.task import Attempt, SessionId, Task, TaskId
from windlass.core.times import micros
from windlass.stores.protocol import (
    SESSIONS_SHOWN,
    Count,
    Log,
    Neighbour,
    Neighbourhood,
    ProgressSeen,
    Session,
)
from windlass.stores.sql.database import Database, Values
from windlass.stores.sql.rows import queue_from, task_from

_error = msgspec.json.Decoder(Error)


def get(db: Database, ids: Sequence[TaskId]) -> list[Task | None]:
    """Tasks by id, in the order asked for."""
    if not ids:
        return []
    batch = [(id,) for id in sorted(set(ids))]
    found = (task_from(db, line) for line in db.read(lambda tx: tx.query("get", batch).rows()))
    tasks = {task.id: task for task in found}
    return [tasks.get(id) for id in ids]


def counts(db: Database) -> list[Count]:
    """How many tasks there are."""
    rows = db.read(lambda tx: tx.query("counts").rows())
    return [Count(queue, tenant, State(state), tasks) for queue, tenant, state, tasks in rows]


def attempts(db: Database, task: TaskId) -> list[Attempt]:
    """Every ended attempt of a task."""
    rows = db.read(lambda tx: tx.query("attempts", task=task).rows())
    return [
        Attempt(
            fence=fence,
            session=SessionId(db.uuid(session)),
            started=started,
            ended=ended,
            state=State(state),
            error=None if error is None else _error.decode(error),
        )
        for fence, session, started, ended, state, error in rows
    ]


def logs(db: Database, task: TaskId) -> list[Log]:
    """What each ended attempt of a task printed."""
    return [Log(fence, text) for fence, text in db.read(lambda tx: tx.query("logs", task=task).rows())]


def progress_of(db: Database, ids: Sequence[TaskId]) -> list[ProgressSeen | None]:
    """How far tasks have come, in the order asked for."""
    if not ids:
        return []
    found = db.read(lambda tx: tx.query("progress_of", [(id,) for id in sorted(set(ids))]).rows())
    seen = {db.uuid(id): ProgressSeen(*rest) for id, *rest in found}
    return [seen.get(id) for id in ids]


def neighbourhood(db: Database, task: TaskId, limit: int) -> Neighbourhood:
    """What stands around a task."""
    above = db.read(lambda tx: tx.query("prerequisites", task=task, limit=limit).rows())
    below = db.read(lambda tx: tx.query("dependents", task=task, limit=limit).rows())
    return Neighbourhood(_neighbours(db, above), _neighbours(db, below))


def ahead(db: Database, task: TaskId, limit: int) -> int | None:
    """How many stand before a task; None if it stands where no claim looks."""
    [(count,)] = db.read(lambda tx: tx.query("count_ahead", task=task, limit=limit).rows())
    return count


def queues(db: Database) -> list[Queue]:
    """The settings of all queues that were configured."""
    return [queue_from(line) for line in db.read(lambda tx: tx.query("queues").rows())]


def sessions(db: Database, *, workers: bool = False) -> list[Session]:
    """The sessions that are alive, and those closed or lost of late."""
    asked: dict[str, Any] = {"age": micros(SESSIONS_SHOWN), "workers": workers}
    rows = db.read(lambda tx: tx.query("sessions", now=db.lease_now(), boot=db.boot(), **asked).rows())
    return [
        Session(
            id=SessionId(db.uuid(id)),
            node=node,
            about=about,
            age=timedelta(microseconds=age),
            lost=bool(lost),
            workers=listed,
        )
        for id, node, about, age, lost, listed in rows
    ]


def handlers(db: Database) -> list[HandlerSeen]:
    """Every handler that was published."""
    rows = db.read(lambda tx: tx.query("handlers").rows())
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


def crons(db: Database) -> list[CronState]:
    """Every cron that was published."""
    rows = db.read(lambda tx: tx.query("crons").rows())
    return [
        CronState(
            info=CronInfo(name=name, handler=handler, schedule=schedule, timezone=timezone, misfire=misfire, args=args),
            fired=fired,
            paused=bool(paused),
            paused_by=paused_by,
            paused_why=paused_why,
        )
        for name, handler, schedule, timezone, misfire, args, fired, paused, paused_by, paused_why in rows
    ]


def _neighbours(db: Database, rows: Sequence[Values]) -> list[Neighbour]:
    return [
        Neighbour(TaskId(db.uuid(id)), None if state is None else State(state), bool(resolved))
        for id, state, resolved in rows
    ]
