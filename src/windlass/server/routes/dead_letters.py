"""Dead letters over HTTP: failed tasks by bug, retried with or without a canary, or dropped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from windlass.core.times import duration
from windlass.errors import InvalidTask
from windlass.operations import dead_letters
from windlass.operations.caller import Scope
from windlass.operations.canary import POLL_SECONDS, Canary
from windlass.operations.dead_letters import GroupRetried
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.server.http.streaming import Live
from windlass.wire.dead_letters import DeadGroupShape, Dropped, RetryGroup, group_shape
from windlass.wire.fields import NO_REASON, Name, Reason

route = Routes("dead")

GroupId = Annotated[str, Meta(pattern=r"^[0-9A-Za-z]{2,64}$")]
MAX_PATIENCE = 3_600.0
MAX_TASKS, MAX_TASKS_IN_LIST = 1_000, 3
RETRY = RetryGroup()


class FindDead(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which failed tasks to group."""

    queue: Name | None = None
    tenant: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1_000
    """How many of the newest failed tasks to group."""


@route("GET", "/dead", Scope.READ)
def list_dead(call: Call, query: FindDead) -> list[DeadGroupShape]:
    """List the bugs among the newest failed tasks, the most frequent first."""
    found = dead_letters.get_all(call.access, queue=query.queue, tenant=query.tenant, limit=query.limit)
    return [group_shape(group, group.newest[:MAX_TASKS_IN_LIST]) for group in found]


@route("GET", "/dead/{group}", Scope.READ, errors=["unknown_group"])
def get_dead(call: Call, group: GroupId) -> DeadGroupShape:
    """Get one bug by its id or the beginning of it: its newest traceback and its tasks."""
    found = dead_letters.get(call.access, group)
    return group_shape(found, dead_letters.get_ids(call.access, found, limit=MAX_TASKS))


@route("POST", "/dead/{group}/retry", Scope.OPERATE, errors=["unknown_group", "invalid_task"])
async def retry_dead(
    call: Call, live: Live, group: GroupId, body: RetryGroup = RETRY
) -> AsyncGenerator[Sequence[GroupRetried]]:
    """Retry every task of a bug; with a canary step by step, until the bug is seen again.

    A client that accepts lines gets one for each step. A canary stops when its client disconnects.
    """
    patience = duration(body.patience, "patience").total_seconds()
    if not 0 < patience <= MAX_PATIENCE:
        raise InvalidTask(f"patience={body.patience!r} is out of range. Use up to an hour.")
    author = call.author(body)
    found = await live.run(lambda: dead_letters.get(call.access, group))
    if not body.canary:
        yield [await live.run(lambda: dead_letters.retry(call.access, found, author))]
        return
    canary = await live.run(lambda: Canary(call.access, found, patience, author))
    while not canary.ended:
        if (progress := await live.run(canary.step)) is None:
            await asyncio.sleep(POLL_SECONDS)
        else:
            yield [progress]


@route("POST", "/dead/{group}/drop", Scope.OPERATE, errors=["unknown_group", "invalid_task"])
def drop_dead(call: Call, group: GroupId, body: Reason = NO_REASON) -> Dropped:
    """Remove every task of a bug. This cannot be undone."""
    found = dead_letters.get(call.access, group)
    return Dropped(group=found.id, dropped=dead_letters.drop(call.access, found, call.author(body)))
