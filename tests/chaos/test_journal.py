"""The journal that a chaos run is judged by: it follows every change, and damage to a database shows in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import psycopg
import pytest

from tests.chaos import journal
from tests.chaos.history import History
from tests.chaos.run import read_store, replay_changes
from tests.checker.records import Recording
from tests.checker.report import check
from tests.support.builders import (
    GAVE_UP,
    NO_RETRY,
    RAISED,
    a_session,
    a_task,
    after,
    all_tasks,
    claim_all,
    claim_one,
    complete,
    report,
    submit,
)
from windlass.core.settlement import Crashed, Released
from windlass.errors import UnknownPrerequisite
from windlass.stores.protocol import Store
from windlass.wiring import open_store


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'journal.db'}"
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(open_store(url)) as store:
        journal.install(url)
        yield store


def break_database(url: str, statement: str) -> None:
    """Run a statement that Windlass would never run."""
    if url.startswith("sqlite:"):
        with closing(apsw.Connection(url.removeprefix("sqlite:///"))) as connection:
            connection.execute(statement)
    else:
        with psycopg.connect(url, options="-c search_path=windlass") as connection:
            connection.execute(statement.encode())


def judge(url: str, store: Store) -> tuple[list[str], list[str]]:
    """Return the rules that the recorded changes break, and what is wrong with the tables."""
    tasks = all_tasks(store)
    rows = list(read_store(store, History(), tasks))
    replay = replay_changes(url, tasks, rows)
    findings = check(Recording([*rows, *replay.transitions])).findings
    return sorted({finding.rule for finding in findings} - {"R1", "R5"}), replay.problems  # Nobody recorded clients.


def live(store: Store) -> None:
    """Let tasks go through every kind of change."""
    first, *_ = submit(store, a_task(key="a"), after("b", "a"), after("c", "a", "b"), a_task(key="d", retry=NO_RETRY))
    submit(store, after("e", "d"), a_task(key="late", delay=None, priority=3))
    session = a_session(store)
    for outcome in (RAISED, Crashed(error=RAISED.error), Released()):
        report(store, claim_one(store, session), outcome)
    store.cancel([first], reason="a test")
    store.retry([first])
    while claims := claim_all(store, session):
        failing = [claim for claim in claims if claim.rules.retry == NO_RETRY]
        for claim in failing:
            report(store, claim, GAVE_UP)
        complete(store, *(claim for claim in claims if claim not in failing))
        store.sweep()
    store.close_session(session)


def test_the_journal_follows_every_change(url: str, store: Store) -> None:
    live(store)

    tasks = all_tasks(store)
    replay = replay_changes(url, tasks, [])

    latest = {change.task: change for change in replay.transitions}
    assert {task: (change.after, change.fence, change.generation) for task, change in latest.items()} == {
        str(task.id): (task.state.value, task.fence, task.generation) for task in tasks
    }
    assert {"waiting", "runnable", "leased", "retrying", "completed", "failed", "cancelled"} <= {
        change.after for change in replay.transitions
    }
    assert judge(url, store) == ([], [])


def test_a_change_that_is_rolled_back_leaves_no_line(url: str, store: Store) -> None:
    before = journal.read(url)

    with pytest.raises(UnknownPrerequisite):
        store.submit([a_task(key="a"), after("b", "nobody")])

    assert journal.read(url) == before


def test_a_key_that_is_used_again_after_a_purge_starts_a_new_task(url: str, store: Store) -> None:
    for _ in range(2):
        submit(store, a_task(key="again"))
        complete(store, claim_one(store))
        store.purge([task.id for task in all_tasks(store)])

    replay = replay_changes(url, [], [])

    assert [change.after for change in replay.transitions] == ["runnable", "leased", "completed"] * 2
    assert [change.before for change in replay.transitions] == ["", "runnable", "leased"] * 2
    assert replay.problems == []


def test_one_submit_is_one_transaction(postgres_url: str) -> None:
    with closing(open_store(postgres_url)) as store:
        journal.install(postgres_url)
        submit(store, a_task(key="a"), after("b", "a"))
        submit(store, a_task(key="c"))

    replay = replay_changes(postgres_url, [], [])

    assert len({change.transaction for change in replay.transitions}) == 2


def test_a_fence_that_does_not_grow_is_found(postgres_url: str) -> None:
    """M2, in the real function of the database."""
    with closing(open_store(postgres_url)) as store:
        journal.install(postgres_url)
        break_database(
            postgres_url,
            "CREATE OR REPLACE FUNCTION next_fence(fence bigint, epoch bigint, submitted bigint) RETURNS bigint "
            "LANGUAGE sql AS 'SELECT submitted / 10000'",
        )
        submit(store, a_task(key="a"))
        report(store, claim_one(store), Released())
        claim_one(store)

        assert judge(postgres_url, store) == (["R3"], [])


def test_a_task_in_no_table_is_found(url: str, store: Store) -> None:
    submit(store, a_task(key="a"))
    break_database(url, "DELETE FROM runnable")

    [problem] = judge(url, store)[1]

    assert "is queued and in the tables []" in problem


def test_a_lease_that_is_taken_over_is_found(url: str, store: Store) -> None:
    submit(store, a_task(key="a"))
    claim_one(store)
    break_database(url, "UPDATE leased SET fence = fence + 1, session = id")

    assert judge(url, store) == (["R2"], [])


def test_a_task_that_ends_twice_is_found(url: str, store: Store) -> None:
    [id] = submit(store, a_task(key="a"))
    complete(store, claim_one(store))
    break_database(url, "UPDATE task SET state = 'cancelled', finished = submitted")

    rules, problems = judge(url, store)

    assert "R22" in rules
    assert [problem.partition(" after ")[0] for problem in problems] == [
        f"task {id} is cancelled and in the tables ['completed']"
    ]
