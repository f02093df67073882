"""Loads: drawn from a seed with a user's options, or given task by task."""

from __future__ import annotations

from random import Random
from statistics import fmean, pvariance

import pytest

from windlass.simulation.bound import compute_bound
from windlass.simulation.load import DISTRIBUTIONS, InvalidLoad, LoadOverrides, make_service
from windlass.simulation.load_sources import adjust_load, find_load
from windlass.simulation.scenarios import SCENARIOS


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_seed_gives_the_same_tasks_and_another_gives_others(name: str) -> None:
    overrides = LoadOverrides(seconds=200)

    assert find_load(name, seed=1, overrides=overrides) == find_load(name, seed=1, overrides=overrides)
    assert (
        find_load(name, seed=1, overrides=overrides).arrivals != find_load(name, seed=2, overrides=overrides).arrivals
    )


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_load_has_the_given_length_and_rate(name: str) -> None:
    load = find_load(name, overrides=LoadOverrides(rate=30, seconds=600))

    assert load.length == 600
    assert len(load.arrivals) == pytest.approx(30 * 600, rel=0.05)
    assert all(0 <= at < 602 for at, _ in load.arrivals)
    assert list(load.arrivals) == sorted(load.arrivals, key=lambda arrival: arrival[0])


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_run_times_have_the_given_mean_and_variation(distribution: str) -> None:
    variation = {"exponential": 1.0, "constant": 0.0}.get(distribution, 3.0)
    draw = make_service(Random(5), distribution, 2.0, variation)
    times = [draw() for _ in range(100_000)]

    assert min(times) > 0
    assert fmean(times) == pytest.approx(2.0, rel=0.03)
    assert pvariance(times) / 4.0 == pytest.approx(variation, rel=0.15)


def test_a_bimodal_load_has_two_run_times_for_any_variation() -> None:
    draw = make_service(Random(5), "bimodal", 1.0, 50.0)
    times = {draw() for _ in range(10_000)}

    assert len(times) == 2
    assert min(times) > 0


def test_the_events_of_a_scenario_scale_with_its_length() -> None:
    slow = find_load("slow downstream", overrides=LoadOverrides(seconds=540)).slow
    shift = find_load("service-shift", overrides=LoadOverrides(seconds=540)).slow

    assert slow is not None
    assert (slow.begin, slow.end) == (180, 240)
    assert shift is not None
    assert (shift.begin, shift.get_factor(10_000)) == (270, 2.5)
    assert [at for at, _ in find_load("cron herd", overrides=LoadOverrides(seconds=540)).scheduled] == list(
        range(60, 540, 60)
    )


def test_the_downstream_capacity_scales_with_the_rate() -> None:
    usual, large = (find_load("slow-downstream", overrides=LoadOverrides(rate=rate, seconds=60)) for rate in (20, 100))

    assert (usual.knee, large.knee) == (40, 200)


@pytest.mark.parametrize("name", ["on/off", "on-off", "On Off", "on_off"])
def test_a_scenario_name_ignores_case_and_separators(name: str) -> None:
    assert find_load(name, overrides=LoadOverrides(seconds=60)).name == "on/off"


def test_arrivals_are_sorted_by_time() -> None:
    load = find_load([(4.0, 1.0), (2.0, 3.0)])

    assert list(load.arrivals) == [(2.0, 3.0), (4.0, 1.0)]
    assert (load.mean, load.length) == (2.0, 34)


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        (LoadOverrides(rate=0), "rate=0"),
        (LoadOverrides(service=-1), "service=-1"),
        (LoadOverrides(seconds=0), "seconds=0"),
        (LoadOverrides(cv2=-0.5), "cv2=-0.5"),
        (LoadOverrides(distribution="pareto"), "distribution='pareto'"),
        (LoadOverrides(distribution="exponential", cv2=2), "cv2=2"),
        (LoadOverrides(rate=10_000, seconds=100_000), "tasks"),
    ],
)
def test_an_invalid_option_is_refused_by_name(overrides: LoadOverrides, named: str) -> None:
    with pytest.raises(InvalidLoad, match=named):
        find_load("steady", overrides=overrides)


def test_an_unknown_load_suggests_the_nearest_name() -> None:
    with pytest.raises(InvalidLoad, match=r"load='stepp'.*Did you mean 'step'"):
        find_load("stepp")


@pytest.mark.parametrize("arrivals", [[], [(float("nan"), 1.0)], [(1.0, -1.0)], [(0.0, float("inf"))]])
def test_invalid_arrivals_are_refused(arrivals: list[tuple[float, float]]) -> None:
    with pytest.raises(InvalidLoad):
        find_load(arrivals)


@pytest.mark.parametrize("pool", [{"min": 5, "max": 4}, {"min": -1}, {"min": 0, "max": 0}])
def test_invalid_bounds_are_refused(pool: dict[str, int]) -> None:
    with pytest.raises(InvalidLoad, match="min="):
        adjust_load(find_load([(0.0, 1.0)]), **pool)


def test_the_bound_lasts_as_long_as_the_load_and_serves_all_its_work() -> None:
    load = find_load("bursts", overrides=LoadOverrides(seconds=600))
    needed = compute_bound(load).list_workers()

    assert len(needed) == load.length
    due = sum(service for at, service in load.arrivals if at < load.length - load.wait - 1)
    assert due * 0.999 <= sum(needed) <= sum(service for _, service in load.arrivals) * 1.001
