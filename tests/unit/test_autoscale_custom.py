"""Deciders that are functions of the app."""

from __future__ import annotations

import math
from typing import Any

import pytest
from msgspec.structs import replace

import windlass
from tests.unit.test_autoscale_pool_tick import Cluster
from windlass.autoscale.controller import ControllerState, tick
from windlass.autoscale.observe import Observation, PoolReport, collect_answers
from windlass.autoscale.settings import Settings, find_setting_errors
from windlass.custom_decider import PoolSituation, check_answer

OWN = Settings(deciders=("app:mine",), max=20)


def target(
    observed: Observation, state: ControllerState | None = None, settings: Settings = OWN
) -> tuple[int, tuple[str, ...]]:
    decision = tick(100.0, observed, state or ControllerState(), settings)
    return decision.target, decision.reasons


def test_the_answer_of_an_app_decider_is_the_size_with_its_name() -> None:
    size, reasons = target(Observation(ready=2, queued=5, decided={"app:mine": 7.0}))

    assert (size, reasons[0]) == (7, "app:mine asks for 7")


def test_maximum_and_vetoes_apply_to_app_deciders() -> None:
    assert target(Observation(ready=2, decided={"app:mine": 500.0}))[0] == 20
    assert target(Observation(ready=2, limit=3, decided={"app:mine": 9.0}))[0] == 3


@pytest.mark.parametrize("queued", [0, 50])
def test_without_an_answer_the_size_stays(queued: int) -> None:
    size, reasons = target(Observation(ready=4, queued=queued))

    assert (size, reasons[0]) == (4, "app:mine gave no answer, so the size stays")


def test_an_empty_pool_gets_one_worker_while_tasks_wait() -> None:
    settings = Settings(deciders=("app:mine",), min=0)
    idle = ControllerState(target=0, at=99.0)

    assert target(Observation(queued=3), idle, settings)[0] == 1
    assert target(Observation(), idle, settings)[0] == 0


def test_the_larger_recommendation_of_two_deciders_counts() -> None:
    both = Settings(deciders=("schedule", "app:mine"))

    assert target(Observation(ready=2, decided={"app:mine": 6.0}), settings=both)[0] == 6


def test_the_largest_answer_of_several_nodes_counts() -> None:
    nodes = {"a": PoolReport(decided={"app:x": 2.0}), "b": PoolReport(decided={"app:x": 3.0, "app:y": 1.0})}

    assert collect_answers(nodes, threads=4) == {"app:x": 12.0, "app:y": 4.0}


@pytest.mark.parametrize("name", ["app:", "app:a b", "app:1", "mine", "app:a:b"])
def test_an_invalid_app_decider_name_is_refused(name: str) -> None:
    [fault] = find_setting_errors(Settings(deciders=(name,)))

    assert name in fault
    assert "app:NAME for a function of the app" in fault


def test_app_deciders_can_be_combined_with_built_in_ones() -> None:
    assert find_setting_errors(Settings(deciders=("slo", "app:by_orders"))) == []


@pytest.mark.parametrize("answer", [None, "3", True, math.nan, math.inf, -1, 10_001, [1]])
def test_invalid_answers_are_refused(answer: object) -> None:
    with pytest.raises(ValueError, match="The decider returned"):
        check_answer(answer)


def test_numbers_of_workers_are_accepted() -> None:
    assert [check_answer(answer) for answer in (0, 2, 2.5)] == [0.0, 2.0, 2.5]


def test_the_ledger_has_the_answer_of_an_app_decider() -> None:
    cluster = Cluster()
    cluster.reports["1"] = replace(cluster.reports["1"], settings=OWN, decided={"app:mine": 3.0})
    ruling = cluster.tick()
    assert ruling is not None
    [entry] = ruling.entries

    assert "app:mine asks for 3" in entry.text
    assert '"decided":{"app:mine":3.0}' in entry.data


@pytest.mark.parametrize("asked", [{"decided": {"app:mine": 3.0}}, {"asked": 3}], ids=["decider", "signal"])
def test_a_quiet_pool_follows_signals_and_app_deciders_at_once(asked: dict[str, Any]) -> None:
    """A pool without work otherwise writes only once a minute."""
    cluster = Cluster()
    settings = OWN if "decided" in asked else Settings()
    cluster.reports["1"] = replace(cluster.reports["1"], settings=settings, decided={"app:mine": 1.0})
    for _ in range(5):
        cluster.tick()
    assert cluster.decision.idle

    cluster.reports["1"] = replace(cluster.reports["1"], **{"decided": {"app:mine": 1.0}, **asked})
    cluster.tick()

    assert cluster.decision.target == 3


def by_queue(situation: PoolSituation) -> float:
    return situation.running + situation.queued / 5


def test_an_app_decider_can_be_simulated() -> None:
    result = windlass.simulate("step", policy=by_queue, seconds=300)

    assert result.policy == "app:by_queue"
    assert result.late < 0.2


def test_an_exception_in_a_simulated_decider_is_raised() -> None:
    def broken(situation: PoolSituation) -> float:
        return 1 / (situation.workers - situation.workers)

    with pytest.raises(ZeroDivisionError):
        windlass.simulate("step", policy=broken, seconds=60)
