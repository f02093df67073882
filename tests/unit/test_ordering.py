from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.ordering import Queue, Strategy, place
from windlass.core.times import LATEST, micros
from windlass.core.validation import MAX_PRIORITY

HOUR = timedelta(hours=1)
priorities = st.integers(-MAX_PRIORITY, MAX_PRIORITY)
instants = st.integers(-LATEST, LATEST)
lengths = st.timedeltas(timedelta(0), timedelta(days=3_650))
queues = st.builds(Queue, name=st.just("q"), strategy=st.sampled_from(Strategy), horizon=lengths, step=lengths)


@given(queue=queues, priority=priorities, deadline=st.none() | instants, due=instants)
def test_every_place_fits_into_64_bits(queue: Queue, priority: int, deadline: int | None, due: int) -> None:
    queue.check()

    assert all(-(2**63) <= number < 2**63 for number in place(queue, priority=priority, deadline=deadline, due=due))


@given(queue=queues, one=st.tuples(priorities, st.none() | instants, instants), data=st.data())
def test_places_are_a_total_order_that_agrees_with_the_strategy(
    queue: Queue, one: tuple[int, int | None, int], data: st.DataObject
) -> None:
    other = data.draw(st.tuples(priorities, st.none() | instants, instants))
    first, second = (place(queue, priority=p, deadline=d, due=due) for p, d, due in (one, other))

    assert (first < second) + (first == second) + (first > second) == 1
    match queue.strategy:
        case Strategy.PRIORITY if one[0] != other[0]:
            assert (first < second) == (one[0] > other[0])
        case Strategy.FIFO if one[2] != other[2]:
            assert (first < second) == (one[2] < other[2])
        case Strategy.DEADLINE if one[1] is not None and other[1] is not None:
            mine, others = max(one[1:]), max(other[1:])  # A deadline before the due time counts as the due time.
            assert mine == others or (first < second) == (mine < others)
        case _:
            pass


@given(
    priority=priorities,
    rival=priorities,
    step=st.sampled_from([timedelta(0), timedelta(microseconds=1), timedelta(seconds=1), timedelta(days=3_650)]),
    deadlines=st.tuples(st.none() | instants, st.none() | instants),
    wait=st.integers(1, 10**12),
)
def test_under_aging_nobody_starves(
    priority: int, rival: int, step: timedelta, deadlines: tuple[int | None, int | None], wait: int
) -> None:
    queue = Queue(name="q", strategy=Strategy.AGING, step=step, horizon=HOUR)
    bound = micros(HOUR) + (rival - priority) * micros(step)

    mine = place(queue, priority=priority, deadline=deadlines[0], due=0)
    later = place(queue, priority=rival, deadline=deadlines[1], due=bound + wait)

    assert mine < later


def test_under_aging_a_deadline_pulls_forward_but_never_pushes_back() -> None:
    queue = Queue(name="q", strategy=Strategy.AGING, horizon=HOUR)
    none = place(queue, priority=0, deadline=None, due=0)

    assert place(queue, priority=0, deadline=1, due=0) < none
    assert place(queue, priority=0, deadline=2 * micros(HOUR), due=0) == none


@pytest.mark.parametrize("strategy", [Strategy.AGING, Strategy.DEADLINE])
def test_a_deadline_before_the_due_time_counts_as_the_due_time(strategy: Strategy) -> None:
    queue = Queue(name="q", strategy=strategy)

    assert place(queue, priority=0, deadline=-9, due=5) == place(queue, priority=0, deadline=5, due=5)


def test_by_priority_no_deadline_comes_after_every_deadline() -> None:
    queue = Queue(name="q")

    assert place(queue, priority=0, deadline=LATEST, due=9) < place(queue, priority=0, deadline=None, due=0)


def test_by_deadline_no_deadline_counts_as_the_horizon() -> None:
    queue = Queue(name="q", strategy=Strategy.DEADLINE, horizon=HOUR)

    assert place(queue, priority=5, deadline=micros(HOUR), due=0) == place(queue, priority=5, deadline=None, due=0)


@pytest.mark.parametrize("strategy", Strategy)
def test_what_is_due_first_comes_first_when_nothing_else_differs(strategy: Strategy) -> None:
    queue = Queue(name="q", strategy=strategy)

    assert place(queue, priority=0, deadline=None, due=1) < place(queue, priority=0, deadline=None, due=2)
