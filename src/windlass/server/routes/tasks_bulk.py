"""Cancel, retry and purge all tasks that match a filter, over HTTP: count first, then act."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence

from windlass.core.query import parse
from windlass.operations.bulk import BulkAction, Verb
from windlass.operations.caller import Scope
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.server.http.streaming import Live
from windlass.stores.protocol import Filter
from windlass.wire.tasks import ByFilter, Done

route = Routes("tasks")

ERRORS = ("invalid_filter", "invalid_task")


@route("POST", "/tasks:cancel", Scope.OPERATE, errors=ERRORS)
async def cancel_tasks(call: Call, live: Live, body: ByFilter) -> AsyncGenerator[Sequence[Done]]:
    """Cancel the unfinished tasks that match. Running tasks are asked to stop, and killed after ten seconds."""
    async for done in _run(call, live, Verb.CANCEL, body):
        yield [done]


@route("POST", "/tasks:retry", Scope.OPERATE, errors=ERRORS)
async def retry_tasks(call: Call, live: Live, body: ByFilter) -> AsyncGenerator[Sequence[Done]]:
    """Retry the failed, cancelled and expired tasks that match, with fresh counters."""
    async for done in _run(call, live, Verb.RETRY, body):
        yield [done]


@route("POST", "/tasks:purge", Scope.OPERATE, errors=ERRORS)
async def purge_tasks(call: Call, live: Live, body: ByFilter) -> AsyncGenerator[Sequence[Done]]:
    """Remove the finished tasks that match, including failed ones. This cannot be undone."""
    async for done in _run(call, live, Verb.PURGE, body):
        yield [done]


async def _run(call: Call, live: Live, verb: Verb, body: ByFilter) -> AsyncGenerator[Done]:
    """Count, then act unless it is a dry run. Between two steps a client that is gone stops it."""
    action = BulkAction(call.access, verb, Filter(query=parse(body.q)), call.author(body))
    async for _ in _in_steps(live, action.count_steps()):
        pass
    yield Done(done=0, total=action.total)
    if not body.dry_run:
        async for done in _in_steps(live, action.run_steps()):
            yield Done(done=done, total=action.total)


async def _in_steps(live: Live, steps: Iterator[int]) -> AsyncGenerator[int]:
    """Run each step in a thread."""
    while (number := await live.run(lambda: next(steps, None))) is not None:
        yield number
