from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from windlass.clock import ManualClock
from windlass.worker.duty import LONGEST_WAIT, MAX_FAILURES, WITHIN_SECONDS, Duty, Failures, NotRestartable


def test_a_restart_waits_longer_with_every_failure_up_to_a_limit() -> None:
    failures = Failures()

    waits = [failures.next_wait(now=0.0) for _ in range(MAX_FAILURES - 1)]

    assert waits[:4] == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert waits[-1] == LONGEST_WAIT


def test_too_many_failures_in_a_short_time_are_final() -> None:
    failures = Failures()
    moments = [number * WITHIN_SECONDS / MAX_FAILURES for number in range(MAX_FAILURES)]

    waits = [failures.next_wait(now) for now in moments]

    assert waits[-1] is None
    assert None not in waits[:-1]


def test_failures_that_are_far_apart_are_never_final() -> None:
    failures = Failures()

    waits = [failures.next_wait(now=number * WITHIN_SECONDS / (MAX_FAILURES - 1) * 1.01) for number in range(1_000)]

    assert None not in waits
    assert failures.next_wait(now=1e9) == pytest.approx(0.1), "the first wait is short again"


class Reports:
    """Records the failures that a duty reports."""

    def __init__(self) -> None:
        self.received: list[tuple[str, str, float | None]] = []

    def __call__(self, duty: str, error: Exception, again_in: float | None) -> None:
        self.received.append((duty, str(error), again_in))


def test_a_duty_that_fails_is_reported_and_continues() -> None:
    over, reports = threading.Event(), Reports()
    steps = iter(["works", "fails", "works", "ends"])

    def step() -> None:
        match next(steps):
            case "fails":
                raise KeyError("surprise")
            case "ends":
                over.set()
            case _:
                pass

    clock = ManualClock()
    started = clock.monotonic()
    Duty("sweeper", step, over, reports, clock).run()

    assert reports.received == [("sweeper", "'surprise'", pytest.approx(0.1))]
    assert clock.monotonic() - started == pytest.approx(0.1, abs=1e-5)
    assert next(steps, None) is None


def test_a_duty_that_keeps_failing_gives_up_by_the_clock() -> None:
    reports = Reports()

    def step() -> None:
        raise RuntimeError("always")

    Duty("sweeper", step, threading.Event(), reports, ManualClock()).run()

    assert (
        [again_in for _, _, again_in in reports.received].index(None) == MAX_FAILURES - 1 == len(reports.received) - 1
    )


def failing_step(error: Exception) -> Iterator[None]:
    raise error
    yield


@pytest.mark.parametrize(("error", "restarts"), [(RuntimeError("x"), False), (NotRestartable("x"), True)])
def test_a_duty_that_must_not_be_restarted_gives_up_at_once(error: Exception, restarts: bool) -> None:
    reports = Reports()

    Duty("hub", lambda: next(failing_step(error)), threading.Event(), reports, ManualClock(), restarts=restarts).run()

    assert reports.received == [("hub", "x", None)]


def test_an_error_at_the_end_of_the_node_is_not_a_failure() -> None:
    over, reports = threading.Event(), Reports()

    def step() -> None:
        over.set()
        raise RuntimeError("the store was closed")

    Duty("sweeper", step, over, reports, ManualClock()).run()

    assert reports.received == []
