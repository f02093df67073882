"""The estimate of how long rises of the rate last."""

from __future__ import annotations

from tests.unit.test_autoscale_controller import busy, played
from windlass.autoscale.controller import ControllerState
from windlass.autoscale.estimates import Jumps, Rates, record_jumps
from windlass.autoscale.settings import Settings


def bursts(seconds: int, count: int = 12) -> ControllerState:
    """Return the arrivals of a queue with a burst of this length every two minutes."""
    burst = [busy(2, 60, start_delay=10.0)] * (120 - seconds) + [busy(40, 60, start_delay=10.0)] * seconds
    return played(burst * count, settings=Settings(wait=8.0))[-1].state


def test_a_rise_counts_in_full_before_anything_is_known() -> None:
    assert Jumps(young=5, before=2.0).discount(10.0, 1.0) == 10.0


def test_a_rise_counts_as_far_as_earlier_ones_lasted() -> None:
    jumps = Jumps(stay=0.5, young=5, before=2.0)

    assert jumps.discount(10.0, 1.0) == 6.0
    assert jumps.discount(1.0, 1.0) == 1.0


def test_a_rise_that_cannot_be_corrected_in_time_counts_in_full() -> None:
    assert Jumps(stay=0.5, young=5, before=2.0).discount(10.0, 0.0) == 10.0


def test_an_older_rise_counts_in_full() -> None:
    assert Jumps(stay=0.5, before=2.0).discount(10.0, 1.0) == 10.0


def test_a_short_jump_lowers_the_estimate_more_than_a_lasting_one() -> None:
    begun = record_jumps(Jumps(), 2.0, Rates(ticks=[30.0] * 3, jump=1), 30.0, 4)
    stayed, ended = begun, begun
    for _ in range(4):
        stayed = record_jumps(stayed, 30.0, Rates(ticks=[30.0] * 3), 30.0, 4)
        ended = record_jumps(ended, 30.0, Rates(ticks=[30.0] * 3), 0.0, 4)

    assert (stayed.young, ended.young) == (0, 0)
    assert stayed.stay == 1.0
    assert ended.stay == 0.85


def test_the_controller_learns_from_bursts() -> None:
    assert bursts(6).estimates.jumps.stay < 0.8 < bursts(60).estimates.jumps.stay
