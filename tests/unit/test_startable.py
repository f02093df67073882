"""Pools are sized for tasks that may start, not for those that limits and pauses hold back."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.builders import a_task, claim_all, submit
from windlass.clock import ManualClock
from windlass.core.fairness import TENANT, SetBy, Tenant, encode_tenant
from windlass.core.limits import LIMIT, Limit, Running, encode_limit
from windlass.core.startable import count_startable
from windlass.core.task import Rate
from windlass.stores.memory import MemoryStore
from windlass.worker.held_tasks import REFRESH_SECONDS, HeldTasks

NOW = 10_000_000
RUNNABLE = {("mail", "a"): 50, ("mail", "b"): 10, ("bulk", "a"): 5}
RUNNING = [Running("mail", "a", "send", None, 3)]
BY = SetBy(by="ops")


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ([], {"mail": 60, "bulk": 5}),
        ([Limit(queue="mail", max_running=10)], {"mail": 7, "bulk": 5}),
        ([Limit(queue="mail", max_running=2)], {"mail": 0, "bulk": 5}),
        ([Limit(tenant="a", max_running=4)], {"mail": 11, "bulk": 1}),
        ([Limit(queue="mail", tenant="a", max_running=4)], {"mail": 11, "bulk": 5}),
        ([Limit(queue="mail", rate=Rate(20, timedelta(minutes=1)))], {"mail": 20, "bulk": 5}),
        ([Limit(handler="send", max_running=1)], {"mail": 60, "bulk": 5}),
        ([Limit(queue="mail", max_running=1, set_by=SetBy(by="ops", until=NOW))], {"mail": 60, "bulk": 5}),
    ],
)
def test_limits_bound_what_could_start(limits: list[Limit], expected: dict[str, int]) -> None:
    assert count_startable(RUNNABLE, limits, {}, RUNNING, {}, NOW) == expected


def test_tasks_of_a_paused_tenant_cannot_start() -> None:
    paused = {"a": Tenant(paused=BY)}

    assert count_startable(RUNNABLE, [], paused, RUNNING, {}, NOW) == {"mail": 10}


def test_a_look_leaves_out_what_is_held_back_after_the_settings_are_read() -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    held = HeldTasks(store, clock)
    submit(store, *(a_task(tenant="a") for _ in range(5)), *(a_task(tenant="b") for _ in range(2)))
    look = store.look(["default"], ahead=timedelta(0))
    assert held.leave_out(look) is look

    limit = Limit(tenant="a", max_running=1)
    assert store.put_control(LIMIT, limit.name, encode_limit(limit), expect=0)
    assert store.put_control(TENANT, "b", encode_tenant(Tenant(paused=BY)), expect=0)
    clock.advance(timedelta(seconds=REFRESH_SECONDS))

    [queue] = held.leave_out(look).queues
    assert (queue.runnable, queue.oldest) == (1, None)
    assert len(claim_all(store)) == 1
    [queue] = held.leave_out(store.look(["default"], ahead=timedelta(0))).queues
    assert queue.runnable == 0
