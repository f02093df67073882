"""What if: the recorded load of a pool's queues, played again with another goal or other bounds.

Bounded on every side: an hour at the most, so many tasks, a few policies. It runs the controller's own code in a
thread, and one at a time, because it computes and does not wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from threading import Lock
from typing import Any, cast

from msgspec.structs import replace

from windlass.core.times import Duration, duration
from windlass.errors import Refused, WindlassError
from windlass.operations.caller import Scope
from windlass.operations.pools import pool
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.simulation.bound import compute_bound
from windlass.simulation.load import InvalidLoad, Load
from windlass.simulation.load_sources import adjust_load, make_load, read_history
from windlass.simulation.policies import find_policies, play
from windlass.simulation.run import Timeline
from windlass.stores.protocol import Cursor, Filter, Page, TaskReader
from windlass.wire.pools import Simulate, Simulated
from windlass.wire.schemas import Name

route = Routes("pools")

LONGEST = timedelta(hours=1)
MOST_PAGES = 25
"""Pages of a thousand tasks that are read of one queue."""
_one_at_a_time = Lock()


@route(
    "POST",
    "/pools/{name}/simulate",
    Scope.READ,
    unrestricted=True,
    errors=["unknown_pool", "invalid_load", "invalid_task", "overloaded"],
)
def simulate_pool(call: Call, name: Name, body: Simulate) -> Simulated:
    """What if: play the last hour of a pool's queues again, with another goal, other bounds, or another policy."""
    since = _length(body.since)
    view, policies = pool(call.store, name), find_policies(body.policies)
    load = _load(call.store, view.queues, since, call.now)
    changed = adjust_load(
        load,
        wait=view.wait if body.wait is None else body.wait,
        floor=view.floor if body.floor is None else body.floor,
        ceiling=view.ceiling if body.ceiling is None else body.ceiling,
        start_delay=body.start_delay,
    )
    if not _one_at_a_time.acquire(blocking=False):
        raise Refused("overloaded", "another simulation is being played; try again when it has ended")
    try:
        limit = compute_bound(changed)
        results = [replace(play(policy, changed, limit), timeline=Timeline()) for policy in policies]
    finally:
        _one_at_a_time.release()
    results.sort(key=lambda result: result.score)
    return Simulated(pool=name, tasks=len(changed.arrivals), seconds=changed.length, results=results)


def _length(since: Duration) -> timedelta:
    length = duration(since, "since")
    if not timedelta(0) < length <= LONGEST:
        raise InvalidLoad(f"since={since!r} is out of range; give up to an hour, or use `windlass pool simulate`")
    return length


def _load(store: TaskReader, queues: Sequence[str], since: timedelta, now: int) -> Load:
    """What came to the queues together; a queue in which next to nothing ended says nothing, and is left out."""
    found: list[Load] = []
    refusal: WindlassError | None = None
    for queue in queues:
        try:
            found.append(read_history(cast("TaskReader", _Few(store)), now=now, since=since, queue=queue))
        except TooMuch:
            raise
        except InvalidLoad as error:
            refusal = error
    if not found:
        raise refusal or InvalidLoad("the pool serves no queue, so nothing came to it")
    first = found[0]
    arrivals = sorted(arrival for load in found for arrival in load.arrivals)
    return make_load("recorded", arrivals, wait=first.wait, delay=first.delay)


class TooMuch(InvalidLoad):
    """More was recorded than is played over HTTP."""


class _Few:
    """A store that lets no more than some pages be read."""

    def __init__(self, store: TaskReader) -> None:
        self._store, self._left = store, MOST_PAGES

    def find(self, filter: Filter, *, limit: int = 100, after: Cursor | None = None) -> Page:
        self._left -= 1
        if self._left < 0:
            raise TooMuch("since goes back over too many tasks; give a shorter time, or use `windlass pool simulate`")
        return self._store.find(filter, limit=limit, after=after)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
