"""From what the engine knows to the shapes of `schemas`: decoded, dated, and without what is secret."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec

from windlass.core.manifest import CronState, HandlerSeen
from windlass.core.ordering import Queue
from windlass.core.payload import json_object
from windlass.core.retry import Error
from windlass.core.task import Attempt, Task
from windlass.core.times import Micros, to_datetime
from windlass.core.why import Why
from windlass.operations.legacy_tokens import Token
from windlass.redaction import redact, redact_text
from windlass.stores.coordination import EntrySeen
from windlass.stores.protocol import Count, Log, Neighbour, Neighbourhood, ProgressSeen
from windlass.wire.schemas import (
    AttemptShape,
    CronShape,
    EntryShape,
    ErrorShape,
    GateShape,
    GraphShape,
    HandlerShape,
    LogShape,
    NeighbourShape,
    ProgressShape,
    QueueShape,
    TaskShape,
    TokenShape,
    WhyShape,
)

Schema = Mapping[str, Any]
T = TypeVar("T")


def task_shape(task: Task, parameters: Schema | None = None) -> TaskShape:
    """A task; `parameters` is the schema of its handler's arguments, which may mark some as secret."""
    return TaskShape(
        id=task.id,
        handler=task.handler,
        args=redact(msgspec.json.decode(task.args), parameters),
        state=task.state,
        queue=task.queue,
        tenant=task.tenant,
        workflow=task.workflow,
        key=task.key,
        priority=task.priority,
        deadline=_moment(task.deadline),
        due=to_datetime(task.due),
        expires=_moment(task.expires),
        submitted=to_datetime(task.submitted),
        claimed=_moment(task.claimed),
        finished=_moment(task.finished),
        waiting=task.waiting,
        on_failure=task.on_failure,
        fence=task.fence,
        session=task.session,
        attempts=task.attempts,
        crashes=task.crashes,
        losses=task.losses,
        generation=task.generation,
        cancel_requested=task.cancel_requested,
        reason=_each(task.reason, redact_text),
        result=_each(task.result, lambda text: redact(msgspec.json.decode(text))),
        rules=task.rules,
    )


def attempt_shape(attempt: Attempt) -> AttemptShape:
    """One ended attempt."""
    return AttemptShape(
        fence=attempt.fence,
        session=attempt.session,
        started=to_datetime(attempt.started),
        ended=to_datetime(attempt.ended),
        seconds=timedelta(microseconds=attempt.ended - attempt.started).total_seconds(),
        state=attempt.state,
        error=_each(attempt.error, error_shape),
    )


def error_shape(error: Error) -> ErrorShape:
    """What went wrong, without passwords that it repeats."""
    return ErrorShape(kind=error.kind, message=redact_text(error.message), traceback=redact_text(error.traceback))


def log_shape(log: Log) -> LogShape:
    """What one attempt printed."""
    return LogShape(fence=log.fence, text=redact_text(log.text))


def progress_shape(seen: ProgressSeen) -> ProgressShape:
    """How far an attempt has come."""
    message = _each(seen.message, redact_text)
    return ProgressShape(fence=seen.fence, share=seen.share, message=message, at=to_datetime(seen.at))


def graph_shape(around: Neighbourhood) -> GraphShape:
    """A task's neighbours."""
    return GraphShape(prerequisites=_neighbours(around.prerequisites), dependents=_neighbours(around.dependents))


def why_shape(why: Why) -> WhyShape:
    """Why a task does not run."""
    gates = [GateShape(name=gate.name, open=gate.open, text=redact_text(gate.text), fix=gate.fix) for gate in why.gates]
    closed = None if why.closed is None else why.closed.name
    return WhyShape(task=why.task.id, state=why.task.state, closed=closed, gates=gates, outlook=why.outlook)


def queue_shapes(queues: Iterable[Queue], counts: Iterable[Count]) -> list[QueueShape]:
    """Every queue that was configured or has tasks, by name."""
    tasks: dict[str, dict[str, int]] = {}
    for count in counts:
        states = tasks.setdefault(count.queue, {})
        states[count.state.value] = states.get(count.state.value, 0) + max(0, count.tasks)
    known = {queue.name: queue for queue in queues}
    names = sorted(known.keys() | tasks.keys())
    return [queue_shape(known.get(name) or Queue(name=name), tasks.get(name, {})) for name in names]


def queue_shape(queue: Queue, tasks: dict[str, int]) -> QueueShape:
    """A queue's settings and its tasks by state."""
    return QueueShape(
        name=queue.name,
        strategy=queue.strategy,
        horizon_seconds=queue.horizon.total_seconds(),
        step_seconds=queue.step.total_seconds(),
        paused=queue.paused,
        paused_by=queue.paused_by,
        paused_why=_each(queue.paused_why, redact_text),
        max_waiting=queue.max_waiting,
        max_leased=queue.max_leased,
        weight=queue.weight,
        fair=queue.fair,
        tasks=tasks,
    )


def handler_shape(handler: HandlerSeen) -> HandlerShape:
    """A handler."""
    return HandlerShape(
        name=handler.name,
        queue=handler.queue,
        doc=handler.doc,
        is_async=handler.is_async,
        parameters=json_object(handler.parameters),
        returns=json_object(handler.returns),
        seen=to_datetime(handler.seen),
    )


def cron_shape(cron: CronState, parameters: Schema | None = None) -> CronShape:
    """A schedule; `parameters` as for tasks."""
    return CronShape(
        name=cron.info.name,
        handler=cron.info.handler,
        schedule=cron.info.schedule,
        timezone=cron.info.timezone,
        misfire=cron.info.misfire,
        args=redact(json_object(cron.info.args), parameters),
        fired=_moment(cron.fired),
        paused=cron.paused,
        paused_by=cron.paused_by,
        paused_why=_each(cron.paused_why, redact_text),
    )


def entry_shape(entry: EntrySeen) -> EntryShape:
    """One line of the audit log."""
    return EntryShape(
        number=entry.number,
        at=to_datetime(entry.at),
        subject=entry.subject,
        action=entry.action,
        text=redact_text(entry.text),
        by=entry.by,
        data=redact(json_object(entry.data)),
    )


def token_shape(name: str, token: Token) -> TokenShape:
    """A token, without what would open anything."""
    return TokenShape(
        name=name,
        scopes=[scope.value for scope in token.scopes],
        tenant=token.tenant,
        queue=token.queue,
        rate=token.rate,
        created=to_datetime(token.created),
        expires=_moment(token.expires),
        by=token.by,
    )


def _neighbours(found: Iterable[Neighbour]) -> list[NeighbourShape]:
    return [NeighbourShape(id=each.id, state=each.state, resolved=each.resolved) for each in found]


def _moment(instant: Micros | None) -> datetime | None:
    return None if instant is None else to_datetime(instant)


U = TypeVar("U")


def _each(value: T | None, change: Callable[[T], U]) -> U | None:
    return None if value is None else change(value)
