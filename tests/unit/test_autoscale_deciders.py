"""The other deciders: thresholds and forecasts."""

from __future__ import annotations

from math import pi, sin
from random import Random

from msgspec.structs import replace

from tests.unit.test_autoscale_controller import busy
from windlass.autoscale.deciders import DECIDERS
from windlass.autoscale.deciders.forecasts import BIN, SEASON, forecast_rate, holt_winters, is_trusted, learn_bin
from windlass.autoscale.deciders.simple import threshold
from windlass.autoscale.estimates import Estimates
from windlass.autoscale.recommendation import DeciderMemory, Moment
from windlass.autoscale.settings import BUILT_IN_DECIDERS, Settings, Thresholds


def seen(now: float, size: int, running: int, memory: DeciderMemory, settings: Settings) -> Moment:
    observed = busy(running, size, running=running)
    return Moment(now=now, observed=observed, estimates=Estimates(), settings=settings, memory=memory, current=size)


def wants(settings: Settings, running: int, seconds: int, memory: DeciderMemory | None = None) -> float:
    """Return the size that `threshold` recommends for a pool of 10 after some seconds with this many busy workers."""
    memory, want = memory or DeciderMemory(), 10.0
    for second in range(seconds):
        recommendation, memory = threshold(seen(float(second), 10, running, memory, settings))
        want = recommendation.want
    return want


def test_the_thresholds_are_configurable() -> None:
    assert wants(Settings(), 8, 5) == 10
    assert wants(Settings(thresholds=Thresholds(high=0.75)), 8, 5) > 10
    assert wants(Settings(thresholds=Thresholds(low=0.9)), 8, 60) < 10


def test_reversing_a_step_needs_a_clearer_signal() -> None:
    marks = Settings(thresholds=Thresholds(high=0.7, low=0.55, deadband=0.2))

    assert wants(marks, 8, 5) > 10
    assert wants(marks, 8, 5, DeciderMemory(direction=-1)) == 10
    assert wants(marks, 5, 60) < 10
    assert wants(marks, 5, 60, DeciderMemory(direction=1)) == 10


def test_a_smoothed_threshold_does_not_follow_a_single_second() -> None:
    marks = Settings(thresholds=Thresholds(half_life=10.0))
    memory = DeciderMemory()
    for second in range(60):
        _, memory = threshold(seen(float(second), 10, 7, memory, marks))
    _, spiked = threshold(seen(60.0, 10, 10, memory, marks))

    assert spiked.above == 0
    assert threshold(seen(60.0, 10, 10, memory, Settings()))[1].above == 1


def days(count: int) -> DeciderMemory:
    """Return the memory of `holt_winters` after these noisy days, which have a higher peak on working days."""
    memory, rng = DeciderMemory(), Random(3)
    for at in range(count * SEASON):
        memory = replace(memory, bins=[*memory.bins[-1:], rate(at) + rng.gauss(0.0, 1.5)])
        memory = learn_bin(memory, at)
    return memory


def rate(at: int) -> float:
    working = at // SEASON % 7 < 5
    return 2.0 + (12.0 if working else 4.0) * max(0.0, sin(2 * pi * (at % SEASON) / SEASON))


def test_a_seasonal_forecast_is_trusted_after_two_days() -> None:
    assert not is_trusted(days(1))
    assert is_trusted(days(5))


def test_a_forecast_comes_with_an_upper_bound_and_before_the_rise() -> None:
    memory = replace(days(5), bin_ticks=0)
    morning = float((5 * SEASON + 20) * BIN)
    settings = Settings(deciders=("holt_winters",))
    observed = seen(morning, 10, 1, memory, settings)

    recommendation, _ = holt_winters(observed)

    assert recommendation.want > recommendation.must > 0


def test_the_day_of_the_week_counts_after_two_weeks() -> None:
    memory = days(28)
    noon = SEASON // 4
    monday, saturday = forecast_rate(memory, 28 * SEASON + noon), forecast_rate(memory, 33 * SEASON + noon)

    assert monday - saturday > 3.0


def test_a_forecast_that_is_worse_than_the_naive_one_is_ignored() -> None:
    memory = replace(days(5), error=4.0, naive=3.9)

    recommendation, _ = holt_winters(seen(0.0, 10, 1, memory, Settings()))

    assert recommendation.want == 0.0


def test_the_settings_accept_exactly_the_built_in_deciders() -> None:
    assert set(BUILT_IN_DECIDERS) == set(DECIDERS)
