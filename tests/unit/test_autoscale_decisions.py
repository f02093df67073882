"""The summary of a decision for the ledger."""

from __future__ import annotations

from msgspec.structs import replace

from tests.support.builders import a_pin
from tests.unit.test_autoscale_controller import SETTINGS, busy, played
from windlass.autoscale.controller import ControllerState, Decision, build_decision
from windlass.autoscale.recommendation import Step
from windlass.autoscale.settings import Settings


def calm() -> ControllerState:
    return played([busy(10, 11)] * 120)[-1].state


def after(state: ControllerState, settings: Settings = SETTINGS, **more: object) -> Decision:
    [decision] = played([busy(10, 11, **more)], state, settings)
    return decision


def test_the_summary_of_a_growth_has_its_reason_and_need() -> None:
    steps = [
        Step(size=4, reason="412 runnable, oldest 1.9 s, goal 1.0 s", needs=3.7),
        Step(size=4, reason="grow 2 → 4"),
    ]

    assert (
        build_decision(steps, ControllerState()).summarize(2)
        == "▲ 2→4  412 runnable, oldest 1.9 s, goal 1.0 s: needs 3.7"
    )


def test_the_summary_shows_the_direction_of_the_change() -> None:
    decision = build_decision(
        [Step(size=3, reason="0 runnable, oldest 0.0 s, goal 1.0 s", needs=2.5)], ControllerState()
    )

    assert decision.summarize(4) == "▼ 4→3  0 runnable, oldest 0.0 s, goal 1.0 s: needs 2.5"
    assert decision.summarize(3) == "= 3  0 runnable, oldest 0.0 s, goal 1.0 s: needs 2.5"


def test_a_backlog_gives_that_summary() -> None:
    decision = after(calm(), queued=100, oldest=4.0)

    assert decision.limited_by == ""
    assert decision.wanted == decision.target
    assert decision.summarize(11) == (
        f"▲ 11→{decision.target}  100 runnable, oldest 4.0 s, goal 5.0 s: needs {decision.needs:.1f}"
    )


def test_the_summary_of_a_veto_has_the_wanted_size() -> None:
    storm = played([busy(10, 11, errors=9, busy=2.0)] * 30, calm())

    decision = after(storm[-1].state, errors=9, queued=300, oldest=9.0)

    assert decision.limited_by == "veto:errors"
    assert decision.wanted > decision.target
    assert decision.summarize(decision.target).startswith(
        f"= {decision.target} (wanted {decision.wanted}): veto: too many attempts fail"
    )


def test_the_summary_names_the_maximum_as_the_limit() -> None:
    decision = after(calm(), queued=5000, oldest=9.0)

    assert (decision.target, decision.limited_by) == (50, "max")
    assert decision.wanted > 50
    assert decision.summarize(11).endswith(f"(wanted {decision.wanted}): max 50, so a new task waits about 100 s")


def test_the_summary_names_the_author_of_an_override() -> None:
    pinned = after(replace(calm(), override=a_pin(7, until=1e9, author="kim")))
    paused = after(replace(calm(), override=a_pin(7, until=1e9), paused=True))

    assert (pinned.limited_by, pinned.summarize(7)) == ("override", "= 7 (wanted 11): set to 7 by kim")
    assert (paused.limited_by, paused.target) == ("paused", 0)


def test_the_hold_of_a_peak_limits_a_shrink() -> None:
    quiet = busy(0, 11, arrivals=0)

    decisions = played([quiet] * 10, calm())

    assert decisions[-1].wanted < decisions[-1].target == 11
    assert decisions[-1].limited_by == "hold"
