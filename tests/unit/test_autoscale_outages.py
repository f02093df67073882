"""What an open breaker does to a pool, and what its closing brings back."""

from __future__ import annotations

import itertools

from tests.unit.test_autoscale_controller import busy, played
from windlass.autoscale.controller import ControllerState, Decision
from windlass.autoscale.settings import Settings

SETTINGS = Settings(wait=5.0, floor=2, ceiling=100)


def calm() -> ControllerState:
    return played([busy(20, 22)] * 300, settings=SETTINGS)[-1].state


def under(breaker: str, seconds: int, state: ControllerState) -> list[Decision]:
    """Seconds under a breaker in that state, in which nothing is claimed and the queue grows."""
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


def test_a_breaker_that_stays_open_takes_the_pool_to_its_floor() -> None:
    decisions = under("open", 400, calm())

    assert decisions[-1].target == 2
    assert all(after.target <= before.target for before, after in itertools.pairwise(decisions))


def test_a_half_open_breaker_has_one_worker_more_to_probe_with() -> None:
    opened = under("open", 400, calm())

    assert under("half_open", 5, opened[-1].state)[-1].target == 3


def test_a_breaker_that_closes_gives_the_old_size_back_at_once() -> None:
    before = calm()
    probed = under("half_open", 5, under("open", 400, before)[-1].state)

    [closed] = under("closed", 1, probed[-1].state)

    assert closed.target == before.target
    assert f"the breaker has closed, back to {before.target}" in closed.reasons


def test_an_outage_that_is_over_is_forgotten() -> None:
    opened = under("open", 40, calm())[-1].state

    state = played([busy(2, 22)] * 40, opened, SETTINGS)[-1].state

    assert (state.outage.since, state.outage.closed, state.outage.size) == (None, None, 0)
