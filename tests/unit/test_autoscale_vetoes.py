"""Vetoes that limit the growth of a pool."""

from __future__ import annotations

from tests.unit.test_autoscale_controller import busy, played
from windlass.autoscale.controller import ControllerState
from windlass.autoscale.settings import Settings

SETTINGS = Settings(wait=5.0, max=200)


def healthy(seconds: int = 300) -> ControllerState:
    return played([busy(20, 22)] * seconds, settings=SETTINGS)[-1].state


def test_a_pool_with_failing_attempts_is_held() -> None:
    storm = [busy(20, 22, errors=18, busy=4.0, queued=400, oldest=20.0)] * 60

    decisions = played(storm, healthy(), SETTINGS)

    assert {decision.target for decision in decisions[5:]} == {decisions[5].target}
    assert any("too many attempts fail" in reason for reason in decisions[-1].reasons)


def test_growth_resumes_when_the_errors_end() -> None:
    storm = played([busy(20, 22, errors=18, busy=4.0)] * 60, healthy(), SETTINGS)

    after = played([busy(20, 22, queued=400, oldest=20.0)] * 20, storm[-1].state, SETTINGS)

    assert after[-1].target > 22


def test_the_limit_of_a_signal_is_obeyed() -> None:
    [decision] = played([busy(20, 22, queued=900, oldest=20.0, limit=30)], healthy(), SETTINGS)

    assert decision.target <= 30
    assert "veto: the downstream allows 30" in decision.reasons


def test_growth_that_does_not_help_is_capped() -> None:
    state, size = healthy(), 22
    for second in range(400):
        waiting = {"queued": 13 * second, "oldest": second * 0.65}
        stuck = busy(20, size, completions=7, busy=float(size), running=size, **waiting)
        [decision] = played([stuck], state, SETTINGS)
        state, size = decision.state, decision.target

    assert size < 150
    assert state.futility.since is not None
