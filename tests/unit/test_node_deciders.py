"""How a node calls the app's deciders, one call at a time, and uses the answers."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from windlass.clock import ManualClock
from windlass.config import PoolSettings
from windlass.custom_decider import PoolSituation
from windlass.events import Event, Events, SignalFailed
from windlass.worker.external_signals import DECIDER_TIMEOUT, ExternalSignals
from windlass.worker.pool import Pool

NAME = "app:mine"
SITUATION = PoolSituation(pool="default", now=0.0, workers=1, min=1, max=4)


class FakeNode:
    """A pool with a decider, a manual clock, and the calls that workers got."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.events: list[Event] = []
        self.asked: list[str] = []
        self.has_worker = True
        self.pool = Pool(PoolSettings())
        self.pool.situations = {NAME: SITUATION}
        dispatcher = SimpleNamespace(pools={"default": self.pool}, measure=self.measure)
        self.signals = ExternalSignals(
            cast("Any", SimpleNamespace(lock=threading.RLock(), dispatcher=dispatcher)),
            Events(self.events.append),
            self.clock,
        )
        self.signals.wake.set()

    def measure(self, _pool: str, name: str, situation: PoolSituation) -> bool:
        assert situation is SITUATION
        if self.has_worker:
            self.asked.append(name)
        return self.has_worker

    def step(self, seconds: float = 0.0) -> None:
        self.clock.sleep(seconds)
        self.signals.step()

    def answer(self, value: float | None, error: str = "") -> None:
        self.clock.sleep(0.01)
        self.signals.record("default", NAME, value, error)

    def failures(self) -> list[str]:
        return [event.error for event in self.events if isinstance(event, SignalFailed)]


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


def test_an_answer_goes_into_the_report(node: FakeNode) -> None:
    node.step()
    node.answer(3.0)
    node.step(0.5)

    assert node.asked == [NAME], "not again within a second"
    assert node.pool.report(0.0, 4).decided == {NAME: 3.0}


def test_a_decider_that_has_answered_is_called_again_every_second(node: FakeNode) -> None:
    node.step()
    node.step(5)
    assert node.asked == [NAME], "one call at a time"

    node.answer(3.0)
    node.step(1)

    assert node.asked == [NAME, NAME]


def test_an_error_removes_the_answer_and_is_reported_once(node: FakeNode) -> None:
    node.step()
    node.answer(3.0)
    node.step(1)
    for _ in range(3):
        node.answer(None, "ZeroDivisionError: x")
        node.step(1)

    assert node.pool.decided == {}
    assert node.pool.undecided == {NAME: "ZeroDivisionError: x"}
    assert node.failures() == ["ZeroDivisionError: x"]

    node.answer(2.0)
    node.step(1)
    assert (node.pool.decided, node.pool.undecided) == ({NAME: 2.0}, {})


def test_a_decider_that_hangs_is_abandoned_and_called_again(node: FakeNode) -> None:
    node.step()
    node.answer(3.0)
    node.step(1)
    node.step(DECIDER_TIMEOUT + 1)

    assert node.pool.decided == {}
    assert node.failures() == ["it has not answered for 30 s"]
    assert len(node.asked) == 3


def test_without_a_worker_no_decider_is_called_and_an_old_answer_expires(node: FakeNode) -> None:
    node.step()
    node.answer(3.0)
    node.has_worker = False
    node.step(2)
    assert node.pool.decided == {NAME: 3.0}

    node.step(DECIDER_TIMEOUT)

    assert (node.pool.decided, node.pool.undecided, node.failures()) == ({}, {}, [])


def test_a_decider_that_was_removed_is_forgotten(node: FakeNode) -> None:
    node.step()
    node.answer(3.0)
    node.pool.situations = {}
    node.step(1)

    assert node.pool.decided == {}
