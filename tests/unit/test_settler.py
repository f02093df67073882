from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from tests.unit.values import a_stored_task, an_id
from windlass.core.lifecycle import State
from windlass.core.settlement import Returned, Settlement
from windlass.core.task import Claim, Lease, SessionId
from windlass.errors import StoreError, StoreUnavailable
from windlass.events import Event, Events, StoreCallFailed
from windlass.stores.protocol import Settled, Store, Verdict
from windlass.worker import settler as module
from windlass.worker.settler import Settler


class Deaf:
    """A store that does not answer so many times, and then does; some tasks it refuses."""

    def __init__(self, times: int = 0, refused: Sequence[int] = ()) -> None:
        self.times = times
        self.refused = refused
        self.states: dict[int, State] = {}
        self.failure: Exception = StoreUnavailable("nobody there")

    def settle(self, reports: Sequence[tuple[Lease, Settlement]]) -> list[Verdict]:
        if self.times:
            self.times -= 1
            raise self.failure
        if any(lease.task.int in self.refused and end.state is State.COMPLETED for lease, end in reports):
            raise StoreError("not this one")
        self.states |= {lease.task.int: end.state for lease, end in reports}
        return [Settled(lease, end.state) for lease, end in reports]


def a_settler(store: Deaf, *tasks: int, heard: list[Event] | None = None) -> Settler:
    """With the good ends of these tasks to write."""
    settler = Settler(cast("Store", store), Events((heard if heard is not None else []).append))
    for number in tasks:
        task = a_stored_task(id=an_id(number))
        settler.put(Claim(Lease(task.id, 1, SessionId(an_id(9))), task), Returned(None), seconds=0.0, log=None)
    return settler


def test_a_store_that_does_not_answer_for_hours_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    def wait(_closing: Any, seconds: float) -> bool:
        waits.append(seconds)
        return False

    monkeypatch.setattr(module.threading.Event, "wait", wait)
    store = Deaf(times=3_000)
    settler = a_settler(store, 1)

    settler.step()

    assert store.states == {1: State.COMPLETED}
    assert settler.open == 0
    assert max(waits) <= 2.0


def test_once_it_is_closed_it_tries_once_more_and_lets_it_be() -> None:
    heard: list[Event] = []
    store = Deaf(times=2)
    settler = a_settler(store, 1, heard=heard)

    settler.close()
    settler.step()

    assert store.states == {}
    assert [type(event) for event in heard] == [StoreCallFailed]


def test_what_is_left_is_written_at_the_end() -> None:
    store = Deaf()
    settler = a_settler(store, 1, 2)

    settler.close()
    settler.flush()

    assert store.states == {1: State.COMPLETED, 2: State.COMPLETED}
    assert settler.open == 0


def test_an_end_that_the_store_refuses_fails_its_task_and_no_other() -> None:
    store = Deaf(refused=[2])
    settler = a_settler(store, 1, 2, 3)

    settler.step()

    assert store.states == {1: State.COMPLETED, 2: State.FAILED, 3: State.COMPLETED}
    assert settler.open == 0


def test_ends_that_could_not_be_written_for_an_unknown_reason_are_written_by_the_next_step() -> None:
    """The duty is restarted; were the batch forgotten, its tasks would stay leased as long as the node lives."""
    store = Deaf(times=1)
    store.failure = RuntimeError("a mistake of ours")
    settler = a_settler(store, 1, 2)

    with pytest.raises(RuntimeError, match="a mistake of ours"):
        settler.step()
    assert settler.open == 2
    settler.step()

    assert store.states == {1: State.COMPLETED, 2: State.COMPLETED}
    assert settler.open == 0
