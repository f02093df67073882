"""What people change of a queue through operations."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.support.builders import claim_one, complete, submit_one
from windlass.clock import ManualClock
from windlass.core.ordering import OPEN, Queue
from windlass.errors import ChangedMeanwhile, InvalidTask, Refused, UnknownQueue
from windlass.operations import queues
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.caller import Caller, Scope
from windlass.operations.conflicts import TRIES
from windlass.operations.queues import Waits, summarize_waits
from windlass.stores.memory import MemoryStore
from windlass.stores.series import Resolution

ANN = Author("ann")


class Busy(MemoryStore):
    """A store in which somebody else changes the same queue after each of the first reads."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left = times

    def queues(self) -> list[Queue]:
        found = super().queues()
        if self.left:
            self.left -= 1
            self.configure(Queue(name="mail", weight=500 - self.left))
        return found


def test_a_pause_keeps_other_settings() -> None:
    store = MemoryStore()
    access = Access(store)
    store.configure(Queue(name="mail", weight=3))

    paused = queues.pause(access, "mail", ANN, create=True)

    assert paused.settings == Queue(name="mail", weight=3, paused=True, paused_by="ann")
    assert queues.resume(access, "mail", ANN).settings == Queue(name="mail", weight=3)
    assert [(entry.action, entry.by) for entry in store.audit()] == [("resumed", "ann"), ("paused", "ann")]


@pytest.mark.parametrize("settings", [OPEN, {"weight": 1}, {}], ids=str)
def test_a_change_to_the_current_settings_is_not_logged(settings: dict[str, Any]) -> None:
    store = MemoryStore()

    queues.change(Access(store), "mail", settings, ANN, create=True)

    assert store.audit() == []


def test_a_series_counts_what_happened_per_second_and_minute() -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    access = Access(store, clock=clock)
    submit_one(store, queue="mail")
    submit_one(store, queue="bulk")
    clock.advance(timedelta(seconds=2))
    submit_one(store, queue="mail")

    seconds = queues.series(access, "mail", Resolution.SECOND, timedelta(minutes=1))
    minutes = queues.series(access, None, Resolution.MINUTE, timedelta(minutes=1))

    assert [point.arrived for point in seconds] == [1, 1]
    assert sum(point.arrived for point in minutes) == 3
    assert queues.series(access, "mail", Resolution.SECOND, timedelta(seconds=1)) == seconds[1:]


def wait_and_complete(store: MemoryStore, clock: ManualClock, seconds: int, queue: str = "mail") -> None:
    submit_one(store, queue=queue)
    clock.advance(timedelta(seconds=seconds))
    complete(store, claim_one(store, queue=queue))


def test_the_95th_percentile_leaves_out_the_longest_twentieth() -> None:
    waits = summarize_waits(list(range(100, 0, -1)))

    assert waits == Waits(tasks=100, median=50, p95=95)
    assert summarize_waits([7]) == Waits(tasks=1, median=7, p95=7)
    assert summarize_waits([]) is None


def test_waits_are_those_of_the_last_minutes_by_queue() -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    access = Access(store, clock=clock)
    wait_and_complete(store, clock, 9)
    clock.advance(queues.WAITS_LAST + timedelta(seconds=1))
    assert queues.get_waits(access) is None
    wait_and_complete(store, clock, 1)
    wait_and_complete(store, clock, 3)
    wait_and_complete(store, clock, 5, "bulk")

    second = 1_000_000
    assert queues.get_waits(access) == Waits(tasks=3, median=3 * second, p95=5 * second)
    assert queues.get_waits(access, "mail") == Waits(tasks=2, median=second, p95=3 * second)
    assert [(view.name, view.waits) for view in queues.get_all(access)] == [
        ("bulk", queues.get_waits(access, "bulk")),
        ("mail", queues.get_waits(access, "mail")),
    ]


def test_waits_are_not_shown_to_a_tenant_nor_those_of_another_queue() -> None:
    store = MemoryStore()
    submit_one(store, queue="mail", tenant="acme")
    complete(store, claim_one(store, queue="mail"))
    tenant = Access(store, Caller(name="a", scopes=frozenset({Scope.READ}), tenant="acme"))
    queue = Access(store, Caller(name="b", scopes=frozenset({Scope.READ}), queue="mail"))

    for name in ("mail", None):
        with pytest.raises(Refused):
            queues.get_waits(tenant, name)
    assert [view.waits for view in queues.get_all(tenant)] == [None]
    with pytest.raises(Refused):
        queues.get_waits(queue)
    with pytest.raises(UnknownQueue):
        queues.get_waits(queue, "bulk")
    assert queues.get_waits(queue, "mail") is not None


def test_a_series_of_a_shared_queue_is_refused_to_a_tenant() -> None:
    store = MemoryStore()
    submit_one(store, queue="mail")
    tenant = Access(store, Caller(name="t", scopes=frozenset({Scope.READ}), tenant="default"))
    queue = Access(store, Caller(name="q", scopes=frozenset({Scope.READ}), queue="mail"))

    with pytest.raises(Refused, match="limited"):
        queues.series(tenant, "mail", Resolution.SECOND, timedelta(minutes=1))
    with pytest.raises(Refused, match="limited"):
        queues.series(queue, None, Resolution.SECOND, timedelta(minutes=1))
    with pytest.raises(UnknownQueue):
        queues.series(queue, "bulk", Resolution.SECOND, timedelta(minutes=1))
    assert len(queues.series(queue, "mail", Resolution.SECOND, timedelta(minutes=1))) == 1


@pytest.mark.parametrize("last", [timedelta(0), timedelta(days=31)], ids=str)
def test_a_series_of_an_impossible_length_is_refused(last: timedelta) -> None:
    with pytest.raises(InvalidTask, match="last="):
        queues.series(Access(MemoryStore()), None, Resolution.MINUTE, last)


def test_an_invalid_setting_is_refused() -> None:
    store = MemoryStore()

    with pytest.raises(InvalidTask, match="weight"):
        queues.change(Access(store), "mail", {"weight": 0}, ANN, create=True)

    assert (store.queues(), store.audit()) == ([], [])


def test_a_concurrent_change_is_kept() -> None:
    store = Busy(TRIES - 1)

    queues.pause(Access(store), "mail", Author("ann", "down"), create=True)

    assert store.queues() == [Queue(name="mail", weight=500, paused=True, paused_by="ann", paused_why="down")]
    assert len(store.audit()) == 1


def test_a_change_that_always_conflicts_is_refused() -> None:
    store = Busy(TRIES)

    with pytest.raises(ChangedMeanwhile, match="mail"):
        queues.pause(Access(store), "mail", Author("ann", "down"), create=True)

    assert (store.queues(), store.audit()) == ([Queue(name="mail", weight=500)], [])
