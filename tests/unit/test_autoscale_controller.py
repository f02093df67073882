"""The controller over many ticks: its sizes and its reasons."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import msgspec
import pytest

from tests.support.builders import a_pin
from windlass.autoscale.controller import ControllerState, Decision, tick
from windlass.autoscale.deciders import DECIDERS
from windlass.autoscale.observe import Observation
from windlass.autoscale.settings import Settings, Window

SETTINGS = Settings(wait=5.0, max=50)


def busy(rate: int, size: int, **more: object) -> Observation:
    """Return a second in which a pool of this size serves this rate of one-second tasks without a queue."""
    fields = {
        "arrivals": rate, "completions": min(rate, size), "busy": float(min(rate, size)), "started": min(rate, size),
        "ready": size, "running": min(rate, size), "start_delay": 0.05,
    }  # fmt: skip
    return msgspec.convert({**fields, **more}, Observation)


def played(
    seconds: Iterable[Observation], state: ControllerState | None = None, settings: Settings = SETTINGS
) -> list[Decision]:
    decisions: list[Decision] = []
    state = state or ControllerState()
    begin = 1000.0 if state.at is None else state.at
    for second, observed in enumerate(seconds, 1):
        decisions.append(tick(begin + second, observed, state, settings))
        state = decisions[-1].state
    return decisions


def test_a_pool_that_is_large_enough_keeps_its_size() -> None:
    decisions = played([busy(10, 11)] * 600)

    assert {decision.target for decision in decisions} == {11}


def test_a_constant_load_is_resized_at_most_twice_an_hour() -> None:
    sizes: list[int] = []
    size, state = 40, ControllerState()
    for second in range(3600):
        decision = tick(1000.0 + second, busy(10, size), state, SETTINGS)
        state, size = decision.state, decision.target
        sizes.append(size)

    assert sum(before != after for before, after in itertools.pairwise(sizes)) <= 2
    assert 10 <= sizes[-1] <= 14


def test_a_backlog_grows_the_pool_at_once_with_a_reason() -> None:
    calm = played([busy(10, 11)] * 120)

    [decision] = played([busy(10, 11, queued=100, oldest=4.0)], calm[-1].state)

    assert decision.target > 20
    assert decision.reasons[0].startswith("100 runnable, oldest 4.0 s, goal 5.0 s")
    assert decision.reasons[-1] == f"grow 11 → {decision.target}"


def test_workers_that_are_starting_are_not_ordered_twice() -> None:
    settings = Settings(wait=10.0, max=50)
    calm = played([busy(10, 11, start_delay=10.0)] * 120, settings=settings)
    [first] = played([busy(10, 11, queued=200, oldest=6.0, start_delay=10.0)], calm[-1].state, settings)

    coming = busy(10, 11, queued=200, oldest=7.0, starting=first.target - 11, start_delay=10.0)
    [second] = played([coming], first.state, settings)

    assert second.target <= first.target * 1.15


def test_without_data_the_size_stays_for_five_minutes() -> None:
    state = played([busy(10, 30)] * 90)[-1].state
    assert state.at is not None

    for missing in (1, 10, 299):
        decision = tick(state.at + missing, None, state, SETTINGS)

        assert (decision.target, decision.alerts) == (state.target, ())


def test_without_data_for_longer_the_median_of_the_last_half_hour_counts() -> None:
    state = msgspec.structs.replace(played([busy(10, 11)] * 90)[-1].state, sizes=[4, 9, 30, 9, 9])
    assert state.at is not None

    decision = tick(state.at + 301, None, state, SETTINGS)

    assert (decision.target, decision.alerts) == (9, ("signal_stale",))
    assert tick(state.at + 301, None, state, Settings(min=12)).target == 12


def test_one_size_per_minute_is_recorded_for_half_an_hour() -> None:
    state = played([busy(10, 11)] * 3600)[-1].state

    assert state.sizes == [11] * 30


def test_a_new_controller_adopts_the_current_size() -> None:
    decisions = played([busy(0, 30)] * 59)

    assert decisions[-1].target == 30


def test_an_override_applies_until_it_expires() -> None:
    override = a_pin(12, until=1005.0, author="kim", why="a release")
    decisions = played([busy(3, 4)] * 10, ControllerState(override=override))

    assert [decision.target for decision in decisions[:4]] == [12] * 4
    assert decisions[0].reasons[-1] == "set to 12 by kim: a release"
    assert decisions[-1].target == 4
    assert decisions[-1].state.override is None


def test_a_pause_is_size_zero_and_outranks_an_override() -> None:
    paused = ControllerState(paused=True, override=a_pin(12, until=2000.0))

    [decision] = played([busy(10, 11, queued=500, oldest=50.0)], paused)

    assert decision.target == 0
    assert decision.reasons[-1] == "paused"


def test_a_resumed_pool_gets_its_size_back() -> None:
    calm = played([busy(10, 11)] * 120)
    paused = played([busy(0, 0, queued=10)] * 3, msgspec.structs.replace(calm[-1].state, paused=True))

    [resumed] = played([busy(0, 0, queued=10)], msgspec.structs.replace(paused[-1].state, paused=False))

    assert resumed.target >= 11


def test_an_idle_pool_shrinks_to_zero_and_starts_for_due_tasks() -> None:
    settings = Settings(min=0, idle=60.0)
    idle = played([busy(1, 1)] * 120 + [busy(0, 1)] * 200, settings=settings)
    assert idle[-1].target == 0

    [woken] = played([busy(0, 0, due=((0.9, 3),))], idle[-1].state, settings)

    assert woken.target >= 1


def test_minimum_and_maximum_hold_and_the_maximum_raises_an_alert() -> None:
    decisions = played([busy(10, 11)] * 60 + [busy(10, 11, queued=5000, oldest=60.0)])

    assert decisions[-1].target == 50
    assert decisions[-1].alerts == ("at_max",)


def test_growth_above_the_maximum_uses_no_budget() -> None:
    decisions = played([busy(10, 11)] * 60 + [busy(10, 50, queued=5000, oldest=60.0)] * 60)

    assert decisions[-1].state.pace.tokens > 1.9


def test_long_first_tasks_are_recognized_before_they_end() -> None:
    stuck = [busy(0, 10, busy=10.0, running=10, started=10 if not second else 0) for second in range(30)]

    assert played(stuck)[-1].state.estimates.service(SETTINGS) >= 29


def test_every_decider_can_be_used_alone_and_together() -> None:
    for names in [*((name,) for name in DECIDERS), tuple(DECIDERS)]:
        settings = Settings(deciders=names, windows=(Window(begin=0, end=86400, min=3),))
        decisions = played([busy(10, 11, queued=20, oldest=1.0)] * 700, settings=settings)

        assert all(1 <= decision.target <= 64 for decision in decisions)


def test_a_window_past_midnight_is_open_on_both_days() -> None:
    window = Window(begin=80_000, end=5_000, min=4, days=(6,))

    assert window.open(85_000, 6)
    assert window.open(1_000, 0)
    assert not window.open(1_000, 6)


@pytest.mark.parametrize("name", sorted(DECIDERS))
def test_more_load_never_lowers_the_recommendation(name: str) -> None:
    settings = Settings(deciders=(name,), max=1000)
    few, many = (played([busy(rate, 60)] * 300, settings=settings)[-1] for rate in (5, 50))

    assert few.recommendation is not None
    assert many.recommendation is not None
    assert few.recommendation.want <= many.recommendation.want
