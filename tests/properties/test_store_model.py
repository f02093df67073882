"""Compares each SQL store with the memory store, which is the specification, under random calls. See `machine.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.properties.machine import StoreMachine
from tests.support.servers import PostgresServer
from tests.support.stores import Home, MemoryHome, PostgresCleaner, postgres_home, sqlite_home
from windlass.clock import ManualClock
from windlass.stores.protocol import Store

OpenStore = Callable[[ManualClock], Store]

# The same examples in every run, so that a change and not chance makes a test fail; the soak looks further.
QUICK = settings(stateful_step_count=30, derandomize=True, suppress_health_check=list(HealthCheck))
THOROUGH = settings(stateful_step_count=50, max_examples=2_000, suppress_health_check=list(HealthCheck))
PATIENT = pytest.mark.timeout(1_200)
"""A test that is cut short looks like a failing example, which Hypothesis then shrinks."""


class OneAtATime:
    """The home of the present example. That of the last one is closed when the next is opened."""

    def __init__(self) -> None:
        self._home: Home | None = None

    def opened(self, home: Home, clock: ManualClock) -> Store:
        self.close()
        self._home = home
        return home.open(clock)

    def close(self) -> None:
        if self._home is not None:
            self._home.close()


@pytest.fixture
def one_at_a_time() -> Iterator[OneAtATime]:
    homes = OneAtATime()
    yield homes
    homes.close()


@pytest.fixture
def open_sqlite(tmp_path: Path, one_at_a_time: OneAtATime) -> OpenStore:
    numbers = count()
    return lambda clock: one_at_a_time.opened(sqlite_home(tmp_path / f"{next(numbers)}.db"), clock)


@pytest.fixture
def open_postgres(
    postgres_server: PostgresServer, postgres_database: str, one_at_a_time: OneAtATime
) -> Iterator[OpenStore]:
    url = postgres_server.url(postgres_database)
    one_at_a_time.opened(postgres_home(url), ManualClock())  # migrates
    cleaner = PostgresCleaner(url)

    def opened(clock: ManualClock) -> Store:
        one_at_a_time.close()
        cleaner.clean()
        return one_at_a_time.opened(postgres_home(url), clock)

    yield opened
    cleaner.close()


def test_the_machine_finds_no_fault_in_the_model_itself() -> None:
    run_state_machine_as_test(lambda: StoreMachine(MemoryHome().open), settings=settings(QUICK, max_examples=50))


@PATIENT
def test_sqlite_answers_and_stands_as_the_model_does(open_sqlite: OpenStore) -> None:
    run_state_machine_as_test(lambda: StoreMachine(open_sqlite), settings=settings(QUICK, max_examples=80))


@PATIENT
def test_postgres_answers_and_stands_as_the_model_does(open_postgres: OpenStore) -> None:
    run_state_machine_as_test(lambda: StoreMachine(open_postgres), settings=settings(QUICK, max_examples=25))


@pytest.mark.soak
def test_sqlite_answers_and_stands_as_the_model_does_for_long(open_sqlite: OpenStore) -> None:
    run_state_machine_as_test(lambda: StoreMachine(open_sqlite), settings=THOROUGH)


@pytest.mark.soak
def test_postgres_answers_and_stands_as_the_model_does_for_long(open_postgres: OpenStore) -> None:
    run_state_machine_as_test(lambda: StoreMachine(open_postgres), settings=THOROUGH)
