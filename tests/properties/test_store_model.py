from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.properties.machine import StoreMachine
from windlass.stores.memory import MemoryStore

QUICK = settings(
    max_examples=200,
    stateful_step_count=30,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


def test_the_machine_finds_no_fault_in_the_model_itself() -> None:
    run_state_machine_as_test(lambda: StoreMachine(lambda clock: MemoryStore(clock=clock)), settings=QUICK)
