from __future__ import annotations

from datetime import timedelta

import pytest

from windlass.clock import ManualClock
from windlass.worker.settler import MAX_GAP_SECONDS, BatchDelay


class RecordingClock(ManualClock):
    """A manual clock that records how long it was asked to sleep."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        super().sleep(seconds)


def call_store(delay: BatchDelay, *batches: int) -> None:
    for tasks in batches:
        delay.wait()
        delay.begin()
        delay.record(tasks)


def test_a_chain_of_single_tasks_never_waits() -> None:
    clock = RecordingClock()

    call_store(BatchDelay(clock), *[1] * 50)

    assert clock.slept == []


def test_the_delay_grows_with_every_large_batch_up_to_a_limit() -> None:
    clock = RecordingClock()

    call_store(BatchDelay(clock), *[10] * 10)

    assert clock.slept == pytest.approx(sorted(clock.slept), abs=1e-5)
    assert clock.slept[-1] == pytest.approx(MAX_GAP_SECONDS, abs=1e-5)


def test_a_call_after_a_pause_is_made_at_once() -> None:
    clock = RecordingClock()
    delay = BatchDelay(clock)
    call_store(delay, *[10] * 10)
    clock.advance(timedelta(seconds=1))
    slept = len(clock.slept)

    call_store(delay, 10)

    assert len(clock.slept) == slept


def test_the_delay_ends_when_batches_become_single_tasks() -> None:
    clock = RecordingClock()
    delay = BatchDelay(clock)
    call_store(delay, *[10] * 10, *[1] * 20)

    clock.slept.clear()
    call_store(delay, 1)

    assert sum(clock.slept) < 1e-4
