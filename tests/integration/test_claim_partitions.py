"""Claim partitions keep claims quick while a long transaction blocks vacuum, and no task is missed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from time import monotonic
from typing import LiteralString, cast

import psycopg
import pytest
from psycopg import IsolationLevel

from tests.support.builders import a_session, a_task, claim_all
from windlass.core.settlement import COMPLETED, RELEASED
from windlass.core.task import Change
from windlass.operations.explain import explain
from windlass.stores.postgres import PostgresStore, claim_partitions
from windlass.stores.postgres.admin import PostgresAdmin
from windlass.stores.protocol import Filter
from windlass.stores.statements import load

EVERY_TIME = -1


@pytest.fixture
def store(migrated_url: str) -> Iterator[PostgresStore]:
    opened = PostgresStore(migrated_url)
    yield opened
    opened.close()


@pytest.fixture
def outside(migrated_url: str, store: PostgresStore) -> Iterator[psycopg.Connection]:
    """Somebody else's connection to the same database."""
    with psycopg.connect(migrated_url) as connection:
        yield connection


def numbers(connection: psycopg.Connection) -> list[int]:
    rows = connection.execute("SELECT number FROM windlass.lot ORDER BY number").fetchall()
    connection.rollback()
    return [number for (number,) in rows]


def sweep_until(store: PostgresStore, holds: Callable[[], bool]) -> None:
    """Other tests' transactions on the same server may keep a lot from being dropped for a while."""
    deadline = monotonic() + 60
    while not holds():
        assert monotonic() < deadline
        store.sweep()


def pages_to_head(store: PostgresStore) -> int:
    """What the upkeep itself looks at."""
    db = store._db
    with db._connection() as connection:
        return db._lots._pages_to_head(connection, "default")


def test_a_claim_keeps_the_order_over_all_lots(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_partitions, "SLOW_HEAD", EVERY_TIME)
    store.submit([a_task(key=f"{lot}-{priority}", priority=priority) for lot in "a" for priority in (1, 5)])
    store.sweep()
    store.submit([a_task(key=f"{lot}-{priority}", priority=priority) for lot in "b" for priority in (3, 9)])
    store.sweep()
    store.submit([a_task(key="c-4", priority=4)])

    session = a_session(store)
    first = store.claim(session, ["default"], limit=2)
    rest = store.claim(session, ["default"], limit=9)

    assert [claim.key for claim in first + rest] == ["b-9", "a-5", "c-4", "b-3", "a-1"]


def test_a_lot_that_is_empty_for_good_is_dropped(
    store: PostgresStore, outside: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.submit([a_task(), a_task()])
    monkeypatch.setattr(claim_partitions, "SLOW_HEAD", EVERY_TIME)
    store.sweep()
    monkeypatch.undo()
    assert numbers(outside) == [0, 1]

    store.settle([(claim.lease, COMPLETED) for claim in claim_all(store)])

    sweep_until(store, lambda: numbers(outside) == [1])


def test_a_transaction_that_saw_a_lot_open_is_waited_for(
    store: PostgresStore, outside: psycopg.Connection, migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.submit([a_task()])
    with psycopg.connect(migrated_url) as caller:
        store.submit([a_task(key="late")], conn=caller)
        monkeypatch.setattr(claim_partitions, "SLOW_HEAD", EVERY_TIME)
        store.sweep()
        monkeypatch.undo()
        store.settle([(claim.lease, COMPLETED) for claim in claim_all(store)])
        for _ in range(3):
            store.sweep()
        assert 0 in numbers(outside), "the lot is empty, but somebody may still write into it"
        caller.commit()

    assert [claim.key for claim in claim_all(store)] == ["late"]


def test_what_comes_back_behind_a_mark_goes_into_the_open_lot(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.submit([a_task(key="first"), a_task(key="second"), a_task(key="third")])
    session = a_session(store)
    [first] = store.claim(session, ["default"], limit=1)
    monkeypatch.setattr(claim_partitions, "SLOW_HEAD", EVERY_TIME)
    store.sweep()
    monkeypatch.undo()
    store.sweep()  # The mark of the closed lot now stands at the second task.

    store.settle([(first.lease, RELEASED)])
    [third] = [task for task in store.find(Filter()).tasks if task.key == "third"]
    store.update(third.id, Change(priority=9))

    assert [claim.key for claim in claim_all(store)] == ["third", "first", "second"]


def test_many_closed_lots_are_merged(
    store: PostgresStore, outside: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_partitions, "SLOW_HEAD", EVERY_TIME)
    for lot in range(claim_partitions.MAX_PARTITIONS + 4):
        store.submit([a_task(key=f"{lot}")])
        store.sweep()
    monkeypatch.undo()

    sweep_until(store, lambda: len(numbers(outside)) <= claim_partitions.MAX_PARTITIONS + 1)
    assert [claim.key for claim in claim_all(store)] == [f"{lot}" for lot in range(claim_partitions.MAX_PARTITIONS + 4)]


UNSEEN = {
    "in a lot that is not there": "WITH moved AS (UPDATE windlass.runnable SET lot = 7) "
    "UPDATE windlass.task SET lot = 7",
    "in the first lot, which is gone": "INSERT INTO windlass.lot (queue, number) VALUES ('default', 3)",
    "before the mark of a closed lot": "INSERT INTO windlass.lot (queue, number, band, rank, tie, closed_before) "
    "VALUES ('default', 0, 1, 0, 0, '3'), ('default', 1, 0, 0, 0, NULL)",
}


@pytest.mark.parametrize("damage", UNSEEN)
def test_the_sweep_brings_back_what_no_claim_can_see(
    store: PostgresStore, outside: psycopg.Connection, migrated_url: str, damage: str
) -> None:
    ids = [receipt.id for receipt in store.submit([a_task(key=f"{number}") for number in range(3)])]
    outside.execute(cast("LiteralString", UNSEEN[damage]))
    outside.commit()
    assert claim_all(store) == []
    [task] = store.get(ids[:1])
    assert task is not None

    closed = explain(store, task).closed
    with closing(PostgresAdmin(migrated_url)) as admin:
        found = admin.check()
    swept = store.sweep()

    assert closed is not None
    assert (closed.name, closed.text) == ("store", "stored where no claim looks for it: the database is damaged")
    assert [(finding.check, finding.count) for finding in found] == [("out_of_sight", 3)]
    assert (swept.healed, [claim.key for claim in claim_all(store)]) == (3, ["0", "1", "2"])
    assert store.sweep().healed == 0


def test_every_statement_that_moves_a_task_into_a_lot_asks_which_is_open_with_a_number_of_its_own() -> None:
    """Looked up in any other way, a lot may be closed, and never looked at again, before the move is committed."""
    folders = [load("postgres", "$", folder=folder).values() for folder in ("sql", "shortcuts", "upkeep")]
    texts = {statement.name: statement.text for statements in folders for statement in statements}

    update = re.compile(r"UPDATE windlass\.(?:task|runnable)\b(?: AS \w)?\s+SET (.*?)\s(?:FROM|WHERE)", re.DOTALL)
    insert = re.compile(r"INSERT INTO windlass\.(?:task|runnable)\s")
    moving = {name for name, text in texts.items() if insert.search(text)}
    moving |= {name for name, text in texts.items() if any("lot =" in found for found in update.findall(text))}

    # `add_runnable` copies the partition that one of the others has written to `task` in the same transaction. `park`
    # moves tasks to lanes, which are never closed, or to the partition that `inside_lanes` looked up.
    copying = {"add_runnable", "park"}
    assert (
        moving == {"submit", "enqueue", "enqueue_one", "settle", "move", "set_place", "merge_lot", "rescue"} | copying
    )
    assert {name for name in moving if not re.search(r"windlass\.(open_lot|lot_of)\(", texts[name])} == copying
    assert "windlass.open_lot(" in texts["inside_lanes"]


def test_claims_stay_quick_while_somebody_pins_the_horizon(
    store: PostgresStore, outside: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside.isolation_level = IsolationLevel.REPEATABLE_READ
    outside.execute("SELECT 1")  # Idle from here on, and nothing that dies can be cleaned up.
    monkeypatch.setattr(claim_partitions, "SLOW_HEAD", 100)
    session = a_session(store)
    done = 0
    for _ in range(10):
        store.submit([a_task() for _ in range(500)])
        while claims := store.claim(session, ["default"], limit=100):
            store.settle([(claim.lease, COMPLETED) for claim in claims])
            done += len(claims)
        store.sweep()
    store.submit([a_task()])

    assert done == 5_000
    assert pages_to_head(store) < 1_000, "without lots, every one of the 5,000 dead entries is a page"
