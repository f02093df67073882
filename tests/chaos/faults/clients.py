"""Faults of what handlers call."""

from __future__ import annotations

from tests.chaos.nemesis import Nemesis, fault
from tests.chaos.workload import plan_single, submit_until_acknowledged

STORM_FAULT = "F38 a service that is down"
STORM = 60
"""How many tasks call a service that is down."""


@fault(STORM_FAULT)
def take_service_down(nemesis: Nemesis) -> None:
    """Many tasks call a service that fails for a while: its breaker must open instead of a storm of retries."""
    service, number = nemesis.cluster.service, nemesis.counts[STORM_FAULT]
    service.is_up = False
    workflow = f"storm-{number}"
    calls = [plan_single(nemesis.rng, workflow, "chaos.call", f"call-{each}") for each in range(STORM)]
    submit_until_acknowledged(nemesis.history, "nemesis", workflow, calls)
    nemesis.pause(4, 8)
    service.is_up = True
