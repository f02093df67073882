"""Simulated runs: their results, how recovery is measured, and that they are repeatable."""

from __future__ import annotations

from itertools import pairwise

import pytest

import windlass
from windlass.simulation.load import InvalidLoad, Load, LoadOverrides
from windlass.simulation.load_sources import find_load
from windlass.simulation.run import compute_recovery, find_longest_streak, find_steps, measure_recovery

QUIET = [(second / 2, 0.5) for second in range(600)]
BUSY = [(300 + second / 20, 0.5) for second in range(6000)]


@pytest.mark.parametrize("policy", ["slo", "threshold", "clairvoyant", "hindsight"])
def test_the_same_arguments_give_the_same_result(policy: str) -> None:
    first, second = (windlass.simulate("bursts", policy=policy, seconds=300, seed=7) for _ in range(2))

    assert first == second


def test_a_result_has_waits_cost_and_every_change_of_size() -> None:
    result = windlass.simulate(QUIET + BUSY, wait="2s", max=40, start_delay="1s")

    assert result.tasks == 6600
    assert 0 <= result.wait_p50 <= result.wait_p95 <= result.wait_p99 <= result.wait_max
    assert result.cost == pytest.approx(result.worker_seconds / (result.worker_seconds / result.cost))
    assert result.cost > 0.95
    assert result.resizes_per_hour == pytest.approx(len(result.ledger) * 3600 / len(result.timeline.ready))
    assert result.ledger[0].before == 1
    assert all(before.after == after.before for before, after in pairwise(result.ledger))
    assert all(f"{line.before}→{line.after}" in line.why for line in result.ledger)


def test_every_list_of_a_timeline_has_every_second() -> None:
    result = windlass.simulate(QUIET, start_delay=3)
    line = result.timeline

    assert {len(each) for each in (line.arrivals, line.ready, line.starting, line.needed, line.waits)} == {329}
    assert sum(line.arrivals) == len(QUIET)
    assert max(line.waits) == pytest.approx(result.wait_max, abs=1.0)


def test_bounds_hold_in_every_second() -> None:
    result = windlass.simulate(QUIET + BUSY, min=3, max=5, start_delay=0)

    assert {3, 5} <= set(result.timeline.ready) <= {3, 4, 5}


def test_the_controller_uses_the_given_maximum() -> None:
    result = windlass.simulate([(second / 100, 1.0) for second in range(9000)], max=120, start_delay=0, wait=1)

    assert 100 <= max(result.timeline.ready) <= 120
    assert result.late < 0.05


def test_a_pool_can_start_with_no_workers() -> None:
    result = windlass.simulate([(100.0, 1.0), (101.0, 1.0)], min=0, start_delay="1s", wait="5s")

    assert result.timeline.ready[50] == 0
    assert result.late == 0
    assert result.tasks == 2


def test_hindsight_reports_its_best_fixed_size() -> None:
    result = windlass.simulate("steady", policy="hindsight", seconds=300)

    assert result.policy == "hindsight"
    assert set(result.timeline.ready) == {int(result.setting)}


def test_more_than_one_policy_is_refused() -> None:
    with pytest.raises(InvalidLoad, match="policy='all'"):
        windlass.simulate("step", policy="all")


def test_a_sudden_rise_is_a_step_and_a_ramp_is_not() -> None:
    assert find_steps(find_load("step")) == pytest.approx([1800], abs=20)
    assert find_steps(find_load("steady")) == []
    assert find_steps(find_load("ramp")) == []
    assert len(find_steps(find_load("on/off"))) == pytest.approx(5, abs=1)


def test_a_load_without_a_step_has_no_recovery() -> None:
    steady = find_load("steady", overrides=LoadOverrides(seconds=600))

    assert compute_recovery(steady, [True] * 600) is None


def test_recovery_ends_with_the_last_late_task_before_a_calm_stretch() -> None:
    late = [False] * 100 + [False] * 20 + [True] * 30 + [False] * 10 + [True] * 5 + [False] * 100 + [True] * 10

    assert measure_recovery(late, 100, 130) == 65
    assert measure_recovery([False] * 300, 100, 130) == 0


def test_the_longest_streak_is_found() -> None:
    assert find_longest_streak([True, False, True, True, False]) == 2
    assert find_longest_streak([]) == 0


def test_a_pool_that_is_too_small_recovers_late() -> None:
    load = Load(name="step", length=930, wait=2.0, delay=1.0, arrivals=sorted(QUIET + BUSY), max=8)
    tight = windlass.simulate(load, policy="slo")
    roomy = windlass.simulate(load, policy="slo", max=40)

    assert tight.recovery is not None
    assert roomy.recovery is not None
    assert tight.recovery > 5 * roomy.recovery
    assert tight.late > 0.5
