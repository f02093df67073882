"""Each SQL store against the memory store, which is the specification, under random calls. See `machine.py`."""

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


@pytest.fixture
def one_at_a_time() -> Iterator[Callable[[Home], Home]]:
    """Closes what the last example has opened."""
    opened: list[Home] = []

    def close_and_keep(home: Home | None) -> Home | None:
        while opened:
            opened.pop().close()
        return opened.append(home) or home if home is not None else None

    yield close_and_keep
    close_and_keep(None)


@pytest.fixture
def open_sqlite(tmp_path: Path, one_at_a_time: Callable[[Home], Home]) -> OpenStore:
    numbers = count()
    return lambda clock: one_at_a_time(sqlite_home(tmp_path / f"{next(numbers)}.db")).open(clock)


@pytest.fixture
def open_postgres(
    postgres_server: PostgresServer, postgres_database: str, one_at_a_time: Callable[[Home], Home]
) -> Iterator[OpenStore]:
    url = postgres_server.url(postgres_database)
    one_at_a_time(postgres_home(url)).open(ManualClock())
    cleaner = PostgresCleaner(url)

    def opened(clock: ManualClock) -> Store:
        home = one_at_a_time(postgres_home(url))
        cleaner.clean()
        return home.open(clock)

    yield opened
    cleaner.close()


def test_the_machine_finds_no_fault_in_the_model_itself() -> None:
    run_state_machine_as_test(lambda: StoreMachine(MemoryHome().open), settings=settings(QUICK, max_examples=50))


def test_sqlite_answers_and_stands_as_the_model_does(open_sqlite: OpenStore) -> None:
    run_state_machine_as_test(lambda: StoreMachine(open_sqlite), settings=settings(QUICK, max_examples=200))


def test_postgres_answers_and_stands_as_the_model_does(open_postgres: OpenStore) -> None:
    run_state_machine_as_test(lambda: StoreMachine(open_postgres), settings=settings(QUICK, max_examples=60))


@pytest.mark.soak
def test_sqlite_answers_and_stands_as_the_model_does_for_long(open_sqlite: OpenStore) -> None:
    run_state_machine_as_test(lambda: StoreMachine(open_sqlite), settings=THOROUGH)


@pytest.mark.soak
def test_postgres_answers_and_stands_as_the_model_does_for_long(open_postgres: OpenStore) -> None:
    run_state_machine_as_test(lambda: StoreMachine(open_postgres), settings=THOROUGH)
