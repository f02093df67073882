"""How a node asks the app's deciders, one question at a time, and what it makes of the answers."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from windlass.config import PoolSettings
from windlass.custom_decider import PoolSituation
from windlass.events import Event, Events, SignalFailed
from windlass.worker import external_signals as module
from windlass.worker.external_signals import DECIDER_PATIENCE, ExternalSignals
from windlass.worker.pool import Pool

NAME = "app:mine"
SITUATION = PoolSituation(pool="default", now=0.0, workers=1, least=1, most=4)


class Floor:
    """A pool with a decider, a clock that the test moves, and what workers were asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        self.events: list[Event] = []
        self.asked: list[str] = []
        self.has_worker = True
        self.pool = Pool(PoolSettings())
        self.pool.situations = {NAME: SITUATION}
        crew = SimpleNamespace(pools={"default": self.pool}, measure=self.measure, measured=None)
        monkeypatch.setattr(module, "monotonic", lambda: self.now)
        self.signals = ExternalSignals(
            cast("Any", SimpleNamespace(lock=threading.RLock(), dispatcher=crew)), Events(self.events.append)
        )
        self.signals.turned.set()

    def measure(self, _pool: str, name: str, situation: PoolSituation) -> bool:
        assert situation is SITUATION
        if self.has_worker:
            self.asked.append(name)
        return self.has_worker

    def step(self, seconds: float = 0.0) -> None:
        self.now += seconds
        self.signals.step()

    def answer(self, value: float | None, error: str = "") -> None:
        self.now += 0.01
        self.signals.record("default", NAME, value, error)

    def failures(self) -> list[str]:
        return [event.error for event in self.events if isinstance(event, SignalFailed)]


@pytest.fixture
def floor(monkeypatch: pytest.MonkeyPatch) -> Floor:
    return Floor(monkeypatch)


def test_an_answer_goes_into_the_report(floor: Floor) -> None:
    floor.step()
    floor.answer(3.0)
    floor.step(0.5)

    assert floor.asked == [NAME], "not again within a second"
    assert floor.pool.report(0.0, 4).decided == {NAME: 3.0}


def test_it_is_asked_again_every_second_once_it_has_answered(floor: Floor) -> None:
    floor.step()
    floor.step(5)
    assert floor.asked == [NAME], "one question at a time"

    floor.answer(3.0)
    floor.step(1)

    assert floor.asked == [NAME, NAME]


def test_what_it_raises_takes_its_answer_away_and_is_told_once(floor: Floor) -> None:
    floor.step()
    floor.answer(3.0)
    floor.step(1)
    for _ in range(3):
        floor.answer(None, "ZeroDivisionError: x")
        floor.step(1)

    assert floor.pool.decided == {}
    assert floor.pool.undecided == {NAME: "ZeroDivisionError: x"}
    assert floor.failures() == ["ZeroDivisionError: x"]

    floor.answer(2.0)
    floor.step(1)
    assert (floor.pool.decided, floor.pool.undecided) == ({NAME: 2.0}, {})


def test_one_that_hangs_is_given_up_and_asked_again(floor: Floor) -> None:
    floor.step()
    floor.answer(3.0)
    floor.step(1)
    floor.step(DECIDER_PATIENCE + 1)

    assert floor.pool.decided == {}
    assert floor.failures() == ["it has not answered for 30 s"]
    assert len(floor.asked) == 3


def test_without_a_worker_nobody_is_asked_and_an_old_answer_ends(floor: Floor) -> None:
    floor.step()
    floor.answer(3.0)
    floor.has_worker = False
    floor.step(2)
    assert floor.pool.decided == {NAME: 3.0}

    floor.step(DECIDER_PATIENCE)

    assert (floor.pool.decided, floor.pool.undecided, floor.failures()) == ({}, {}, [])


def test_a_decider_that_is_no_longer_named_is_forgotten(floor: Floor) -> None:
    floor.step()
    floor.answer(3.0)
    floor.pool.situations = {}
    floor.step(1)

    assert floor.pool.decided == {}
