"""Pools whose workers die or stall."""

from __future__ import annotations

from tests.unit.test_autoscale_controller import SETTINGS, busy, played
from windlass.autoscale.controller import ControllerState


def calm() -> ControllerState:
    return played([busy(10, 11)] * 120)[-1].state


def test_a_crash_loop_stops_growth_and_raises_an_alert_for_a_minute() -> None:
    state, wanting = calm(), {"queued": 100, "oldest": 4.0}

    [dying] = played([busy(10, 11, deaths=4, **wanting)], state)

    assert (dying.target, dying.alerts, dying.limited_by) == (state.target, ("crash_loop",), "veto:crashes")
    later = played([busy(10, 11, **wanting)] * 61, dying.state)
    assert later[58].target == state.target
    assert later[-1].target > 11
    assert "crash_loop" not in later[-1].alerts


def test_a_few_deaths_are_not_a_crash_loop() -> None:
    [decision] = played([busy(10, 11, deaths=3, queued=100, oldest=4.0)], calm())

    assert decision.target > 11
    assert decision.alerts == ()


def test_a_stalled_pool_is_held_and_raises_an_alert() -> None:
    stuck = [busy(10, 11, completions=0, busy=11.0, running=11, started=0, queued=50, oldest=9.0)] * 40

    decisions = played(stuck, calm())

    assert "stalled" not in decisions[29].alerts
    assert decisions[-1].alerts == ("stalled",)
    assert decisions[-1].limited_by == "veto:stalled"
    assert decisions[-1].target == decisions[30].target


def test_long_tasks_are_not_a_stall() -> None:
    long = [busy(0, 10, busy=10.0, running=10, completions=int(second % 40 == 39)) for second in range(1200)]

    decisions = played(long, settings=SETTINGS)

    assert not any("stalled" in decision.alerts for decision in decisions[600:])
