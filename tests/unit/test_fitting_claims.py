"""A node claims only what it can start: the labels, slots and memory of tasks are matched in the claim."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.support.builders import a_task, submit, submit_one, task_of
from tests.unit.test_pool import a_pool
from tests.unit.test_pool_counters import a_claim
from tests.unit.test_virtual_time import SimulatedNode
from windlass.core.settlement import Settlement
from windlass.core.task import Claim
from windlass.worker.pool import HOLD_EVERY_SECONDS, Fit
from windlass.worker.worker import RunningAttempt


class Watched(SimulatedNode):
    """A node that counts what it claims and gives back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **pool: Any) -> None:
        super().__init__(**pool)
        self.claimed: list[Claim] = []
        self.given_back: list[Settlement] = []
        claim, settle = self.store.claim, self.store.settle

        def record_claim(*args: Any, **options: Any) -> list[Claim]:
            found = claim(*args, **options)
            self.claimed += found
            return found

        def record_settle(reports: Sequence[Any]) -> Any:
            self.given_back += [settlement for _, settlement in reports if not settlement.charged]
            return settle(reports)

        monkeypatch.setattr(self.store, "claim", record_claim)
        monkeypatch.setattr(self.store, "settle", record_settle)
        self.start()

    def work(self, steps: int) -> None:
        """Claim and finish tasks."""
        for _ in range(steps):
            self.claimer.step()
            self.tick()
            self.finish_running(0.5)
            while self.settler.open:
                self.settler.step()
            self.clock.advance(timedelta(seconds=0.1))
            self.keeper.wake.set()
            self.keeper.step()


def test_a_task_whose_label_no_node_has_is_never_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Watched(monkeypatch, threads=2)
    labelled = submit(node.store, *(a_task(requires=("gpu",), priority=9) for _ in range(5)))
    submit(node.store, *(a_task() for _ in range(20)))

    node.work(30)

    assert len(node.claimed) == 20
    assert node.given_back == []
    assert {task_of(node.store, id).fence for id in labelled} == {0}


def test_a_task_that_needs_more_slots_than_are_free_does_not_hold_up_others(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Watched(monkeypatch, threads=4)
    node.pool.choose_fitting([a_claim(slots=2)], Fit(4, None, True), node.now)  # A task was held just before.
    submit_one(node.store)
    node.claimer.step()
    heavy = submit_one(node.store, slots=4, priority=9)
    light = submit(node.store, *(a_task() for _ in range(3)))

    node.claimer.step()
    node.claimer.step()

    assert {claim.id for claim in node.claimed} >= {*light}
    assert heavy not in {claim.id for claim in node.claimed}
    assert len(node.pool.workers[1].started) == 4

    node.finish_running(0.5)
    node.claimer.step()
    assert node.claimed[-1].id == heavy
    assert node.given_back == []


def test_a_task_that_needs_all_slots_is_not_passed_forever() -> None:
    pool, heavy = a_pool(threads=2), a_claim(slots=2)
    pool.workers[0].add([RunningAttempt(a_claim(), 1, 1, 0.0, 0.0)], 0.0)
    now = HOLD_EVERY_SECONDS
    assert pool.find_fit(now - 0.1) == Fit(1, None, False)
    at_last = pool.find_fit(now)
    pool.choose_fitting([a_claim()], at_last, now)
    assert pool.find_fit(now) == at_last == Fit(2, None, True)

    pool.choose_fitting([heavy], at_last, now)

    assert not pool.find_fit(now + HOLD_EVERY_SECONDS - 0.1).holds
    assert pool.find_fit(now + HOLD_EVERY_SECONDS).holds


def test_tasks_of_several_slots_are_claimed_as_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Watched(monkeypatch, threads=8)
    submit(node.store, *(a_task(slots=2) for _ in range(80)))

    node.work(40)

    assert len(node.given_back) <= 4, "only the first claim did not know what they need"
    assert len(node.claimed) - len(node.given_back) == 80


def test_memory_is_matched_to_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Watched(monkeypatch, threads=8, memory=1_000)
    large = submit_one(node.store, memory=600, priority=9)
    submit(node.store, a_task(memory=600, priority=8), a_task(memory=300), a_task(memory=200), a_task())

    node.claimer.step()
    node.claimer.step()

    running = [one.claim for one in node.pool.workers[1].running.values()]
    assert running[0].id == large
    assert [claim.rules.memory for claim in running[1:]] == [300, None], "others pass the tasks that do not fit now"
    assert len(node.given_back) <= 2


def test_what_does_not_fit_is_not_claimed_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Watched(monkeypatch, threads=16, memory=1_000)
    submit(node.store, *(a_task(memory=250) for _ in range(100)))

    node.work(60)

    assert len(node.claimed) - len(node.given_back) == 100
    assert len(node.given_back) <= 12, "only the first claim did not know what they need"


def test_a_task_that_needs_more_memory_than_the_pool_has_is_never_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Watched(monkeypatch, memory=1_000)
    submit(node.store, a_task(memory=1_001), a_task(memory=5))

    node.work(5)

    assert [claim.rules.memory for claim in node.claimed] == [5]


def test_without_a_setting_memory_has_no_effect() -> None:
    pool = a_pool(threads=2)

    assert pool.find_fit(0.0) == Fit(2, None, False)
    assert pool.choose_fitting([a_claim(memory=10**12)], pool.find_fit(0.0), 0.0)[1] == ()
