"""The arrival rate: slow while it is constant, and fast when it changes."""

from __future__ import annotations

from random import Random

import pytest

from windlass.autoscale.estimates import Rates, record_arrivals


def fed(counts: list[int], patience: float = 0.0) -> Rates:
    rates = Rates()
    for count in counts:
        rates = record_arrivals(rates, count, patience)
    return rates


def test_a_constant_rate_is_found() -> None:
    assert fed([7] * 200).rate == pytest.approx(7)


def test_the_window_stays_small() -> None:
    rates = fed([0, 1] * 2000)

    assert len(rates.ticks) < 80
    assert rates.span <= 900


def test_a_new_rate_is_known_within_seconds() -> None:
    rates = fed([5] * 300 + [40] * 6)

    assert rates.rate > 35


def test_one_large_batch_does_not_change_the_rate() -> None:
    rates = fed([5] * 300 + [500] + [5] * 3)

    assert rates.rate < 6


def test_three_large_ticks_are_a_new_rate() -> None:
    rates = fed([5] * 300 + [100] * 3)

    assert rates.rate == pytest.approx(100)


def test_chance_does_not_change_the_rate() -> None:
    rng = Random(1)
    rates, jumps = Rates(), 0
    for _ in range(3600):
        rates = record_arrivals(rates, sum(rng.random() < 0.2 for _ in range(100)), 0.0)
        jumps += rates.jump != 0

    assert jumps <= 5


def test_a_fall_of_the_rate_is_found() -> None:
    assert fed([40] * 300 + [2] * 12).rate < 10


def test_a_steady_rise_has_a_slope() -> None:
    rates = fed([10 + second // 4 for second in range(120)])

    assert rates.slope == pytest.approx(0.25, rel=0.3)
    assert fed([10] * 120).slope == 0
