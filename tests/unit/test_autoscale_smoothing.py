"""A fading mean and a sliding window."""

from __future__ import annotations

import pytest

from windlass.autoscale.smoothing import SAMPLES, Fading, Sliding


def test_what_is_a_half_life_old_counts_half() -> None:
    mean = Fading().record(10.0, 8.0, 5.0).record(15.0, 0.0, 5.0)

    assert mean.value == pytest.approx(4.0)


def test_without_a_half_life_the_latest_value_counts() -> None:
    assert Fading().record(10.0, 8.0, 0.0).record(11.0, 3.0, 0.0).value == 3.0


def test_a_signal_that_falls_silent_is_stale() -> None:
    assert Fading().stale(0.0, 5.0)
    assert not Fading().record(10.0, 8.0, 5.0).stale(15.0, 5.0)
    assert Fading().record(10.0, 8.0, 5.0).stale(15.1, 5.0)
    assert Sliding().stale(0.0, 5.0)
    assert Sliding().heard(10.0, 1.0, 60.0).stale(15.1, 5.0)


def test_a_window_knows_mean_maximum_and_quantiles_of_its_seconds() -> None:
    window = Sliding()
    for at, value in enumerate([50.0, 1.0, 2.0, 3.0, 10.0]):
        window = window.heard(float(at), value, 4.0)

    assert window.mean == 4.0
    assert window.most == 10.0
    assert (window.quantile(0.5), window.quantile(1.0)) == (2.0, 10.0)


def test_a_long_window_stays_small_and_spans_all_of_its_time() -> None:
    window = Sliding()
    for at in range(3600):
        window = window.heard(float(at), float(at), 3600.0)

    assert len(window.samples) <= SAMPLES
    assert window.samples[0][0] < 60
    assert window.samples[-1] == (3599.0, 3599.0)
