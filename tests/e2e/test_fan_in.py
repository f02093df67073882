from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import psycopg
import pytest
from psycopg import IsolationLevel

from tests.e2e.members import append_dependents, drain, keyed_batch, read_log, settle_in_order, submit_the_same
from tests.support.builders import (
    GAVE_UP,
    HOUR,
    a_session,
    a_task,
    claim_one,
    complete,
    report,
    run_all,
    state_of,
    states_of,
    submit,
    submit_one,
    sweep_until_quiet,
)
from tests.support.processes import Member, ProcessGroup, open_store, until
from windlass.clock import SystemClock
from windlass.core.lifecycle import State
from windlass.core.settlement import Returned
from windlass.core.task import TaskId
from windlass.core.times import Micros, micros
from windlass.stores.postgres import PostgresStore
from windlass.stores.protocol import Filter, Store

ROUNDS = 30

pytestmark = pytest.mark.slow


class LaterClock(SystemClock):
    """The system clock plus one hour, so that everything that has ended did so long ago."""

    def now(self) -> Micros:
        return super().now() + micros(HOUR)


def assert_nothing_is_left_to_heal(url: str) -> None:
    """Assert that the stall detector finds no lost wake-up among all edges, not even a recent one."""
    store = open_store(url, LaterClock())
    try:
        # It checks a thousand edges at a time, and there are several thousand.
        swept = [store.sweep() for _ in range(10)]
    finally:
        store.close()
    assert {(one.healed, one.resolved, one.cycles) for one in swept} == {(0, 0, 0)}


def deadlocks(url: str) -> int:
    """Return how many deadlocks PostgreSQL has resolved in this database; 0 for other stores.

    The store retries the loser, so nothing else shows them. A server process reports its count when it ends.
    """
    if not url.startswith("postgresql:"):
        return 0
    database = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"
    with psycopg.connect(url, autocommit=True) as connection:
        until(lambda: connection.execute(others, [database]).fetchone() == (0,), "all other connections are closed")
        found = connection.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = %s", [database]).fetchone()
        assert found is not None
        return found[0]


def send_all(members: list[Member]) -> None:
    for member in members:
        member.send("go")


def receive_all(members: list[Member]) -> list[object]:
    return [member.receive() for member in members]


def start_draining(group: ProcessGroup, url: str, queue: str, log: Path, sizes: list[int]) -> Member:
    seed = len(list(log.parent.iterdir()))
    return group.start(drain, url=url, queue=queue, log=str(log), sizes=sizes, seed=seed, ttl=60, watch=False)


def test_no_dependent_waits_forever_when_submits_and_settles_coincide(
    url: str, store: Store, group: ProcessGroup, tmp_path: Path
) -> None:
    settlers = [start_draining(group, url, "parents", tmp_path / f"{n}.log", sizes=[1, 2, 5]) for n in range(3)]
    submitters = [group.start(append_dependents, url=url, rounds=ROUNDS, seed=n) for n in range(3)]
    assert receive_all(settlers + submitters) == ["ready"] * 6

    send_all(settlers + submitters)
    initial_states: Counter[str] = Counter()
    children: list[TaskId] = []
    for submitter in submitters:
        for state, ids in submitter.receive(within=120).items():
            initial_states[state] += len(ids)
            children += [TaskId(id) for id in ids]
    send_all(settlers)
    receive_all(settlers)

    assert initial_states.keys() >= {State.WAITING, State.RUNNABLE}, (
        "some submits came before the end of a parent, and some after"
    )
    assert min(initial_states[State.WAITING], initial_states[State.RUNNABLE]) > 10
    assert {count.state for count in store.counts() if count.queue == "parents"} == {State.COMPLETED}
    assert [task.id for task in store.find(Filter(states=frozenset({State.WAITING}))).tasks] == []
    assert_nothing_is_left_to_heal(url)

    finisher = start_draining(group, url, "children", tmp_path / "last.log", sizes=[500])
    finisher.receive()
    send_all([finisher, finisher])
    finisher.receive()
    lines = read_log(tmp_path / "last.log")
    once = Counter(str(id) for id in children)
    assert len(once) == 3 * ROUNDS * 4 * 3
    assert Counter(str(line.task) for line in lines if line.what == "granted") == once
    assert Counter(str(line.task) for line in lines if line.what == "completed") == once


def test_children_of_parents_settled_in_opposite_orders_are_unblocked_once_without_a_deadlock(
    url: str, store: Store, group: ProcessGroup
) -> None:
    rounds, processes = 5, 4
    members = [
        group.start(settle_in_order, url=url, queue=f"q{n}", rounds=rounds, backwards=n % 2 == 1)
        for n in range(processes)
    ]

    for _ in range(rounds):
        parents = submit(store, *(a_task(queue=f"q{n % processes}") for n in range(40)))
        children = submit(store, *(a_task(queue="children", prerequisites=parents) for _ in range(20)))
        send_all(members)
        assert receive_all(members) == [10] * processes
        send_all(members)
        assert receive_all(members) == ["settled"] * processes

        assert set(states_of(store, children)) == {State.RUNNABLE}
        claims = store.claim(a_session(store), ["children"], 1_000)
        assert sorted(claim.id for claim in claims) == sorted(children)
        complete(store, *claims)

    assert receive_all(members) == [None] * processes
    assert_nothing_is_left_to_heal(url)
    store.close()
    assert deadlocks(url) == 0


def test_the_same_keyed_batch_submitted_in_opposite_orders_is_created_once_without_a_deadlock(
    url: str, store: Store, group: ProcessGroup
) -> None:
    rounds, size, processes = 6, 600, 4
    members = [group.start(submit_the_same, url=url, rounds=rounds, size=size, seed=n) for n in range(processes)]

    for _ in range(rounds):
        assert receive_all(members) == ["ready"] * processes
        send_all(members)

    created = [member.receive() for member in members]
    for turn in range(rounds):
        keys = [key for one in created for key in one[turn]]
        assert sorted(keys) == sorted(new.key or "" for new in keyed_batch(turn, size))
    assert len(run_all(store)) == rounds * size
    assert_nothing_is_left_to_heal(url)
    store.close()
    assert deadlocks(url) == 0


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(postgres_url)
    yield store
    store.close()


@pytest.mark.parametrize("level", list(IsolationLevel)[1:])
def test_a_parent_that_ends_during_the_callers_transaction_releases_the_dependent_after_the_commit(
    postgres: PostgresStore, postgres_url: str, level: IsolationLevel
) -> None:
    ends = [("completed", Returned(), State.RUNNABLE), ("failed", GAVE_UP, State.CANCELLED)]
    for (queue, end, becomes), settled in product(ends, ["before", "during"]):
        parent = submit_one(postgres, queue=queue)
        with psycopg.connect(postgres_url) as connection:
            connection.isolation_level = level
            connection.execute("SELECT 1 FROM windlass.task").fetchall()  # Takes the snapshot of the caller.
            if settled == "before":
                report(postgres, claim_one(postgres, queue=queue), end)
            [receipt] = postgres.submit([a_task(prerequisites=[parent])], conn=connection)
            if settled == "during":
                report(postgres, claim_one(postgres, queue=queue), end)
            assert postgres.get([receipt.id]) == [None]
            connection.commit()

        assert state_of(postgres, receipt.id) is State.WAITING
        swept = sweep_until_quiet(postgres)

        assert state_of(postgres, receipt.id) is becomes
        assert swept.healed == 0
    assert_nothing_is_left_to_heal(postgres_url)


def test_a_rolled_back_submit_leaves_nothing_behind(postgres: PostgresStore, postgres_url: str) -> None:
    parent = submit_one(postgres)
    with psycopg.connect(postgres_url) as connection:
        [receipt] = postgres.submit([a_task(key="child", prerequisites=[parent])], conn=connection)
        complete(postgres, claim_one(postgres))
        connection.rollback()

    assert postgres.get([receipt.id]) == [None]
    assert sweep_until_quiet(postgres).resolved == 0
    [again] = postgres.submit([a_task(key="child", prerequisites=[parent])])
    assert (again.id, again.created, again.state) == (receipt.id, True, State.RUNNABLE)
