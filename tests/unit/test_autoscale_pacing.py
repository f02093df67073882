"""Pacing: holds, the resize budget, and the division of workers over nodes and pools."""

from __future__ import annotations

from math import inf

import pytest
from msgspec.structs import replace

from windlass.autoscale.observe import Observation
from windlass.autoscale.pacing import Pace, apply_pacing, compute_price, remember, spread_money
from windlass.autoscale.recommendation import Recommendation, Step
from windlass.autoscale.settings import Settings
from windlass.autoscale.shares import SlotRequest, divide_slots, divide_target

CALM = Observation(ready=20, start_delay=0.05)


def recommend(size: float) -> Recommendation:
    return Recommendation(must=size, want=size, keep=size, peak=size)


def test_the_list_of_maxima_starts_with_the_maximum_of_the_hold() -> None:
    line: list[tuple[float, float]] = []
    for at, size in enumerate([5.0, 9.0, 3.0, 4.0, 1.0]):
        line = remember(line, at, size, 3.0)

    assert line == [(1, 9.0), (3, 4.0), (4, 1.0)]


def test_growth_is_at_once_and_shrinking_waits_for_the_hold() -> None:
    step, pace = apply_pacing(1.0, recommend(20), CALM, Pace(), 4, Settings())
    assert step.size == 20

    sizes: list[int] = []
    for second in range(2, 60):
        step, pace = apply_pacing(float(second), recommend(4), CALM, pace, step.size, Settings())
        sizes.append(step.size)

    assert sizes[12] == 20
    assert sizes[-1] == 4


def test_small_steps_need_more_budget() -> None:
    assert compute_price(20, 19) > compute_price(20, 17) > compute_price(20, 10)


def test_an_empty_budget_stops_small_steps_but_not_growth() -> None:
    pace = Pace(tokens=-6.0, at=1.0)

    kept, _ = apply_pacing(100.0, recommend(18), CALM, pace, 20, Settings())
    grown, _ = apply_pacing(100.0, recommend(30), CALM, pace, 20, Settings())

    assert (kept.size, grown.size) == (20, 30)
    assert "resize budget" in kept.reason


def flapped(times: int, at: float = 1000.0) -> Pace:
    """Return the pace of a pool with this many reversals in the last minutes."""
    return Pace(reversals=[at - 100.0 + each for each in range(times)], at=at, tokens=6.0, grown=at - 350.0)


def test_a_flapping_pool_shrinks_only_in_larger_steps() -> None:
    def settled(need: float, reversals: int) -> tuple[int, str]:
        pace, step = flapped(reversals), Step(size=20)
        for second in range(1, 40):
            step, pace = apply_pacing(1000.0 + second, recommend(need), CALM, pace, step.size, Settings())
        return step.size, step.limit

    assert settled(17, 2) == (17, "hold")
    assert settled(17, 4) == (20, "flapping")
    assert settled(10, 4) == (10, "hold")


def test_the_deadband_widens_with_each_reversal_up_to_a_bound() -> None:
    bands = [flapped(times).deadband for times in (0, 2, 3, 4, 5, 11)]

    assert bands == [0.0, 0.0, 0.1, 0.2, 0.4, 0.4]


def test_reversals_are_counted_within_the_window() -> None:
    pace = Pace()
    for round_ in range(5):
        at = 1000.0 + 60 * round_
        _, pace = apply_pacing(at, recommend(20), CALM, pace, 4, Settings())
        pace = replace(pace, tokens=6.0, shrunk=at + 1)
    assert pace.flaps == 2

    _, later = apply_pacing(2000.0, recommend(4), CALM, pace, 4, Settings())
    assert later.flaps == 0


def test_a_budget_serves_minimums_and_then_higher_priorities() -> None:
    claims = [
        SlotRequest(pool="mail", min=1, must=5, want=8, priority=1),
        SlotRequest(pool="bulk", min=1, must=5, want=50),
    ]

    assert divide_slots(claims, 8) == {"mail": 5, "bulk": 3}
    assert divide_slots(claims, 100) == {"mail": 8, "bulk": 50}
    assert divide_slots(claims, 1) == {"mail": 1, "bulk": 1}


def test_pools_of_one_priority_share_by_weight() -> None:
    claims = [SlotRequest(pool="a", must=30, want=30, weight=2.0), SlotRequest(pool="b", must=30, want=30)]

    assert divide_slots(claims, 9) == {"a": 6, "b": 3}


def test_the_lowest_priority_does_not_starve() -> None:
    claims = [
        SlotRequest(pool="high", must=100, want=100, priority=1),
        SlotRequest(pool="low", must=10, want=10, waited=11.0),
    ]

    assert divide_slots(claims, 40) == {"high": 38, "low": 2}


def test_money_limits_the_workers() -> None:
    assert spread_money(36.0, 3600.0, 0.01) == pytest.approx(1.5)
    assert spread_money(36.0, 3600.0, 0.0) == inf


def test_shares_add_up_also_after_a_node_is_lost() -> None:
    assert divide_target(10, {"a": 8, "b": 8, "c": 8}) == {"a": 4, "b": 3, "c": 3}
    assert divide_target(10, {"a": 8, "b": 8}) == {"a": 5, "b": 5}
    assert divide_target(100, {"a": 8, "b": 4}) == {"a": 8, "b": 4}
