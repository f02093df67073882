"""Dead letters over HTTP: bugs first, tasks second; bring them back with care, with other arguments, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from msgspec import Meta, Struct

from windlass.core.task import Task, TaskId
from windlass.core.times import duration, to_datetime
from windlass.errors import InvalidTask
from windlass.operations.caller import Scope
from windlass.operations.canary import POLL_SECONDS, Canary
from windlass.operations.dead_letters import LOOKED_AT, UnknownGroup, group, groups, letters
from windlass.operations.edit_task import edited
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.server.http.streaming import Live
from windlass.server.routes.tasks import SUBMIT_ERRORS, receipt
from windlass.stores.coordination import Entry
from windlass.stores.dead_letters import DeadGroup
from windlass.stores.protocol import Filter
from windlass.wire.schemas import ErrorShape, Length, Name, Reason, Receipt
from windlass.wire.shapes import error_shape

route = Routes("dead")

GroupId = Annotated[str, Meta(pattern=r"^[0-9A-Za-z]{2,64}$")]
MOST_PATIENCE = 3_600.0
SHOWN = 1_000


class FindDead(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where, and how far back."""

    queue: Name | None = None
    tenant: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1_000
    """How many of the newest failed tasks are looked at."""


class GroupShape(Struct, frozen=True, kw_only=True):
    """One bug: every failed task whose last error is the same but for numbers, names and addresses in it."""

    group: str
    error: ErrorShape
    """The newest."""
    count: int
    handlers: list[str]
    tenants: list[str]
    first: datetime
    last: datetime
    tasks: list[UUID]
    """The newest first; in a list of groups no more than three."""


class RetryGroup(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bring them back."""

    canary: bool = False
    """One first, then ten, then all of them; stop if the bug is still there."""
    patience: Length = "10m"
    """How long a step of the canary may take."""


class GroupRetried(Struct, frozen=True, kw_only=True):
    """How far it has come. `fixed` is null while nobody knows, and without a canary."""

    group: str
    retried: int
    left: int
    fixed: bool | None
    text: str


class Dropped(Struct, frozen=True, kw_only=True):
    """How many tasks were removed for good."""

    group: str
    dropped: int


class EditTask(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Other arguments."""

    args: Annotated[dict[str, Any], Meta(min_length=1)]
    """Those to change, by name; the others stay as they were."""


RETRY, DROP = RetryGroup(), Reason()


@route("GET", "/dead", Scope.READ)
def list_dead(call: Call, query: FindDead) -> list[GroupShape]:
    """Every bug among the newest failed tasks, the most frequent first."""
    filter = _filter(call, query.queue, query.tenant)
    return (
        []
        if filter is None
        else [_shape(each, each.newest[:3]) for each in groups(call.store, filter, limit=query.limit)]
    )


@route("GET", "/dead/{group}", Scope.READ, errors=["unknown_group"])
def get_dead(call: Call, group: GroupId) -> GroupShape:
    """One bug, by its id or the beginning of it: its newest traceback, and the tasks that it has hit."""
    found = _group(call, group)
    return _shape(found, [task.id for task in _letters(call, found, SHOWN)])


@route("POST", "/dead/{group}/retry", Scope.OPERATE, errors=["unknown_group", "invalid_task"])
async def retry_dead(
    call: Call, live: Live, group: GroupId, body: RetryGroup = RETRY
) -> AsyncGenerator[Sequence[GroupRetried]]:
    """Bring back every task that a bug has hit; with a canary step by step, until the bug is seen again.

    Whoever takes lines is told of every step. When you go away, a canary ends where it stands.
    """
    patience = duration(body.patience, "patience").total_seconds()
    if not 0 < patience <= MOST_PATIENCE:
        raise InvalidTask(f"patience={body.patience!r} is out of range; give up to an hour")
    found = await live.run(lambda: _group(call, group))
    if not body.canary:
        yield [await live.run(lambda: _retried(call, found, body))]
        return
    entry = _entry(call, found, "retried", f"retries {found.id} with a canary", body)
    tasks = await live.run(lambda: _letters(call, found))
    trial, said = Canary(call.store, found, tasks, patience, entry), ""
    while (verdict := await live.run(trial.step)) is None:
        if trial.said != said:
            said = trial.said
            yield [GroupRetried(group=found.id, retried=trial.retried, left=trial.left, fixed=None, text=said)]
        await asyncio.sleep(POLL_SECONDS)
    yield [
        GroupRetried(group=found.id, retried=verdict.retried, left=trial.left, fixed=verdict.fixed, text=verdict.text)
    ]


@route("POST", "/dead/{group}/drop", Scope.OPERATE, errors=["unknown_group"])
def drop_dead(call: Call, group: GroupId, body: Reason = DROP) -> Dropped:
    """Remove every task that a bug has hit, for good."""
    found = _group(call, group)
    ids = [task.id for task in _letters(call, found)]
    number = call.store.purge(ids, entries=[_entry(call, found, "dropped", f"dropped {found.id}", body)])
    return Dropped(group=found.id, dropped=number)


@route(
    "POST",
    "/tasks/{id}/edit-and-retry",
    Scope.OPERATE,
    status=201,
    also=[200],
    errors=["unknown_task", "not_allowed", *SUBMIT_ERRORS],
)
def edit_and_retry(call: Call, id: UUID, body: EditTask) -> Receipt:
    """Submit a task that ended badly once more with other arguments. The old one is kept as it is.

    201 for the new task; 200 when the same change was submitted before.
    """
    old = call.task(TaskId(id))
    [written] = call.store.submit([edited(old, body.args, call.handlers.parameters(old.handler))])
    if written.created:
        text = f"submitted {written.id} in place of {old.id}, with other arguments{': ' if body.why else ''}{body.why}"
        call.note(f"task/{old.id}", "edited", text, successor=str(written.id), changed=sorted(body.args)[:100])
    else:
        call.status = 200
    call.response_headers["Location"] = f"../{written.id}"
    return receipt(written)


def _retried(call: Call, found: DeadGroup, reason: Reason) -> GroupRetried:
    ids = [task.id for task in _letters(call, found)]
    number = call.store.retry(ids, entries=[_entry(call, found, "retried", f"retried {found.id}", reason)])
    return GroupRetried(group=found.id, retried=number, left=0, fixed=None, text=f"retried {number}")


def _entry(call: Call, found: DeadGroup, action: str, text: str, reason: Reason) -> Entry:
    number, because = found.count, f": {reason.why}" if reason.why else ""
    return call.entry(f"dead/{found.id}", action, f"{text}, {number:,} task{'s' * (number != 1)}{because}")


def _filter(call: Call, queue: str | None = None, tenant: str | None = None) -> Filter | None:
    """Where this caller may look; None for nowhere."""
    who = call.caller
    if who.tenant not in (None, tenant or who.tenant) or who.queue not in (None, queue or who.queue):
        return None
    return Filter(queue=queue or who.queue, tenant=tenant or who.tenant)


def _group(call: Call, id: str) -> DeadGroup:
    try:
        return group(call.store, id, _filter(call))
    except UnknownGroup:
        raise UnknownGroup(f"group={id!r} is not that of one bug; GET /api/v1/dead lists them") from None


def _letters(call: Call, found: DeadGroup, limit: int = LOOKED_AT) -> list[Task]:
    return letters(call.store, found, _filter(call), limit=limit)


def _shape(found: DeadGroup, tasks: Sequence[TaskId]) -> GroupShape:
    return GroupShape(
        group=found.id,
        error=error_shape(found.error),
        count=found.count,
        handlers=found.handlers,
        tenants=found.tenants,
        first=to_datetime(found.first),
        last=to_datetime(found.last),
        tasks=[*tasks],
    )
