"""The pace: holds, the budget of resizes, and the shared budget of several pools."""

from __future__ import annotations

from math import inf

import pytest

from windlass.autoscale.budget import Claim, affordable, shared
from windlass.autoscale.limits import Pace, paced, price, remember
from windlass.autoscale.observations import Observation
from windlass.autoscale.settings import Settings
from windlass.autoscale.shares import shares
from windlass.autoscale.wishes import Wish

CALM = Observation(ready=20, start_delay=0.05)


def wish(size: float) -> Wish:
    return Wish(must=size, want=size, keep=size, peak=size)


def test_the_line_of_maxima_starts_with_the_largest_of_the_hold() -> None:
    line: list[tuple[float, float]] = []
    for at, size in enumerate([5.0, 9.0, 3.0, 4.0, 1.0]):
        line = remember(line, at, size, 3.0)

    assert line == [(1, 9.0), (3, 4.0), (4, 1.0)]


def test_growth_is_at_once_and_shrinking_waits_for_the_hold() -> None:
    step, pace = paced(1.0, wish(20), CALM, Pace(), 4, Settings())
    assert step.size == 20

    sizes: list[int] = []
    for second in range(2, 60):
        step, pace = paced(float(second), wish(4), CALM, pace, step.size, Settings())
        sizes.append(step.size)

    assert sizes[12] == 20
    assert sizes[-1] == 4


def test_small_steps_need_more_of_the_budget() -> None:
    assert price(20, 19) > price(20, 17) > price(20, 10)


def test_an_empty_budget_stops_small_steps_but_not_growth() -> None:
    pace = Pace(tokens=-6.0, at=1.0)

    kept, _ = paced(100.0, wish(18), CALM, pace, 20, Settings())
    grown, _ = paced(100.0, wish(30), CALM, pace, 20, Settings())

    assert (kept.size, grown.size) == (20, 30)
    assert "budget of resizes" in kept.why


def test_a_budget_serves_the_higher_class_first_and_floors_always() -> None:
    claims = [Claim(pool="mail", floor=1, must=5, want=8, priority=1), Claim(pool="bulk", floor=1, must=5, want=50)]

    assert shared(claims, 8) == {"mail": 5, "bulk": 3}
    assert shared(claims, 100) == {"mail": 8, "bulk": 50}
    assert shared(claims, 1) == {"mail": 1, "bulk": 1}


def test_a_class_shares_by_weight() -> None:
    claims = [Claim(pool="a", must=30, want=30, weight=2.0), Claim(pool="b", must=30, want=30)]

    assert shared(claims, 9) == {"a": 6, "b": 3}


def test_the_lowest_class_does_not_starve() -> None:
    claims = [Claim(pool="high", must=100, want=100, priority=1), Claim(pool="low", must=10, want=10, waited=11.0)]

    assert shared(claims, 40) == {"high": 38, "low": 2}


def test_money_makes_a_ceiling() -> None:
    assert affordable(36.0, 3600.0, 0.01) == pytest.approx(1.5)
    assert affordable(36.0, 3600.0, 0.0) == inf


def test_the_shares_of_nodes_add_up_and_a_lost_node_is_replaced() -> None:
    assert shares(10, {"a": 8, "b": 8, "c": 8}) == {"a": 4, "b": 3, "c": 3}
    assert shares(10, {"a": 8, "b": 8}) == {"a": 5, "b": 5}
    assert shares(100, {"a": 8, "b": 4}) == {"a": 8, "b": 4}
