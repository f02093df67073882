"""What `docs/guides/order.md` says about overload, with the simulation that its numbers come from."""

from __future__ import annotations

import pytest

from benchmarks.overload import simulate
from windlass.core.ordering import Strategy

SECONDS = 150.0


def test_without_overload_the_earliest_deadline_first_makes_the_most_deadlines() -> None:
    by_deadline, fifo = (
        simulate(strategy, 0.9, hard=False, seconds=SECONDS) for strategy in (Strategy.DEADLINE, Strategy.FIFO)
    )

    assert len(by_deadline.lateness) < len(fifo.lateness)
    assert by_deadline.on_time >= 0.98 * by_deadline.tasks


def test_under_overload_soft_deadlines_are_missed_by_nearly_all_and_nothing_is_dropped() -> None:
    found = simulate(Strategy.DEADLINE, 2.0, hard=False, seconds=SECONDS)

    assert found.dropped == 0
    assert found.on_time < 0.2 * found.tasks
    # Every task is about equally late: the lateness is the backlog, which is half of the time in which tasks arrived.
    assert 0.8 * SECONDS < max(found.lateness) < 1.2 * SECONDS


@pytest.mark.parametrize("strategy", [Strategy.DEADLINE, Strategy.FIFO, Strategy.PRIORITY])
def test_under_overload_hard_deadlines_drop_what_the_workers_cannot_do(strategy: Strategy) -> None:
    found = simulate(strategy, 2.0, hard=True, seconds=SECONDS)

    assert found.lateness == []
    assert 0.4 * found.tasks < found.dropped < 0.6 * found.tasks


def test_under_overload_only_a_priority_protects_the_urgent_tasks() -> None:
    by_deadline, by_priority = (
        simulate(strategy, 2.0, hard=False, seconds=SECONDS) for strategy in (Strategy.DEADLINE, Strategy.PRIORITY)
    )

    assert by_deadline.urgent_on_time < 0.3 * by_deadline.urgent
    assert by_priority.urgent_on_time > 0.95 * by_priority.urgent
