"""Exponential smoothing."""

from __future__ import annotations

import pytest

from windlass.autoscale.estimates import DecayingMean


def test_a_value_that_is_one_half_life_old_counts_half() -> None:
    mean = DecayingMean().record(10.0, 8.0, 5.0).record(15.0, 0.0, 5.0)

    assert mean.value == pytest.approx(4.0)


def test_without_a_half_life_the_latest_value_counts() -> None:
    assert DecayingMean().record(10.0, 8.0, 0.0).record(11.0, 3.0, 0.0).value == 3.0
