"""The policies of a simulation: their names, and the one that knows every task in advance."""

from __future__ import annotations

import pytest

from windlass.autoscale.observe import Observation
from windlass.simulation.load import InvalidLoad, Load
from windlass.simulation.policies import NAMES, clairvoyant, find_policies


def test_the_clairvoyant_orders_workers_one_start_delay_before_they_are_needed() -> None:
    arrivals = [(300 + second / 20, 1.0) for second in range(20 * 300)]
    load = Load(name="step", length=800, wait=10, delay=30, arrivals=arrivals)
    _, policy = clairvoyant(load)
    found = [policy(now, Observation(ready=1, start_delay=5.0)) for now in range(1, 800)]

    assert found[200] == 1
    assert found[280] >= 20


def test_policy_names_ignore_case_and_separators() -> None:
    assert find_policies([" SLO", "hpa use", "hpa_use"], ["slo", "hpa-use"]) == ["slo", "hpa-use"]
    assert find_policies(["all"]) == list(NAMES)


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(InvalidLoad, match=r"policy='sloo'.*slo"):
        find_policies(["sloo"])
