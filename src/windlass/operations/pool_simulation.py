"""Replay the recorded load of a pool's queues with another goal, other bounds or another policy.

The work is bounded: at most an hour of load, a number of tasks, and a few policies. It runs the controller's own code,
one simulation at a time, because it needs a processor and does not wait.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from threading import Lock
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from windlass.core.times import Duration, Micros, duration, to_datetime
from windlass.errors import Refused, WindlassError
from windlass.operations import pools
from windlass.operations.access import Access
from windlass.simulation.bound import compute_bound
from windlass.simulation.load import InvalidLoad, Load
from windlass.simulation.load_sources import adjust_load, make_load, read_history
from windlass.simulation.policies import find_policies, play
from windlass.simulation.run import SimulationResult, Timeline
from windlass.stores.protocol import Cursor, Filter, Page, TaskReader

LONGEST = timedelta(hours=1)
MAX_PAGES = 25
"""How many pages of 1,000 tasks are read from one queue."""
MAX_TRIALS = 4
"""How many settings are compared at once."""
_one_at_a_time = Lock()


class Trial(Struct, frozen=True, kw_only=True):
    """Settings to replay a load with. What is None is as the pool has it."""

    policy: str = "slo"
    wait: Duration | None = None
    min: int | None = None
    max: int | None = None


class PoolSimulation(Struct, frozen=True, kw_only=True):
    """How each policy would have done, the best first; or each trial, in the order given."""

    pool: str
    tasks: int
    seconds: int
    results: list[SimulationResult]


def simulate(
    access: Access,
    name: str,
    *,
    since: Duration = "1h",
    wait: Duration | None = None,
    min: int | None = None,
    max: int | None = None,
    start_delay: Duration | None = None,
    policies: Sequence[str] = ("slo",),
) -> PoolSimulation:
    """Replay the recent load of a pool. What is not given is as the pool has it."""
    length = _check_length(since)
    view, chosen = pools.get(access, name), find_policies(policies)
    load = adjust_load(
        _read_load(access.store, view.queues, length, access.now),
        wait=view.wait if wait is None else wait,
        min=view.min if min is None else min,
        max=view.max if max is None else max,
        start_delay=start_delay,
    )
    with _running():
        limit = compute_bound(load)
        results = [replace(play(policy, load, limit), timeline=Timeline()) for policy in chosen]
    results.sort(key=lambda result: result.score)
    return PoolSimulation(pool=name, tasks=len(load.arrivals), seconds=load.length, results=results)


def compare(
    access: Access, name: str, trials: Sequence[Trial], *, since: Duration = "1h", until: Micros | None = None
) -> PoolSimulation:
    """Replay the load of a pool with different settings: what arrived in the time before `until`, by default now.

    The results have timelines and ledgers, from the beginning of that time on. Tasks that were purged are missing.
    """
    length = _check_length(since)
    end = access.now if until is None else until
    if end > access.now:
        raise InvalidLoad(f"until={to_datetime(end):%Y-%m-%d %H:%M} UTC is in the future. Use a time that has passed.")
    if not 0 < len(trials) <= MAX_TRIALS:
        raise InvalidLoad(f"trials has {len(trials)} entries. Use 1 to {MAX_TRIALS}.")
    view = pools.get(access, name)
    policies = [find_policies([trial.policy])[0] for trial in trials]
    try:
        recorded = _read_load(access.store, view.queues, length, end)
    except TooManyTasks:
        raise
    except InvalidLoad as error:
        if until is None:
            raise
        at = f"until={to_datetime(end):%Y-%m-%d %H:%M} UTC"
        raise InvalidLoad(f"{at}: {error} Finished tasks can be replayed until their retention is over.") from None
    loads = [
        adjust_load(
            recorded,
            wait=view.wait if trial.wait is None else trial.wait,
            min=view.min if trial.min is None else trial.min,
            max=view.max if trial.max is None else trial.max,
        )
        for trial in trials
    ]
    with _running():
        results = [
            play(policy, load, compute_bound(load), keep_timeline=True)
            for policy, load in zip(policies, loads, strict=True)
        ]
    return PoolSimulation(pool=name, tasks=len(recorded.arrivals), seconds=recorded.length, results=results)


def _check_length(since: Duration) -> timedelta:
    length = duration(since, "since")
    if not timedelta(0) < length <= LONGEST:
        raise InvalidLoad(f"since={since!r} is out of range. Use up to an hour, or `windlass pool simulate`.")
    return length


@contextmanager
def _running() -> Generator[None]:
    """Run one simulation at a time. Refuse another one instead of letting it wait."""
    if not _one_at_a_time.acquire(blocking=False):
        raise Refused("overloaded", "Another simulation is running. Retry when it has ended.")
    try:
        yield
    finally:
        _one_at_a_time.release()


def _read_load(store: TaskReader, queues: Sequence[str], since: timedelta, now: int) -> Load:
    """Return the arrivals of all queues together. A queue in which too few tasks ended is left out."""
    found: list[Load] = []
    refusal: WindlassError | None = None
    for queue in queues:
        try:
            found.append(read_history(cast("TaskReader", _LimitedReader(store)), now=now, since=since, queue=queue))
        except TooManyTasks:
            raise
        except InvalidLoad as error:
            refusal = error
    if not found:
        raise refusal or InvalidLoad("The pool serves no queue, so there is nothing to replay.")
    first = found[0]
    arrivals = sorted(arrival for load in found for arrival in load.arrivals)
    return make_load("recorded", arrivals, wait=first.wait, delay=first.delay)


class TooManyTasks(InvalidLoad):
    """More tasks were recorded than an interface replays."""


class _LimitedReader:
    """A store of which only some pages can be read."""

    def __init__(self, store: TaskReader) -> None:
        self._store, self._left = store, MAX_PAGES

    def find(self, filter: Filter, *, limit: int = 100, after: Cursor | None = None) -> Page:
        self._left -= 1
        if self._left < 0:
            raise TooManyTasks("since covers too many tasks. Use a shorter time, or `windlass pool simulate`.")
        return self._store.find(filter, limit=limit, after=after)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
