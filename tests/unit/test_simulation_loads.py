"""Loads: drawn from a seed with what a user wants of them, or given task by task."""

from __future__ import annotations

from random import Random
from statistics import fmean, pvariance

import pytest

from windlass.simulation.bound import compute_bound
from windlass.simulation.chance import DISTRIBUTIONS, make_service
from windlass.simulation.load import InvalidLoad
from windlass.simulation.loads import find_load, adjust_load
from windlass.simulation.scenarios import SCENARIOS
from windlass.simulation.wishes import LoadOverrides


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_seed_gives_the_same_tasks_and_another_gives_others(name: str) -> None:
    wishes = LoadOverrides(seconds=200)

    assert find_load(name, seed=1, wishes=wishes) == find_load(name, seed=1, wishes=wishes)
    assert find_load(name, seed=1, wishes=wishes).arrivals != find_load(name, seed=2, wishes=wishes).arrivals


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_load_has_the_length_and_the_rate_that_are_wanted(name: str) -> None:
    load = find_load(name, wishes=LoadOverrides(rate=30, seconds=600))

    assert load.length == 600
    assert len(load.arrivals) == pytest.approx(30 * 600, rel=0.05)
    assert all(0 <= at < 602 for at, _ in load.arrivals)
    assert list(load.arrivals) == sorted(load.arrivals, key=lambda arrival: arrival[0])


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_run_times_have_the_mean_and_the_variation_that_are_wanted(distribution: str) -> None:
    variation = {"exponential": 1.0, "constant": 0.0}.get(distribution, 3.0)
    draw = make_service(Random(5), distribution, 2.0, variation)
    times = [draw() for _ in range(100_000)]

    assert min(times) > 0
    assert fmean(times) == pytest.approx(2.0, rel=0.03)
    assert pvariance(times) / 4.0 == pytest.approx(variation, rel=0.15)


def test_a_bimodal_load_has_two_run_times_whatever_its_variation() -> None:
    draw = make_service(Random(5), "bimodal", 1.0, 50.0)
    times = {draw() for _ in range(10_000)}

    assert len(times) == 2
    assert min(times) > 0


def test_what_happens_in_a_scenario_is_squeezed_with_it() -> None:
    slow = find_load("slow downstream", wishes=LoadOverrides(seconds=540)).slow
    shift = find_load("service-shift", wishes=LoadOverrides(seconds=540)).slow

    assert slow is not None
    assert (slow.begin, slow.end) == (180, 240)
    assert shift is not None
    assert (shift.begin, shift.get_factor(10_000)) == (270, 2.5)
    assert [at for at, _ in find_load("cron herd", wishes=LoadOverrides(seconds=540)).scheduled] == list(range(60, 540, 60))


def test_more_work_finds_more_room_downstream() -> None:
    usual, large = (find_load("slow-downstream", wishes=LoadOverrides(rate=rate, seconds=60)) for rate in (20, 100))

    assert (usual.knee, large.knee) == (40, 200)


@pytest.mark.parametrize("name", ["on/off", "on-off", "On Off", "on_off"])
def test_a_scenario_is_found_however_its_words_are_joined(name: str) -> None:
    assert find_load(name, wishes=LoadOverrides(seconds=60)).name == "on/off"


def test_arrivals_are_played_as_they_are_in_the_order_of_time() -> None:
    load = find_load([(4.0, 1.0), (2.0, 3.0)])

    assert list(load.arrivals) == [(2.0, 3.0), (4.0, 1.0)]
    assert (load.mean, load.length) == (2.0, 34)


@pytest.mark.parametrize(
    ("wishes", "named"),
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
def test_what_cannot_be_drawn_is_refused_by_name(wishes: LoadOverrides, named: str) -> None:
    with pytest.raises(InvalidLoad, match=named):
        find_load("steady", wishes=wishes)


def test_an_unknown_load_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(InvalidLoad, match=r"load='stepp'.*did you mean 'step'"):
        find_load("stepp")


@pytest.mark.parametrize("arrivals", [[], [(float("nan"), 1.0)], [(1.0, -1.0)], [(0.0, float("inf"))]])
def test_arrivals_that_are_none_are_refused(arrivals: list[tuple[float, float]]) -> None:
    with pytest.raises(InvalidLoad):
        find_load(arrivals)


@pytest.mark.parametrize("pool", [{"floor": 5, "ceiling": 4}, {"floor": -1}, {"floor": 0, "ceiling": 0}])
def test_bounds_that_are_no_pool_are_refused(pool: dict[str, int]) -> None:
    with pytest.raises(InvalidLoad, match="floor="):
        adjust_load(find_load([(0.0, 1.0)]), **pool)


def test_the_clairvoyant_path_lasts_as_long_as_the_load_and_serves_all_of_its_work() -> None:
    load = find_load("bursts", wishes=LoadOverrides(seconds=600))
    needed = compute_bound(load).list_workers()

    assert len(needed) == load.length
    due = sum(service for at, service in load.arrivals if at < load.length - load.wait - 1)
    assert due * 0.999 <= sum(needed) <= sum(service for _, service in load.arrivals) * 1.001
