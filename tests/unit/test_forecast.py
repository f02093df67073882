from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.forecast import forecast


def started_after(ahead: int, slots: int, seconds: float, chance: random.Random) -> float:
    """When the task after `ahead` others starts, if all of them are there and run times are exponential."""
    free = [chance.expovariate(1 / seconds) for _ in range(slots)]
    for _ in range(ahead):
        first = min(range(slots), key=free.__getitem__)
        free[first] += chance.expovariate(1 / seconds)
    return min(free)


@pytest.mark.parametrize(("ahead", "slots", "seconds"), [(40, 4, 0.5), (200, 8, 1.0), (10, 1, 2.0)])
def test_about_four_of_five_tasks_start_within_the_range(ahead: int, slots: int, seconds: float) -> None:
    chance = random.Random(7)
    expected = forecast(ahead, slots, seconds)

    starts = [started_after(ahead, slots, seconds, chance) for _ in range(2_000)]
    inside = sum(expected.soonest <= start <= expected.latest for start in starts) / len(starts)

    assert 0.7 <= inside <= 0.95


@given(ahead=st.integers(0, 10_000), slots=st.integers(1, 500), seconds=st.floats(0.001, 3_600))
def test_more_ahead_never_means_sooner_and_more_slots_never_later(ahead: int, slots: int, seconds: float) -> None:
    here, behind = forecast(ahead, slots, seconds), forecast(ahead + 1, slots, seconds)
    helped = forecast(ahead, slots + 1, seconds)

    assert 0 <= here.soonest <= here.latest
    assert here.latest <= behind.latest
    assert helped.latest <= here.latest


def test_a_deadline_far_away_is_safe_and_one_that_has_passed_is_missed() -> None:
    safe = forecast(10, 2, 1.0, slack=1_000).deadline_risk
    close = forecast(10, 2, 1.0, slack=6.5).deadline_risk
    gone = forecast(10, 2, 1.0, slack=-100).deadline_risk

    assert safe is not None
    assert close is not None
    assert gone is not None
    assert safe < 0.01 < 0.3 < close < 0.7 < 0.99 < gone
    assert forecast(10, 2, 1.0).deadline_risk is None


def test_it_is_shown_as_a_range() -> None:
    assert str(forecast(40, 4, 0.5, slack=60)).startswith("40 ahead of it in its queue · starts in ")
    assert "or more" in str(forecast(10_000, 4, 0.5, more=True))
