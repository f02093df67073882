from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.builders import submit_one
from windlass.clock import ManualClock
from windlass.operations import deadlines
from windlass.operations.access import Access
from windlass.operations.caller import LOCAL, Caller
from windlass.operations.capacity import Capacity
from windlass.operations.deadlines import find_late
from windlass.stores.memory import MemoryStore


def test_a_task_is_late_when_its_deadline_has_passed_and_only_its_tenant_sees_it() -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    late = submit_one(store, deadline=timedelta(seconds=5), args={"password": "hunter2"})
    submit_one(store, deadline=timedelta(hours=1))
    submit_one(store)
    assert find_late(Access(store, clock=clock), clock.now()).late == []

    clock.advance(timedelta(seconds=8))

    [found] = find_late(Access(store, clock=clock), clock.now()).late
    assert (found.task.id, found.late, found.missed) == (late, 3_000_000, True)
    assert "hunter2" not in found.task.args
    other = Caller(name="bob", scopes=LOCAL.scopes, tenant="beta")
    assert find_late(Access(store, other, clock=clock), clock.now()).late == []
    store.close()


def test_a_task_is_late_before_its_deadline_if_its_queue_is_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    for _ in range(9):
        submit_one(store)
    tight = submit_one(store, deadline=timedelta(seconds=8))
    submit_one(store, deadline=timedelta(seconds=30))
    slow = Capacity(now=0, slots=2, seconds=2.0, others={})
    monkeypatch.setattr(deadlines, "read_capacity", lambda *_: slow)

    [found] = find_late(Access(store, clock=clock), clock.now()).late

    assert (found.task.id, found.missed) == (tight, False)
    assert found.late == (11 * 1 + 2 - 8) * 1_000_000, "eleven tasks, one per second, then two seconds of its own"
    store.close()
