from __future__ import annotations

from itertools import product

import pytest

from windlass.events import Event, Events, WorkerStateChanged
from windlass.worker.worker import MOVES, Worker, WorkerState


@pytest.mark.parametrize(("before", "after"), list(product(WorkerState, WorkerState)))
def test_a_worker_changes_its_state_only_as_the_table_allows(before: WorkerState, after: WorkerState) -> None:
    events: list[Event] = []
    worker = Worker(1, "default", 1, 0.0, Events(events.append))
    worker.state = before

    if after in MOVES[before]:
        worker.move(after, 2.0, "because")
        assert events == [
            WorkerStateChanged(pool="default", worker=1, pid=0, before=before, after=after, why="because", seconds=2.0)
        ]
    else:
        with pytest.raises(AssertionError):
            worker.move(after, 2.0)
        assert (events, worker.state) == ([], before)


def test_a_worker_can_fail_in_every_state_before_its_end() -> None:
    assert {state for state, after in MOVES.items() if WorkerState.FAILED in after} == {
        state for state in WorkerState if not state.over
    }


def test_only_idle_and_busy_workers_get_tasks() -> None:
    assert [state for state in WorkerState if state.working] == [WorkerState.IDLE, WorkerState.BUSY]
