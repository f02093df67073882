"""No task starves under `aging` and `deadline`: the bounds of `core.ordering` under arbitrary arrivals.

Time is virtual. Workers claim at arbitrary times, one task at a time, and everything that could have been claimed
instead is compared with what was.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.builders import a_session, a_task
from tests.support.stores import MemoryHome, sqlite_home
from windlass.clock import ManualClock
from windlass.core import ordering
from windlass.core.ordering import Queue, Strategy
from windlass.core.task import TaskId
from windlass.core.times import Micros, micros
from windlass.stores.protocol import Store

SECOND = timedelta(seconds=1)
HORIZON = 20 * SECOND
STEP = 5 * SECOND
BOUNDED = settings(deadline=None, max_examples=80, suppress_health_check=list(HealthCheck), derandomize=True)
OpenStore = Callable[[ManualClock], Store]


class Arrive(NamedTuple):
    """A task arrives."""

    priority: int
    deadline: int | None
    delay: int | None
    prerequisite: bool


class Start(NamedTuple):
    """Time passes, and a worker starts a task."""

    after: float


class Known(NamedTuple):
    """What the bounds depend on."""

    priority: int
    deadline: Micros | None
    due: Micros


_arrivals = st.builds(
    Arrive,
    st.sampled_from([0, 0, 1, -1, 2, 7, -7, 1_000_000, -1_000_000]),
    st.none() | st.sampled_from([-86_400, -30, -1, 0, 1, 5, 19, 21, 300, 86_400]),
    st.none() | st.sampled_from([1, 9, 40]),
    st.booleans(),
)
_starts = st.builds(Start, st.sampled_from([0.0, 0.001, 1.0, 4.0, 11.0, 60.0]))
_events = st.lists(st.one_of(_arrivals, _starts), min_size=2, max_size=40)
# An old task, then tasks with deadlines long past, which arrive for as long as it waits.
_LATE = [Arrive(0, None, None, False)]
for _ in range(8):
    _LATE += [Arrive(0, -86_400, None, False), Start(4.0)]  # type: ignore[list-item]


@pytest.fixture(params=["memory", "sqlite"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """Open an empty store for each example."""
    numbers = count()
    if request.param == "memory":
        return lambda clock: MemoryHome().open(clock)
    return lambda clock: sqlite_home(tmp_path / f"{next(numbers)}.db").open(clock)


def find_overtaking(events: list[Arrive | Start], strategy: Strategy, store: Store, clock: ManualClock) -> str | None:
    """Run the events. Return which task started before one that it may not overtake, if any."""
    store.configure(Queue(name="default", strategy=strategy, horizon=HORIZON, step=STEP))
    session = a_session(store, ttl=timedelta(days=30))
    waiting: dict[TaskId, Known] = {}
    started: list[TaskId] = []
    for event in events:
        if isinstance(event, Arrive):
            deadline = None if event.deadline is None else event.deadline * SECOND
            delay = None if event.delay is None else event.delay * SECOND
            above = started[-1:] if event.prerequisite else []
            task = a_task(priority=event.priority, deadline=deadline, delay=delay, prerequisites=above)
            [receipt] = store.submit([task])
            late = None if deadline is None else clock.now() + micros(deadline)
            waiting[receipt.id] = Known(event.priority, late, clock.now() + micros(delay or timedelta(0)))
            continue
        clock.advance(timedelta(seconds=event.after))
        store.sweep()
        could = [
            id for id, task in zip(waiting, store.get(list(waiting)), strict=True) if task and task.state == "runnable"
        ]
        for claim in store.claim(session, ["default"], limit=1):
            mine = waiting.pop(claim.id)
            started.append(claim.id)
            for other in could:
                if other != claim.id and overtakes(strategy, mine, waiting[other]):
                    return f"{mine} started before {waiting[other]}"
    return None


def overtakes(strategy: Strategy, task: Known, other: Known) -> bool:
    """Return True if the bound says that `task` must not start before `other`."""
    if strategy is Strategy.AGING:
        return task.due > other.due + micros(HORIZON) + (task.priority - other.priority) * micros(STEP)
    due_by = other.due + micros(HORIZON) if other.deadline is None else max(other.due, other.deadline)
    return task.due > due_by


@pytest.mark.parametrize("strategy", [Strategy.AGING, Strategy.DEADLINE])
def test_no_task_is_overtaken_by_those_that_become_due_after_the_bound(
    open_store: OpenStore, strategy: Strategy
) -> None:
    @BOUNDED
    @example(_LATE)
    @given(_events)
    def check(events: list[Arrive | Start]) -> None:
        clock = ManualClock()
        store = open_store(clock)
        try:
            assert find_overtaking(events, strategy, store, clock) is None
        finally:
            store.close()

    check()


@pytest.mark.parametrize("strategy", [Strategy.AGING, Strategy.DEADLINE])
def test_deadlines_in_the_past_that_count_as_they_are_would_be_found(strategy: Strategy) -> None:
    def place(queue: Queue, priority: int, deadline: Micros | None, due: Micros) -> ordering.Place:
        latest = due + micros(queue.horizon)
        urgent = latest if deadline is None else min(deadline, latest)
        return ordering.Place(0, urgent - (strategy is Strategy.AGING) * priority * micros(queue.step), 0)

    clock = ManualClock()
    with patch.dict(ordering._STRATEGIES, {strategy: place}):  # pyright: ignore[reportPrivateUsage]
        assert find_overtaking(_LATE, strategy, MemoryHome().open(clock), clock) is not None


def test_a_task_starts_once_the_bound_has_passed_however_many_urgent_ones_arrive() -> None:
    """Twice as many tasks arrive as can start, all more urgent by two points and with deadlines that have passed."""
    clock = ManualClock()
    store = MemoryHome().open(clock)
    store.configure(Queue(name="default", strategy=Strategy.AGING, horizon=HORIZON, step=STEP))
    session = a_session(store, ttl=timedelta(days=30))
    [patient] = store.submit([a_task(priority=0)])
    begin = clock.now()

    for _ in range(1_000):
        store.submit([a_task(priority=2, deadline=-SECOND) for _ in range(2)])
        [claim] = store.claim(session, ["default"], limit=1)
        if claim.id == patient.id:
            break
        clock.advance(SECOND)

    bound = micros(HORIZON + 2 * STEP)
    # It starts after those that arrived within the bound, at a rate of one per second.
    assert claim.id == patient.id
    assert bound < clock.now() - begin <= 2 * bound + micros(SECOND) * 2
