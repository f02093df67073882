"""Helpers of integration tests: open a PostgreSQL store, and check what it contains."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from tests.support.builders import all_tasks, counted, recounted, run_all
from windlass.core.lifecycle import State
from windlass.core.task import Claim, TaskId
from windlass.errors import StoreUnavailable
from windlass.stores.postgres import PostgresStore
from windlass.stores.protocol import Store


@contextmanager
def opened(url: str, **options: Any) -> Iterator[PostgresStore]:
    """Open another store, and close it at the end of the block."""
    store = PostgresStore(url, **options)
    try:
        yield store
    finally:
        store.close()


def leased_now(store: Store) -> set[tuple[TaskId, int]]:
    """Return the leased tasks and their fences."""
    return {(task.id, task.fence) for task in all_tasks(store) if task.state is State.LEASED}


def granted(claims: list[Claim]) -> set[tuple[TaskId, int]]:
    """Return the tasks and fences of these claims."""
    return {(claim.lease.task, claim.lease.fence) for claim in claims}


def assert_sound(store: Store) -> None:
    """Check that the counts agree with the tasks, and that every task can still run to its end."""
    assert counted(store) == recounted(store)
    run_all(store)
    assert {task.state for task in all_tasks(store)} <= {State.COMPLETED}


def somebody_waits_for_a_lock(connection: psycopg.Connection) -> bool:
    """Return True if a statement in this database waits for another transaction."""
    waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    return connection.execute(waits).fetchone() is not None


def orders(admin: psycopg.Connection) -> int:
    """Return the number of rows in the caller's own table."""
    [(found,)] = admin.execute("SELECT count(*) FROM public.orders").fetchall()
    return found


def is_back(store: Store) -> bool:
    """Return True if a store that was away answers again."""
    with suppress(StoreUnavailable):
        store.counts()
        return True
    return False
