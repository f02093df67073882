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
        case Strategy.DEADLINE if one[1] is not None and other[1] is not None and one[1] != other[1]:
            assert (first < second) == (one[1] < other[1])
        case _:
            pass


@given(priority=st.integers(-1_000, 1_000), rival=st.integers(-1_000, 1_000), wait=st.integers(0, 10**12))
def test_under_aging_nobody_starves(priority: int, rival: int, wait: int) -> None:
    queue = Queue(name="q", strategy=Strategy.AGING, step=timedelta(seconds=1))
    mine = place(queue, priority=priority, deadline=None, due=0)

    # A task that arrives later than the priority difference is worth comes after this one, whatever its priority.
    bound = max(0, rival - priority) * micros(queue.step)
    later = place(queue, priority=rival, deadline=None, due=bound + 1 + wait)

    assert mine < later


def test_under_aging_a_deadline_pulls_forward_but_never_pushes_back() -> None:
    queue = Queue(name="q", strategy=Strategy.AGING, horizon=HOUR)
    none = place(queue, priority=0, deadline=None, due=0)

    assert place(queue, priority=0, deadline=1, due=0) < none
    assert place(queue, priority=0, deadline=2 * micros(HOUR), due=0) == none


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
