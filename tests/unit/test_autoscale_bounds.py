"""Limits that a user sets: steps, cooldowns, windows and money."""

from __future__ import annotations

import itertools

import pytest

from tests.support.builders import a_pin
from tests.unit.test_autoscale_controller import busy, played
from windlass.autoscale.controller import ControllerState, tick
from windlass.autoscale.observe import Observation
from windlass.autoscale.pacing import Bill, charge, count_affordable_workers
from windlass.autoscale.settings import Settings, Window

HEAVY = {"queued": 400, "oldest": 9.0}


def calm(settings: Settings) -> ControllerState:
    return played([busy(10, 11)] * 120, settings=settings)[-1].state


def test_a_growth_is_limited_to_step_up() -> None:
    settings = Settings(step_up=3)

    [decision] = played([busy(10, 11, **HEAVY)], calm(settings), settings)

    assert (decision.target, decision.limited_by) == (14, "step")
    assert decision.summarize(11).startswith("▲ 11→14")


def test_a_shrink_is_limited_to_step_down() -> None:
    settings = Settings(step_down=5)
    decisions = played([busy(10, 40)] * 200, settings=settings)

    sizes = [decision.target for decision in decisions]

    assert sizes[0] == 40
    assert sizes[-1] < 40
    assert all(before - after <= 5 for before, after in itertools.pairwise(sizes))


def test_a_pool_does_not_grow_during_the_cooldown() -> None:
    settings = Settings(step_up=1, cooldown_up=10.0)

    decisions = played([busy(10, 11, **HEAVY)] * 30, calm(settings), settings)

    assert [decision.target for decision in decisions[::10]] == [12, 13, 14]
    assert decisions[5].limited_by == "cooldown"


def test_a_pool_does_not_shrink_during_the_cooldown() -> None:
    settings = Settings(cooldown_down=200.0)
    grown = played([busy(10, 11, **HEAVY)], calm(settings), settings)

    quiet = played([busy(1, grown[0].target)] * 250, grown[0].state, settings)

    assert quiet[195].target == grown[0].target
    assert quiet[195].limited_by == "cooldown"
    assert quiet[-1].target < grown[0].target


def test_a_window_can_lower_the_maximum() -> None:
    settings = Settings(deciders=("slo", "schedule"), windows=(Window(begin=0, end=86400, max=15),))

    [decision] = played([busy(10, 11, **HEAVY)], calm(settings), settings)

    assert (decision.target, decision.limited_by) == (15, "window")


def test_the_hourly_cost_limit_leaves_room_for_bursts() -> None:
    settings = Settings(price=1.0, cost_per_hour=12.0)

    assert count_affordable_workers(Bill(began=10.0, at=10.0), settings) == 18
    assert count_affordable_workers(Bill(began=10.0, at=1810.0, spent=9.0), settings) == 9
    assert count_affordable_workers(Bill(began=10.0, at=10.0), Settings(price=1.0)) is None


def test_workers_cost_while_they_start_and_drain() -> None:
    settings, seen = Settings(price=2.0, cost_per_hour=12.0), Observation(ready=3, starting=1, draining=1)

    assert charge(910.0, seen, Bill(began=10.0, at=10.0), settings).spent == pytest.approx(2.5)
    assert charge(3611.0, seen, Bill(began=10.0, at=10.0, spent=9.0), settings) == Bill(began=3611.0, at=3611.0)


def test_a_pool_stays_within_its_hourly_cost_and_reports_the_wait() -> None:
    settings, state, size = Settings(price=1.0, cost_per_hour=12.0), ControllerState(), 1
    capped = False
    for second in range(3600):
        decision = tick(1000.0 + second, busy(40, size, **HEAVY), state, settings)
        state, size = decision.state, decision.target
        if decision.limited_by == "cost":
            capped = True
            assert "cost_capped" in decision.alerts
            assert "so a new task waits about" in decision.limit_reason

    assert capped
    assert 11.0 < state.bill.spent <= 12.1


def test_overrides_outrank_every_limit() -> None:
    settings = Settings(step_up=1, cooldown_up=100.0, price=1.0, cost_per_hour=12.0)
    state = ControllerState(override=a_pin(40, until=1e9))

    [decision] = played([busy(10, 11, breaker="open", deaths=9)], state, settings)

    assert (decision.target, decision.limited_by) == (40, "override")
