"""A pool divides its workers between its queues by weight and run time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from heapq import heappop, heappush
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.core.queue_shares import ClaimPlan, QueueShares


def take(plan: ClaimPlan, waiting: Mapping[str, float]) -> Counter[str]:
    """Return what a store gives a claim, as the protocol describes `each`."""
    taken: Counter[str] = Counter()
    for share in [plan.each, None] if plan.each is not None else [None]:
        for queue in plan.queues:
            most = plan.limit if share is None else share[queue]
            taken[queue] += int(min(most, plan.limit - taken.total(), waiting.get(queue, 0) - taken[queue]))
    return +taken


class Pool:
    """Workers that run tasks of some queues in virtual time."""

    def __init__(self, weights: Mapping[str, int], seconds: Mapping[str, float], workers: int) -> None:
        self.shares = QueueShares()
        self.weights = weights
        self.seconds = seconds
        self.workers = workers
        self.waiting: Counter[str] = Counter()
        self.used: Counter[str] = Counter()
        """Seconds of run time by queue, in tasks that have ended."""
        self.claims: list[ClaimPlan] = []
        self.now = 0.0
        self._running: list[tuple[float, int, str]] = []
        self._numbers = count()

    def run(self, seconds: float) -> Counter[str]:
        """Run for some time. Return the run time of each queue."""
        before, until = self.used.copy(), self.now + seconds
        while self.now < until:
            self._claim()
            if not self._running:
                self.now = until
                break
            self.now, _, queue = heappop(self._running)
            self.used[queue] += self.seconds[queue]  # type: ignore[assignment]
            self.shares.record_completed([(queue, self.seconds[queue])])
        return Counter({queue: self.used[queue] - before[queue] for queue in self.weights})

    def _claim(self) -> None:
        if len(self._running) == self.workers:
            return
        plan = self.shares.plan(self.weights, self.workers - len(self._running))
        self.claims.append(plan)
        taken = take(plan, self.waiting)
        self.shares.record_claimed(plan, taken)
        self.waiting -= taken
        for queue in taken.elements():
            heappush(self._running, (self.now + self.seconds[queue], next(self._numbers), queue))


def a_pool(weights: Mapping[str, int], seconds: Mapping[str, float], workers: int = 4, tasks: int = 10**9) -> Pool:
    pool = Pool(weights, seconds, workers)
    pool.waiting.update(dict.fromkeys(weights, tasks))
    return pool


def test_queues_get_run_time_by_weight_whatever_their_tasks_take() -> None:
    pool = a_pool({"a": 3, "b": 1, "c": 1}, {"a": 0.5, "b": 2.0, "c": 0.1})

    used = pool.run(500)

    total = used.total()
    assert used["a"] / total == pytest.approx(3 / 5, abs=0.02)
    assert used["b"] / total == pytest.approx(1 / 5, abs=0.02)


def test_a_large_claim_is_divided() -> None:
    shares = QueueShares()
    for _ in range(3):
        plan = shares.plan({"a": 3, "b": 1}, 400)
        taken = take(plan, {"a": 10_000, "b": 10_000})
        shares.record_claimed(plan, taken)
        shares.record_completed((queue, 0.01) for queue in taken.elements())

    plan = shares.plan({"a": 3, "b": 1}, 400)
    assert plan.each is not None
    assert sum(plan.each.values()) == 400
    assert abs(plan.each["a"] - 300) <= 1


def test_all_of_an_idle_share_is_lent_at_once() -> None:
    pool = Pool({"a": 1, "idle": 1_000}, {"a": 1.0, "idle": 1.0}, workers=4)
    pool.waiting.update(a=10_000)

    assert pool.run(100)["a"] >= 400 - 4


def test_a_queue_that_comes_back_has_no_credit_and_no_delay() -> None:
    pool = a_pool({"a": 1, "b": 1}, {"a": 1.0, "b": 1.0})
    pool.waiting.clear()
    pool.waiting.update(a=10_000)
    pool.run(200)
    pool.waiting.update(b=10_000)

    soon, later = pool.run(20), pool.run(100)

    assert abs(soon["a"] - soon["b"]) <= 2 * 4, "neither queue starves the other"
    assert abs(later["a"] - later["b"]) <= 2 * 4


def test_time_that_nobody_else_wanted_is_not_paid_back() -> None:
    pool = Pool({"a": 1, "b": 1}, {"a": 10.0, "b": 1.0}, workers=4)
    pool.waiting.update(a=100)
    pool.run(300)
    assert not pool.waiting
    pool.run(10)
    pool.waiting.update(a=1_000, b=1_000)

    used = pool.run(100)

    assert abs(used["a"] - used["b"]) <= 60


def test_a_claim_asks_each_queue_once_while_only_one_has_tasks() -> None:
    shares, weights = QueueShares(), {"a": 1, "b": 1, "c": 2}
    shares.record_claimed(shares.plan(weights, 8), {"a": 8})

    plan = shares.plan(weights, 8)

    assert plan == ClaimPlan(["b", "c", "a"], {"b": 2, "c": 4, "a": 8}, 8), "nothing is left for a second round"


def test_idle_queues_are_asked_plainly() -> None:
    shares = QueueShares()
    for _ in range(3):
        plan = shares.plan({"a": 5, "b": 1}, 10)
        shares.record_claimed(plan, {})

    assert plan == ClaimPlan(["a", "b"], None, 10)
    assert not shares.is_contended


def test_released_and_lost_tasks_are_charged_only_what_they_ran() -> None:
    shares = QueueShares()
    shares.record_completed([("a", 1.0), ("b", 1.0)])
    plan = shares.plan({"a": 1, "b": 1}, 10)
    shares.record_claimed(plan, {"a": 10})
    shares.record_released(["a"] * 10)

    plan = shares.plan({"a": 1, "b": 1}, 10)
    shares.record_claimed(plan, {"a": 5, "b": 5})
    following = shares.plan({"a": 1, "b": 1}, 10)

    assert plan.each == {"a": 10, "b": 5}
    assert following.each == {"a": 5, "b": 5}


def test_a_new_weight_counts_from_now_on() -> None:
    pool = a_pool({"a": 1, "b": 1}, {"a": 1.0, "b": 1.0})
    pool.run(100)
    pool.weights = {"a": 4, "b": 1}

    used = pool.run(200)

    assert used["a"] / used.total() == pytest.approx(4 / 5, abs=0.03)


def test_queues_may_come_and_go() -> None:
    pool = a_pool({"a": 1, "b": 1}, {"a": 1.0, "b": 1.0, "c": 1.0})
    pool.run(50)
    pool.weights = {"b": 1, "c": 1}
    pool.waiting.update(c=1_000)

    used = pool.run(100)

    assert abs(used["b"] - used["c"]) <= 10


@settings(max_examples=25)
@given(
    weights=st.lists(st.integers(1, 20), min_size=2, max_size=5),
    seconds=st.lists(st.floats(0.1, 3.0), min_size=5, max_size=5),
    workers=st.integers(1, 16),
)
def test_every_busy_queue_gets_its_share_within_a_claim(weights: list[int], seconds: list[float], workers: int) -> None:
    names = "abcde"[: len(weights)]
    pool = a_pool(dict(zip(names, weights, strict=True)), dict(zip("abcde", seconds, strict=True)), workers)
    pool.run(20)

    used = pool.run(60)

    # The tasks that run, and those whose run time was not measured yet.
    tolerance = 2 * workers * max(seconds) + 20 * max(seconds)
    for name in names:
        assert abs(used[name] - used.total() * pool.weights[name] / sum(weights)) <= tolerance


@given(
    limit=st.integers(1, 300),
    weights=st.lists(st.integers(1, 1_000), min_size=2, max_size=6),
    rounds=st.lists(st.lists(st.integers(0, 200), min_size=6, max_size=6), max_size=8),
)
def test_a_plan_never_leaves_room_unused_and_never_takes_too_much(
    limit: int, weights: list[int], rounds: list[list[int]]
) -> None:
    shares, named = QueueShares(), dict(zip("abcdef", weights, strict=False))
    for waiting in rounds:
        plan = shares.plan(named, limit)
        taken = take(plan, dict(zip("abcdef", waiting, strict=True)))
        assert sorted(plan.queues) == sorted(named)
        assert taken.total() == min(limit, sum(waiting[: len(named)]))
        shares.record_claimed(plan, taken)
        shares.record_completed((queue, 0.5) for queue in taken.elements())
