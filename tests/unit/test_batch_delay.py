from __future__ import annotations

import pytest

from windlass.worker import settler
from windlass.worker.settler import MOST_SECONDS, BatchDelay


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(settler, "monotonic", lambda: clock.now)
    monkeypatch.setattr(settler, "sleep", clock.sleep)
    return clock


def calls(paced: BatchDelay, *brought: int) -> None:
    for tasks in brought:
        paced.wait()
        paced.record(tasks)


def test_one_task_after_another_never_waits(clock: Clock) -> None:
    calls(BatchDelay(), *[1] * 50)

    assert clock.slept == []


def test_calls_that_bring_more_are_spaced_wider_and_wider_up_to_a_limit(clock: Clock) -> None:
    calls(BatchDelay(), *[10] * 10)

    assert clock.slept == sorted(clock.slept)
    assert clock.slept[-1] == pytest.approx(MOST_SECONDS)


def test_a_call_after_a_silence_is_made_at_once(clock: Clock) -> None:
    paced = BatchDelay()
    calls(paced, *[10] * 10)
    clock.now += 1
    slept = len(clock.slept)

    calls(paced, 10)

    assert len(clock.slept) == slept


def test_when_waiting_brings_no_more_it_stops(clock: Clock) -> None:
    paced = BatchDelay()
    calls(paced, *[10] * 10, *[1] * 20)

    clock.slept.clear()
    calls(paced, 1)

    assert sum(clock.slept) < 1e-4
