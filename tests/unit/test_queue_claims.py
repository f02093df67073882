"""A node claims from the queues of a pool by weight and by the measured run time of their tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from tests.support.builders import a_task, submit
from tests.unit.test_virtual_time import SimulatedNode
from windlass.core.ordering import Queue
from windlass.errors import StoreUnavailable
from windlass.events import StoreCallFailed
from windlass.worker.queue_weights import REFRESH_SECONDS
from windlass.worker.wire import Done


class Recorded:
    """What a node has asked of its store."""

    def __init__(self, node: SimulatedNode, monkeypatch: pytest.MonkeyPatch) -> None:
        self.claims: list[dict[str, Any]] = []
        self.reads = 0
        claim, queues = node.store.claim, node.store.queues

        def record_claim(*args: Any, **options: Any) -> Any:
            self.claims.append({"queues": list(args[1]), **options})
            return claim(*args, **options)

        def record_read() -> list[Queue]:
            self.reads += 1
            return queues()

        monkeypatch.setattr(node.store, "claim", record_claim)
        monkeypatch.setattr(node.store, "queues", record_read)


def a_node(**pool: Any) -> SimulatedNode:
    node = SimulatedNode(**pool)
    node.start()
    return node


def fill(node: SimulatedNode, **tasks: int) -> None:
    submit(node.store, *(a_task(queue=queue) for queue, number in tasks.items() for _ in range(number)))


def work(node: SimulatedNode, seconds: Mapping[str, float], claims: int) -> Counter[str]:
    """Claim and finish tasks. Return the run time by queue; `seconds` says how long a task runs."""
    used: Counter[str] = Counter()
    for _ in range(claims):
        node.claimer.step()
        for worker in node.dispatcher.workers.values():
            for ticket, attempt in list(worker.running.items()):
                queue = attempt.claim.queue
                used[queue] += seconds[queue]  # type: ignore[assignment]
                node.dispatcher.receive(worker, [Done(ticket, seconds[queue])], node.now)
        while node.settler.open:
            node.settler.step()
        node.clock.advance(timedelta(seconds=0.5))
        node.keeper.wake.set()
        node.keeper.step()
    return used


def test_queues_share_a_pool_by_their_weights_and_run_times() -> None:
    node = a_node(queues=("a", "b"))
    node.store.configure(Queue(name="a", weight=3))
    fill(node, a=400, b=400)
    work(node, {"a": 0.2, "b": 0.8}, 20)

    used = work(node, {"a": 0.2, "b": 0.8}, 200)

    assert used["a"] / used.total() == pytest.approx(0.75, abs=0.03)


def test_the_weights_of_the_pool_replace_those_of_the_queues() -> None:
    node = a_node(queues=("a", "b"), weights=(1, 4))
    node.store.configure(Queue(name="a", weight=100))
    fill(node, a=200, b=200)

    used = work(node, {"a": 0.5, "b": 0.5}, 150)

    assert used["b"] / used.total() == pytest.approx(0.8, abs=0.03)


def test_a_new_weight_is_used_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    node = a_node(queues=("a", "b"))
    fill(node, a=300, b=300)
    work(node, {"a": 0.5, "b": 0.5}, 20)
    recorded = Recorded(node, monkeypatch)
    node.store.configure(Queue(name="b", weight=4))

    used = work(node, {"a": 0.5, "b": 0.5}, 100)

    assert used["b"] / used.total() == pytest.approx(0.8, abs=0.04)
    assert recorded.reads <= 100 * 0.6 / REFRESH_SECONDS + 2


def test_the_weights_stay_while_they_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    node = a_node(queues=("a", "b"))
    node.store.configure(Queue(name="a", weight=9))
    fill(node, a=100, b=100)
    work(node, {"a": 0.5, "b": 0.5}, 20)

    def refuse() -> list[Queue]:
        raise StoreUnavailable("no connection")

    monkeypatch.setattr(node.store, "queues", refuse)
    used = work(node, {"a": 0.5, "b": 0.5}, 40)

    assert used["a"] / used.total() == pytest.approx(0.9, abs=0.03)
    assert "read the weights of queues" in [event.doing for event in node.events if isinstance(event, StoreCallFailed)]


def test_a_pool_with_one_queue_pays_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    node = a_node(queues=("a",))
    recorded = Recorded(node, monkeypatch)
    fill(node, a=20)

    work(node, {"a": 0.5}, 20)

    assert recorded.reads == 0
    assert all(claim["each"] is None for claim in recorded.claims)


def test_a_pool_that_keeps_up_pays_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    node = a_node(queues=("a", "b"), threads=8)
    recorded = Recorded(node, monkeypatch)
    for _ in range(10):
        fill(node, a=2, b=2)
        work(node, {"a": 0.5, "b": 0.5}, 1)

    assert recorded.reads == 0
    assert all(claim["each"] is None for claim in recorded.claims)


def test_merged_queues_are_not_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    node = a_node(queues=("a", "b"), order="deadline")
    recorded = Recorded(node, monkeypatch)
    fill(node, a=20, b=20)

    work(node, {"a": 0.5, "b": 0.5}, 20)

    assert {(tuple(claim["queues"]), claim["merge"]) for claim in recorded.claims} == {(("a", "b"), True)}
    assert all(claim["each"] is None for claim in recorded.claims)


def test_lost_leases_are_not_charged() -> None:
    node = a_node(queues=("a", "b"), threads=4)
    fill(node, a=4)
    node.claimer.step()
    assert node.keeper.current is not None
    node.keeper.mark_lost(node.keeper.current, "by this test")
    assert not node.pool.assigned

    plan = node.pool.plan_claim({"a": 1, "b": 1}, 4)
    node.pool.shares.record_claimed(plan, {"a": 2, "b": 2})

    following = node.pool.plan_claim({"a": 1, "b": 1}, 4)
    assert following.each is not None
    assert following.each["a"] == 2


def test_the_queues_of_a_pool_may_change() -> None:
    node = a_node(queues=("a",))
    fill(node, a=50, b=50, c=50)
    work(node, {"a": 0.5}, 3)
    node.pool.retune(type(node.pool.settings)(size=1, queues=("b", "c")))

    used = work(node, {"b": 0.5, "c": 0.5}, 20)

    assert abs(used["b"] - used["c"]) <= 1
