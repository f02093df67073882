"""The queueing formulas, compared with tables."""

from __future__ import annotations

from math import factorial

import pytest

from windlass.autoscale.deciders.simple import staff
from windlass.autoscale.deciders.slo import guard


def erlang_c(workers: int, load: float) -> float:
    """Return the chance that a task has to wait, by Erlang's formula as the textbooks print it."""
    if workers <= load:
        return 1.0
    waiting = load**workers / factorial(workers) * workers / (workers - load)
    return waiting / (sum(load**count / factorial(count) for count in range(workers)) + waiting)


@pytest.mark.parametrize(
    ("workers", "load", "waiting"), [(1, 0.5, 0.5), (2, 1.0, 1 / 3), (5, 4.0, 0.5541), (10, 8.0, 0.4092)]
)
def test_the_reference_formula_agrees_with_the_tables(workers: int, load: float, waiting: float) -> None:
    assert erlang_c(workers, load) == pytest.approx(waiting, abs=1e-4)


def test_every_task_waits_with_too_few_workers() -> None:
    assert erlang_c(4, 4.0) == 1.0


@pytest.mark.parametrize("load", [0.1, 1.0, 4.0, 8.0, 40.0])
@pytest.mark.parametrize("late", [0.01, 0.05, 0.5])
def test_staff_returns_the_fewest_workers_that_suffice(load: float, late: float) -> None:
    fewest = staff(load, 0.0, late)

    assert erlang_c(fewest, load) <= late < erlang_c(fewest - 1, load)


def test_patience_saves_workers() -> None:
    assert staff(20.0, 5.0, 0.01) < staff(20.0, 0.1, 0.01)


def test_no_load_needs_no_workers_and_a_large_load_is_fast() -> None:
    assert staff(0.0, 1.0, 0.01) == 0
    assert staff(10_000.0, 0.001, 0.01) == 10_200
    assert staff(10_000.0, 1.0, 0.01) == 10_005


def test_a_surprise_is_cleared_within_the_patience() -> None:
    size = guard(10.0, 12.0, 60.0, 8.0)

    assert size * (12.0 + 8.0) == pytest.approx(10.0 * 12.0 + 60.0)
