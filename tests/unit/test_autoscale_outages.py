"""The effect of a circuit breaker on the size of a pool."""

from __future__ import annotations

import itertools

from tests.unit.test_autoscale_controller import busy, played
from windlass.autoscale.controller import ControllerState, Decision
from windlass.autoscale.settings import Settings

SETTINGS = Settings(wait=5.0, min=2, max=100)


def calm() -> ControllerState:
    return played([busy(20, 22)] * 300, settings=SETTINGS)[-1].state


def under(breaker: str, seconds: int, state: ControllerState) -> list[Decision]:
    """Return seconds with the breaker in this state, in which nothing is claimed and the queue grows."""
    decisions: list[Decision] = []
    for second in range(seconds):
        size = state.target or 0
        waiting = {"queued": 20 * second, "oldest": float(second), "breaker": breaker}
        stopped = busy(20, size, completions=0, busy=0.0, started=0, running=0, **waiting)
        decisions += played([stopped], state, SETTINGS)
        state = decisions[-1].state
    return decisions


def test_an_open_breaker_holds_the_size_for_half_a_minute() -> None:
    before = calm()

    decisions = under("open", 30, before)

    assert {decision.target for decision in decisions} == {before.target}
    assert decisions[-1].limited_by == "veto:breaker"
    assert decisions[-1].wanted > decisions[-1].target


def test_a_breaker_that_stays_open_shrinks_the_pool_to_its_minimum() -> None:
    decisions = under("open", 400, calm())

    assert decisions[-1].target == 2
    assert all(after.target <= before.target for before, after in itertools.pairwise(decisions))


def test_a_half_open_breaker_gets_one_worker_for_probes() -> None:
    opened = under("open", 400, calm())

    assert under("half_open", 5, opened[-1].state)[-1].target == 3


def test_closing_the_breaker_restores_the_old_size_at_once() -> None:
    before = calm()
    probed = under("half_open", 5, under("open", 400, before)[-1].state)

    [closed] = under("closed", 1, probed[-1].state)

    assert closed.target == before.target
    assert f"the breaker closed, so back to {before.target}" in closed.reasons


def test_an_outage_is_forgotten_after_it_ends() -> None:
    opened = under("open", 40, calm())[-1].state

    state = played([busy(2, 22)] * 40, opened, SETTINGS)[-1].state

    assert (state.outage.since, state.outage.closed, state.outage.size) == (None, None, 0)
