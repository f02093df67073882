"""Words that several modules of integration tests share: opening a PostgreSQL store, and looking at what is left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from tests.support.builders import all_tasks, counted, recounted, run_all
from windlass.core.lifecycle import State
from windlass.core.task import Claim, TaskId
from windlass.stores.postgres import PostgresStore
from windlass.stores.protocol import Store


@contextmanager
def opened(url: str, **options: Any) -> Iterator[PostgresStore]:
    """One more store, closed at the end of the block."""
    store = PostgresStore(url, **options)
    try:
        yield store
    finally:
        store.close()


def leased_now(store: Store) -> set[tuple[TaskId, int]]:
    """What somebody holds, and by which fence."""
    return {(task.id, task.fence) for task in all_tasks(store) if task.state is State.LEASED}


def granted(claims: list[Claim]) -> set[tuple[TaskId, int]]:
    """Return the tasks and fences of these claims."""
    return {(claim.lease.task, claim.lease.fence) for claim in claims}


def assert_sound(store: Store) -> None:
    """Nothing is half: the counts agree with the tasks, and every task can still be run to its end."""
    assert counted(store) == recounted(store)
    run_all(store)
    assert {task.state for task in all_tasks(store)} <= {State.COMPLETED}


def somebody_waits_for_a_lock(connection: psycopg.Connection) -> bool:
    """Whether a statement in this database stands still because of another transaction."""
    waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    return connection.execute(waits).fetchone() is not None


def orders(admin: psycopg.Connection) -> int:
    """How many rows the caller's own table has."""
    [(found,)] = admin.execute("SELECT count(*) FROM public.orders").fetchall()
    return found
