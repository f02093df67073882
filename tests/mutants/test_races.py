"""Races of the unmodified stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import apsw
import pytest
from psycopg import IsolationLevel, sql

from tests.mutants.laboratory import COMMIT, Death, Laboratory, database_of, die_at, intercept
from tests.mutants.scenarios import in_id_order, renew_the_lot, watch_conflicts
from tests.support.builders import (
    GAVE_UP,
    HOUR,
    MINUTE,
    SECOND,
    a_session,
    a_task,
    after,
    all_tasks,
    claim_all,
    claim_one,
    complete,
    report,
    run,
    run_all,
    state_of,
    states_of,
    submit,
    submit_one,
    sweep_until_quiet,
    task_of,
)
from windlass.core import submission
from windlass.core.lifecycle import State
from windlass.core.settlement import COMPLETED, Returned
from windlass.core.task import Change, TaskId, Unique
from windlass.errors import CommitUnknown, StoreUnavailable
from windlass.stores.postgres.caller_transaction import complete_in
from windlass.stores.protocol import SESSION_TTL, Filter, Settled
from windlass.stores.sql import bulk, endings, graph, settle, sweep
from windlass.stores.sql import submit as submitting
from windlass.stores.sql.audited_change import AuditedChange
from windlass.stores.sql.database import Transaction
from windlass.stores.sql.store import SqlStore

T = TypeVar("T")

BOTH = pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
POSTGRES = pytest.mark.parametrize("dialect", ["postgres"])


@BOTH
def test_a_prerequisite_purged_before_its_edges_are_resolved_leaves_no_task_waiting(laboratory: Laboratory) -> None:
    """It is the same when a fan-out has more edges than a settle resolves itself and the sweep has not come yet."""
    laboratory.patch(graph, "LEVELS", 0)
    laboratory.patch(settle, "LEVELS", 0)
    laboratory.patch(endings, "LEVELS", 0)
    dying, store = laboratory.open(), laboratory.open()
    parent = submit_one(store)
    child = submit_one(store, queue="children", prerequisites=[parent])
    claim = claim_one(store)
    die_at(dying, "take_ended")

    with pytest.raises(Death):
        complete(dying, claim)
    store.purge([parent])
    sweep_until_quiet(store)

    assert state_of(store, child) is State.RUNNABLE


@BOTH
def test_a_retry_of_many_that_dies_before_it_is_decided_has_changed_nothing(laboratory: Laboratory) -> None:
    dying, store = laboratory.open(), laboratory.open()
    ids = a_cancelled_chain(laboratory, store)
    before = store.get(ids)
    die_at(dying, "decide_bulk")

    with pytest.raises(Death):
        dying.retry(Filter())
    laboratory.clock.advance(2 * MINUTE)
    sweep_until_quiet(store)

    assert store.get(ids) == before
    assert operations(laboratory) == 0


@BOTH
def test_a_retry_of_many_that_dies_half_way_is_carried_out_by_a_sweep_in_the_order_of_the_graph(
    laboratory: Laboratory,
) -> None:
    dying, store = laboratory.open(), laboratory.open()
    ids = a_cancelled_chain(laboratory, store)
    seen: list[str] = []

    def die_at_the_second(coming: str) -> None:
        seen.append(coming)
        if seen.count("reopen_edges") == 2:
            raise Death(coming)

    intercept(dying, die_at_the_second)
    with pytest.raises(Death):
        dying.retry(Filter())
    assert store.sweep().healed == store.sweep().carried_on == 0
    laboratory.clock.advance(2 * MINUTE)
    swept = sweep_until_quiet(store)

    assert (swept.healed, swept.carried_on > 0) == (0, True)
    assert states_of(store, ids) == [State.RUNNABLE] + [State.WAITING] * (len(ids) - 1)
    assert operations(laboratory) == 0
    assert run_all(store) == ids


@BOTH
def test_what_comes_back_first_and_fails_again_takes_down_what_comes_back_later(laboratory: Laboratory) -> None:
    """The whole chain comes back, as if in one step; that its head has failed meanwhile is the ordinary rule's case."""
    slow, store = laboratory.open(), laboratory.open()
    ids = a_cancelled_chain(laboratory, store)
    failed: list[str] = []

    def fail_the_head() -> None:
        if state_of(store, ids[0]) is State.RUNNABLE and not failed:
            failed.append("once")
            run(store, GAVE_UP)

    intercept_between(slow, fail_the_head)
    assert slow.retry(Filter()) == len(ids)
    sweep_until_quiet(store)

    assert failed
    assert states_of(store, ids) == [State.FAILED] + [State.CANCELLED] * (len(ids) - 1)
    assert {task.generation for task in all_tasks(store)} == {1}
    assert claim_all(store) == []


@BOTH
def test_a_cancel_of_many_that_dies_half_way_is_carried_out_by_a_sweep(laboratory: Laboratory) -> None:
    laboratory.patch(bulk, "CHUNK", 3)
    dying, store = laboratory.open(), laboratory.open()
    ids = submit(store, *(after(str(n), *([str(n - 1)] if n else [])) for n in range(8)))
    below = submit_one(store, queue="other", prerequisites=[ids[-1]])
    seen: list[str] = []

    def die_at_the_second(coming: str) -> None:
        seen.append(coming)
        if seen.count("move") == 2:
            raise Death(coming)

    intercept(dying, die_at_the_second)
    with pytest.raises(Death):
        dying.cancel(Filter(queue="default"), reason="not wanted")
    laboratory.clock.advance(2 * MINUTE)
    swept = sweep_until_quiet(store)

    assert (swept.healed, swept.carried_on > 0) == (0, True)
    assert {(task.state, task.reason) for task in all_tasks(store) if task.id != below} == {
        (State.CANCELLED, "not wanted")
    }
    assert state_of(store, below) is State.CANCELLED
    assert operations(laboratory) == 0


def a_cancelled_chain(laboratory: Laboratory, store: SqlStore) -> list[TaskId]:
    """A chain that takes several transactions to bring back; the head comes back in the first of them."""
    laboratory.patch(bulk, "CHUNK", 3)
    keys = [key for key, _ in in_id_order(*(f"t{n}" for n in range(8)))]
    ids = submit(store, *(after(key, *keys[place - 1 : place][:1] * (place > 0)) for place, key in enumerate(keys)))
    laboratory.clock.advance(SECOND)
    store.cancel(ids, reason="not wanted")
    sweep_until_quiet(store)
    return ids


def operations(laboratory: Laboratory) -> int:
    """How many rows are left of operations over many tasks."""
    return count_rows(laboratory, "bulk") + count_rows(laboratory, "bulk_task")


def count_rows(laboratory: Laboratory, table: str) -> int:
    if laboratory.dialect == "postgres":
        count = sql.SQL("SELECT count(*) FROM windlass.{}").format(sql.Identifier(table))
        [(left,)] = laboratory.connect().execute(count).fetchall()
        return left
    with apsw.Connection(laboratory.url) as connection:
        [(left,)] = connection.execute(f"SELECT count(*) FROM {table}")
        return left


def intercept_between(store: SqlStore, before: Callable[[], None]) -> None:
    """Call something before each transaction of the store."""
    database = database_of(store)
    transact = database.transact

    def intercepted(work: Callable[[Transaction], T], **options: Any) -> T:
        before()
        return transact(work, **options)

    database.transact = intercepted


@BOTH
def test_a_settle_resolves_a_bounded_number_of_edges_and_leaves_the_others_to_the_sweep(
    laboratory: Laboratory,
) -> None:
    laboratory.patch(graph, "EDGES", 5)
    store = laboratory.open()
    wide = submit_one(store, key="wide")
    children = submit(store, *(a_task(queue="children", prerequisites=[wide]) for _ in range(40)))
    laboratory.clock.advance(SECOND)

    complete(store, claim_one(store))

    assert states_of(store, children).count(State.RUNNABLE) == 10, "five in its own transaction, five in one more"
    assert store.unresolved.wait(0)
    store.unresolved.clear()
    narrow = submit_one(store, key="narrow")
    child = submit_one(store, queue="children", prerequisites=[narrow])
    complete(store, claim_one(store))
    assert state_of(store, child) is State.RUNNABLE, "nobody waits for the wide one"
    assert not store.unresolved.wait(0)
    sweep_until_quiet(store)
    assert set(states_of(store, children)) == {State.RUNNABLE}


@BOTH
def test_a_sweep_resolves_the_edges_of_several_ends_in_turns(laboratory: Laboratory) -> None:
    laboratory.patch(settle, "LEVELS", 0)
    laboratory.patch(endings, "LEVELS", 0)
    laboratory.patch(graph, "EDGES", 6)
    laboratory.patch(sweep, "TURNS", 2)
    dying, store = laboratory.open(), laboratory.open()
    parents = submit(store, *(a_task() for _ in range(3)))
    laboratory.clock.advance(SECOND)
    many = {above: 30 if place == 0 else 3 for place, above in enumerate(sorted(parents))}
    children = {
        above: submit(store, *(a_task(queue="children", prerequisites=[above]) for _ in range(number)))
        for above, number in many.items()
    }
    laboratory.clock.advance(SECOND)
    die_at(dying, "take_ended")
    with pytest.raises(Death):
        complete(dying, *claim_all(store))

    store.sweep()

    wide, *narrow = sorted(parents)
    assert {state for above in narrow for state in states_of(store, children[above])} == {State.RUNNABLE}
    assert State.WAITING in states_of(store, children[wide])
    sweep_until_quiet(store)
    assert set(states_of(store, children[wide])) == {State.RUNNABLE}


@BOTH
def test_a_cascade_goes_down_many_levels_in_one_transaction(laboratory: Laboratory) -> None:
    store = laboratory.open()
    ids = submit(store, *(after(str(n), *([str(n - 1)] if n else [])) for n in range(100)))
    laboratory.clock.advance(SECOND)
    run(store, GAVE_UP)
    commits: list[str] = []
    intercept(store, lambda coming: commits.append(coming) if coming == COMMIT else None)

    swept = sweep_until_quiet(store)

    assert set(states_of(store, ids[1:])) == {State.CANCELLED}
    assert swept.resolved > 80
    assert len(commits) < 20


@BOTH
def test_a_step_of_a_chain_is_one_commit_for_its_end_and_its_dependent(laboratory: Laboratory) -> None:
    store = laboratory.open()
    ids = submit(store, *(after(str(n), *([str(n - 1)] if n else [])) for n in range(5)))
    laboratory.clock.advance(SECOND)
    session = a_session(store)
    commits: list[str] = []
    intercept(store, lambda coming: commits.append(coming) if coming == COMMIT else None)

    for id in ids:
        [claim] = store.claim(session, ["default"], 10)
        assert claim.id == id
        complete(store, claim)

    assert len(commits) == 2 * len(ids), "a claim and a settle each"


@POSTGRES
def test_a_settle_resolves_the_edge_to_a_dependent_that_is_locked(laboratory: Laboratory) -> None:
    store = laboratory.open()
    parent = submit_one(store)
    child = submit_one(store, queue="children", prerequisites=[parent])
    claim = claim_one(store)
    bystander = laboratory.connect()
    bystander.execute("SELECT id FROM windlass.task WHERE id = %s FOR UPDATE", [child]).fetchall()

    settling = laboratory.in_background(lambda: complete(store, claim))
    laboratory.await_standstill(settling)
    assert state_of(store, parent) is State.COMPLETED, "the end itself waits for nobody"
    bystander.rollback()
    settling.result()

    assert state_of(store, child) is State.RUNNABLE


@POSTGRES
def test_a_callers_commit_in_the_midst_of_a_sweep_is_no_lost_wake_up(laboratory: Laboratory) -> None:
    store = laboratory.open()
    parent = submit_one(store)
    complete(store, claim_one(store))
    laboratory.clock.advance(MINUTE)
    connection = laboratory.connect()
    [child] = store.submit([a_task(prerequisites=[parent])], conn=connection)
    heal = store._heal

    def commit_first(now: int) -> int:
        connection.commit()
        return heal(now)

    laboratory.patch(store, "_heal", commit_first)
    swept = store.sweep()

    assert swept.healed == 0
    sweep_until_quiet(store)
    assert state_of(store, child.id) is State.RUNNABLE


@POSTGRES
def test_a_member_of_a_cycle_that_is_cancelled_meanwhile_does_not_stop_the_sweep(laboratory: Laboratory) -> None:
    laboratory.patch(submitting, "CYCLE_BUDGET", 2)
    sweeper, store = laboratory.open(), laboratory.open()
    store.open_workflow("w", forward=HOUR)
    for number in range(6):
        store.submit([a_task(key=str(number), workflow="w", prerequisites=[str((number + 1) % 6)])])
    gate = laboratory.gate(sweeper, "lock_tasks")

    sweeping = laboratory.in_background(sweeper.sweep)
    gate.await_somebody()
    store.cancel([all_tasks(store)[0].id], reason="no longer wanted")
    gate.open()
    sweeping.result()
    sweep_until_quiet(store)

    assert {task.state for task in all_tasks(store)} <= {State.CANCELLED, State.FAILED}


@POSTGRES
def test_a_dependent_that_a_caller_commits_during_the_purge_of_its_prerequisite_does_not_wait_for_ever(
    laboratory: Laboratory,
) -> None:
    purger, store = laboratory.open(), laboratory.open()
    parent = submit_one(store)
    complete(store, claim_one(store))
    connection = laboratory.connect()
    [child] = store.submit([a_task(prerequisites=[parent])], conn=connection)
    gate = laboratory.gate(purger, "forget_edges")

    purging = laboratory.in_background(lambda: purger.purge([parent]))
    gate.await_somebody()
    connection.commit()
    gate.open()
    purging.result()
    sweep_until_quiet(store)

    assert state_of(store, child.id) is not State.WAITING


@pytest.mark.parametrize("level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
@POSTGRES
def test_a_task_from_a_callers_old_snapshot_is_claimed_though_its_lot_was_closed_meanwhile(
    laboratory: Laboratory, level: IsolationLevel
) -> None:
    store = laboratory.open()
    connection = laboratory.connect()
    connection.isolation_level = level
    connection.execute("SELECT 1 FROM windlass.task").fetchall()
    renew_the_lot(laboratory, "default")

    [receipt] = store.submit([a_task()], conn=connection)
    connection.commit()
    sweep_until_quiet(store)

    assert [claim.id for claim in claim_all(store)] == [receipt.id]


@POSTGRES
def test_a_task_from_a_callers_long_transaction_is_claimed_though_its_lot_was_closed_meanwhile(
    laboratory: Laboratory,
) -> None:
    store = laboratory.open()
    connection = laboratory.connect()
    [receipt] = store.submit([a_task()], conn=connection)

    renew_the_lot(laboratory, "default")
    connection.commit()

    assert [claim.id for claim in claim_all(store)] == [receipt.id]


def a_cancelled_pair(store: SqlStore) -> tuple[TaskId, TaskId]:
    """Two cancelled tasks: the first, with the smaller id, waited for the second, and that edge is not resolved."""
    while True:
        above = submit_one(store)
        below = submit_one(store, prerequisites=[above])
        if below < above:
            break
    return below, above


@POSTGRES
def test_a_retry_sees_an_edge_that_is_resolved_while_it_runs(laboratory: Laboratory) -> None:
    laboratory.patch(bulk, "CHUNK", 1)
    retrying, store = laboratory.open(), laboratory.open()
    below, above = a_cancelled_pair(store)
    die_at(store, "take_ended")  # Both are cancelled, and the process dies before it resolves any edge.
    with pytest.raises(Death):
        store.cancel([below, above], reason="no")
    resolving = laboratory.open()
    seen: list[str] = []

    def resolve_meanwhile(coming: str) -> None:
        seen.append(coming)
        if coming == "lock_tasks" and seen.count("lock_tasks") == 1:
            sweep_until_quiet(resolving)

    intercept(retrying, resolve_meanwhile)
    retried = retrying.retry([below, above])

    assert retried == 2
    assert states_of(resolving, [below, above]) == [State.WAITING, State.RUNNABLE]


@POSTGRES
def test_a_purge_leaves_a_prerequisite_for_which_a_retry_makes_somebody_wait(laboratory: Laboratory) -> None:
    laboratory.patch(bulk, "CHUNK", 1)
    purging, store = laboratory.open(), laboratory.open()
    below, above = a_cancelled_pair(store)
    store.cancel([below, above], reason="no")
    sweep_until_quiet(store)
    operation = bulk.BulkOperation.begin(database_of(store), bulk.RETRY)
    operation.choose([[below], [above]])
    database_of(store).transact(lambda tx: tx.execute("decide_bulk", bulk=operation._id))
    seen: list[str] = []

    def run_a_step_meanwhile(coming: str) -> None:
        seen.append(coming)
        if coming == "lock_tasks_skip" and seen.count("lock_tasks_skip") == 1:
            operation.run_step()

    intercept(purging, run_a_step_meanwhile)
    purging.purge([above])
    while operation.run_step():
        pass
    operation.drop()

    assert states_of(store, [below, above]) == [State.WAITING, State.RUNNABLE]


@BOTH
@pytest.mark.parametrize("fails", [1, 2, 3])
def test_a_step_of_an_operation_that_is_rolled_back_is_repeated(laboratory: Laboratory, fails: int) -> None:
    laboratory.patch(bulk, "CHUNK", 1)
    store = laboratory.open()
    ids = [submit_one(store) for _ in range(3)]
    operation = bulk.BulkOperation.begin(database_of(store), bulk.CANCEL, "no")
    operation.choose([ids])
    database_of(store).transact(lambda tx: tx.execute("decide_bulk", bulk=operation._id))
    seen: list[str] = []

    def fail_once(coming: str) -> None:
        seen.append(coming)
        if coming == COMMIT and seen.count(COMMIT) == fails:
            raise Death(coming)

    intercept(store, fail_once)
    rolled_back = 0
    more = True
    while more:
        try:
            more = operation.run_step()
        except Death:
            rolled_back += 1
    operation.drop()

    assert rolled_back == 1
    assert states_of(store, ids) == [State.CANCELLED] * 3
    assert operations(laboratory) == 0


@BOTH
def test_an_operation_that_a_sweep_has_begun_to_drop_cannot_be_decided(laboratory: Laboratory) -> None:
    owner, store = laboratory.open(), laboratory.open()
    ids = a_cancelled_chain(laboratory, store)
    before = store.get(ids)
    operation = bulk.BulkOperation.begin(database_of(owner), bulk.RETRY)
    operation.choose([ids])
    laboratory.clock.advance(2 * MINUTE)

    overdue = bulk.BulkOperation(database_of(store), operation._id, bulk.RETRY, patience=0)
    laboratory.patch(bulk.BulkOperation, "drop", lambda _self: None)  # It has only just begun.
    overdue.drop_overdue(decided=False)
    with pytest.raises(CommitUnknown, match="made no progress"):
        operation.run(AuditedChange(database_of(owner), ()))

    assert store.get(ids) == before


@POSTGRES
def test_a_task_that_names_a_placeholder_which_just_expires_does_not_wait_for_ever(laboratory: Laboratory) -> None:
    submitting, store = laboratory.open(), laboratory.open()
    store.open_workflow("w", forward=SECOND)
    submit(store, a_task(key="first", workflow="w", prerequisites=["never"]))
    laboratory.clock.advance(MINUTE)

    def expire_meanwhile(coming: str) -> None:
        if coming == COMMIT:
            sweep_until_quiet(store)

    intercept(submitting, expire_meanwhile)
    [late] = submit(submitting, a_task(key="late", workflow="w", prerequisites=["never"]))
    laboratory.clock.advance(MINUTE)
    sweep_until_quiet(store)

    assert state_of(store, late) is State.CANCELLED


@POSTGRES
def test_a_sweep_passes_over_a_lease_whose_settle_hangs(laboratory: Laboratory) -> None:
    frozen, store = laboratory.open(), laboratory.open()
    hanging, other = submit(store, a_task(), a_task())
    laboratory.clock.advance(SECOND)
    first, _ = claim_all(store)
    gate = laboratory.gate(frozen, COMMIT)

    settling = laboratory.in_background(lambda: complete(frozen, first))
    gate.await_somebody()
    laboratory.clock.advance(SESSION_TTL + SECOND)
    sweeping = laboratory.in_background(store.sweep)
    laboratory.await_standstill(sweeping)

    assert sweeping.ended
    assert sweeping.result().requeued == 1
    assert state_of(store, other) is State.RUNNABLE
    gate.open()
    [verdict] = settling.result()
    assert isinstance(verdict, Settled)
    assert store.sweep().requeued == 0
    assert state_of(store, hanging) is State.COMPLETED
    assert laboratory.check() == []


@BOTH
def test_a_sweep_charges_no_loss_for_what_a_node_was_about_to_release(laboratory: Laboratory) -> None:
    dying, store = laboratory.open(), laboratory.open()
    task = submit_one(store)
    once = submit_one(store, at_most_once=True)
    session = a_session(store)
    claim_all(store, session)
    die_at(dying, "now")

    with pytest.raises(Death):
        dying.close_session(session)
    assert store.sweep().requeued == 2

    assert (state_of(store, task), task_of(store, task).losses, store.attempts(task)) == (State.RUNNABLE, 0, [])
    assert (state_of(store, once), task_of(store, once).losses) == (State.FAILED, 1)
    assert "its session was closed" in (task_of(store, once).reason or "")


@POSTGRES
def test_a_sweep_keeps_the_lock_of_a_unique_task_that_changes_hands_meanwhile(laboratory: Laboratory) -> None:
    # The sweep's statement waits after it has taken its snapshot and before it locks a row.
    stop = "WHERE (SELECT pg_advisory_xact_lock_shared(1)) IS NOT NULL AND "
    laboratory.replace("old_unique", "WHERE ", stop)
    store = laboratory.open()
    [first] = store.submit([a_task(unique=Unique())])
    complete(store, claim_one(store))
    with laboratory.connect() as connection:
        connection.execute("SELECT pg_advisory_xact_lock(1)")
        sweeping = laboratory.in_background(store.sweep)
        laboratory.await_standstill(sweeping)
        assert not sweeping.ended
        [second] = store.submit([a_task(unique=Unique())])
    sweeping.result()

    [again] = store.submit([a_task(unique=Unique())])

    assert second.created
    assert second.id != first.id
    assert (again.id, again.created) == (second.id, False)


@POSTGRES
def test_a_unique_task_whose_key_is_stored_meanwhile_takes_no_lock(laboratory: Laboratory) -> None:
    delayed, store = laboratory.open(), laboratory.open()
    gate = laboratory.gate(delayed, "parents")
    submitting = laboratory.in_background(lambda: delayed.submit([a_task(key="first", unique=Unique())]))
    gate.await_somebody()
    plain = submit_one(store, key="first")
    gate.open()

    [receipt] = submitting.result()
    [equal] = store.submit([a_task(unique=Unique())])

    assert (receipt.id, receipt.created) == (plain, False)
    assert equal.created


@POSTGRES
def test_a_unique_task_whose_key_is_purged_meanwhile_holds_its_lock(laboratory: Laboratory) -> None:
    delayed, store = laboratory.open(), laboratory.open()
    old = submit_one(store, key="first")
    complete(store, claim_one(store))
    gate = laboratory.gate(delayed, "parents")
    submitting = laboratory.in_background(lambda: delayed.submit([a_task(key="first", unique=Unique())]))
    gate.await_somebody()
    store.sweep()
    store.purge([old])
    gate.open()

    [receipt] = submitting.result()
    [equal] = store.submit([a_task(unique=Unique())])

    assert receipt.created
    assert (equal.id, equal.created) == (receipt.id, False)


@POSTGRES
def test_a_unique_task_is_created_if_the_one_it_found_is_purged_meanwhile(laboratory: Laboratory) -> None:
    delayed, store = laboratory.open(), laboratory.open()
    [first] = store.submit([a_task(unique=Unique())])
    gate = laboratory.gate(delayed, "lock_tasks")
    submitting = laboratory.in_background(lambda: delayed.submit([a_task(unique=Unique())]))
    gate.await_somebody()
    complete(store, claim_one(store))
    store.purge([first.id])
    gate.open()

    [second] = submitting.result()

    assert second.created
    assert state_of(store, second.id) is State.RUNNABLE


@BOTH
def test_a_sweep_deletes_locks_of_tasks_that_have_completed_or_are_gone(laboratory: Laboratory) -> None:
    store = laboratory.open()
    ids: list[TaskId] = []
    for n, outcome in enumerate([Returned(), GAVE_UP, GAVE_UP]):
        ids.append(store.submit([a_task(args={"n": n}, unique=Unique())])[0].id)
        report(store, claim_one(store), outcome)
    store.purge(ids[1:2])

    for _ in range(2):
        store.sweep()
        laboratory.clock.advance(HOUR)

    assert count_rows(laboratory, "unique_lock") == 1
    store.retry(ids[2:])
    assert not store.submit([a_task(args={"n": 2}, unique=Unique())])[0].created


@POSTGRES
def test_a_sweep_passes_over_an_expired_task_whose_claim_hangs(laboratory: Laboratory) -> None:
    frozen, store = laboratory.open(), laboratory.open()
    hanging = submit_one(store, expires=MINUTE)
    other = submit_one(store, queue="other", expires=MINUTE)
    session = a_session(store, ttl=HOUR)
    gate = laboratory.gate(frozen, COMMIT)

    claiming = laboratory.in_background(lambda: frozen.claim(session, ["default"], 1))
    gate.await_somebody()
    laboratory.clock.advance(2 * MINUTE)
    sweeping = laboratory.in_background(store.sweep)
    laboratory.await_standstill(sweeping)

    assert sweeping.ended
    assert sweeping.result().expired == 1
    assert state_of(store, other) is State.EXPIRED
    gate.open()
    assert [claim.id for claim in claiming.result()] == [hanging]
    assert store.sweep().expired == 0
    assert state_of(store, hanging) is State.LEASED
    assert laboratory.check() == []


@POSTGRES
def test_a_submit_with_very_many_prerequisites_waits_for_no_task_while_it_holds_a_lease(laboratory: Laboratory) -> None:
    """Else it could wait for an operator, who waits for a settle, which waits for the submit."""
    laboratory.patch(submission, "CHUNK", 1)
    states = watch_conflicts(laboratory)
    submitter, operator, node = laboratory.open(), laboratory.open(), laboratory.open()
    first, mine, last = in_id_order("p0", "p1", "p2")
    submit(node, *(a_task(key=key) for key, _ in (first, mine, last)))
    laboratory.clock.advance(SECOND)
    claims = {claim.id: claim for claim in claim_all(node)}
    gate = laboratory.gate(operator, "lock_runnable")

    cancelling = laboratory.in_background(lambda: operator.cancel([first[1], last[1]], reason="not wanted"))
    gate.await_somebody()
    child = a_task(queue="children", prerequisites=[mine[1], last[1]])
    submitting = laboratory.in_background(lambda: submitter.submit([child]))
    laboratory.await_standstill(submitting)
    settling = laboratory.in_background(lambda: complete(node, claims[first[1]], claims[mine[1]]))
    laboratory.await_standstill(submitting, settling)
    gate.open()

    assert [call.result() for call in (cancelling, submitting, settling)]
    assert states == []
    assert laboratory.check() == []


@POSTGRES
def test_an_update_that_meets_a_claim_changes_the_leased_task(laboratory: Laboratory) -> None:
    slow, store = laboratory.open(), laboratory.open()
    task = submit_one(store)
    gate = laboratory.gate(slow, COMMIT)

    claiming = laboratory.in_background(lambda: slow.claim(a_session(store), ["default"], 1))
    gate.await_somebody()
    updating = laboratory.in_background(lambda: store.update(task, Change(priority=7)))
    laboratory.await_standstill(updating)
    gate.open()
    claims = claiming.result()

    assert (updating.result().state, updating.result().priority) == (State.LEASED, 7)
    assert claim_all(store) == []
    assert [verdict.state for verdict in complete(store, *claims) if isinstance(verdict, Settled)] == [State.COMPLETED]
    assert laboratory.check() == []


@POSTGRES
def test_a_claim_passes_over_a_task_that_is_being_updated_and_takes_it_at_its_new_place(laboratory: Laboratory) -> None:
    operator, store = laboratory.open(), laboratory.open()
    first, second = submit(store, a_task(), a_task())
    gate = laboratory.gate(operator, COMMIT)

    updating = laboratory.in_background(lambda: operator.update(second, Change(priority=7)))
    gate.await_somebody()
    claims = claim_all(store)
    gate.open()
    updating.result()

    assert [claim.id for claim in claims] == [first]
    assert [claim.id for claim in claim_all(store)] == [second]
    assert laboratory.check() == []


@POSTGRES
def test_a_settle_that_waits_for_a_cancel_reports_a_cancelled_attempt(laboratory: Laboratory) -> None:
    operator, store = laboratory.open(), laboratory.open()
    task = submit_one(store)
    claim = claim_one(store)
    gate = laboratory.gate(operator, COMMIT)

    cancelling = laboratory.in_background(lambda: operator.cancel([task], reason="not wanted"))
    gate.await_somebody()
    settling = laboratory.in_background(lambda: complete(store, claim))
    laboratory.await_standstill(settling)
    assert not settling.ended
    gate.open()

    assert cancelling.result() == 1
    assert settling.result() == [Settled(claim.lease, State.CANCELLED)]
    assert laboratory.check() == []


@POSTGRES
def test_a_report_repeated_while_its_commit_is_in_progress_is_settled_once(laboratory: Laboratory) -> None:
    slow, store = laboratory.open(), laboratory.open()
    parent = submit_one(store)
    child = submit_one(store, queue="children", prerequisites=[parent])
    claim = claim_one(store)
    gate = laboratory.gate(slow, COMMIT)

    settling = laboratory.in_background(lambda: complete(slow, claim))
    gate.await_somebody()
    repeating = laboratory.in_background(lambda: complete(store, claim))
    laboratory.await_standstill(repeating)
    gate.open()

    assert settling.result() == repeating.result() == [Settled(claim.lease, State.COMPLETED)]
    assert state_of(store, child) is State.RUNNABLE
    assert laboratory.check() == []


@POSTGRES
def test_a_retry_that_makes_a_task_wait_for_a_leased_one_loses_no_wake_up(laboratory: Laboratory) -> None:
    operator, store = laboratory.open(), laboratory.open()
    parent = submit_one(store)
    child = submit_one(store, queue="children", prerequisites=[parent])
    run(store, GAVE_UP)
    sweep_until_quiet(store)
    store.retry([parent])
    claim = claim_one(store)
    gate = laboratory.gate(operator, "reopen_edges")

    retrying = laboratory.in_background(lambda: operator.retry([child]))
    gate.await_somebody()
    settling = laboratory.in_background(lambda: complete(store, claim))
    laboratory.await_standstill(settling)
    gate.open()

    assert retrying.result() == 1
    assert settling.result() == [Settled(claim.lease, State.COMPLETED)]
    assert state_of(store, child) is State.RUNNABLE
    assert laboratory.check() == []


@pytest.mark.parametrize("level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
@POSTGRES
def test_a_completion_in_a_callers_snapshot_from_before_the_claim_is_refused(
    laboratory: Laboratory, level: IsolationLevel
) -> None:
    store = laboratory.open()
    task = submit_one(store)
    connection = laboratory.connect()
    connection.isolation_level = level
    connection.execute("SELECT 1 FROM windlass.task").fetchall()
    claim = claim_one(store)

    with pytest.raises(StoreUnavailable, match="could not serialize access"):
        complete_in(connection, claim.lease, COMPLETED)
    connection.rollback()

    assert state_of(store, task) is State.LEASED
    assert complete_in(connection, claim.lease, COMPLETED) == Settled(claim.lease, State.COMPLETED)
    connection.commit()
    assert state_of(store, task) is State.COMPLETED
    assert laboratory.check() == []


@POSTGRES
def test_a_report_waits_for_the_same_completion_in_a_callers_transaction(laboratory: Laboratory) -> None:
    store = laboratory.open()
    parent = submit_one(store)
    child = submit_one(store, queue="children", prerequisites=[parent])
    claim = claim_one(store)
    connection = laboratory.connect()
    complete_in(connection, claim.lease, COMPLETED)

    settling = laboratory.in_background(lambda: complete(store, claim))
    laboratory.await_standstill(settling)
    assert not settling.ended
    laboratory.clock.advance(SESSION_TTL + SECOND)
    assert store.sweep().requeued == 0
    connection.commit()

    assert settling.result() == [Settled(claim.lease, State.COMPLETED)]
    assert state_of(store, child) is State.RUNNABLE
    assert laboratory.check() == []


@POSTGRES
def test_a_claim_that_is_rolled_back_leaves_its_task_to_the_operator_who_waits(laboratory: Laboratory) -> None:
    dying, operator = laboratory.open(), laboratory.open()
    task = submit_one(operator)
    die_at(dying, COMMIT)
    gate = laboratory.gate(dying, COMMIT)

    claiming = laboratory.in_background(lambda: dying.claim(a_session(operator), ["default"], 1))
    gate.await_somebody()
    cancelling = laboratory.in_background(lambda: operator.cancel([task], reason="not wanted"))
    laboratory.await_standstill(cancelling)
    assert not cancelling.ended
    gate.open()
    with pytest.raises(Death):
        claiming.result()

    assert cancelling.result() == 1
    assert state_of(operator, task) is State.CANCELLED
    assert laboratory.check() == []


@POSTGRES
def test_a_merge_passes_over_what_a_claim_has_taken(laboratory: Laboratory) -> None:
    slow, store = laboratory.open(), laboratory.open()
    tasks = submit(store, *(a_task(key=str(number)) for number in range(3)))
    laboratory.clock.advance(SECOND)
    renew_the_lot(laboratory, "default")
    gate = laboratory.gate(slow, COMMIT)

    claiming = laboratory.in_background(lambda: slow.claim(a_session(store), ["default"], 2))
    gate.await_somebody()
    connection = laboratory.connect()
    connection.autocommit = True
    database_of(store)._lots._run(connection, "merge_lot", queue="default", number=0, limit=100)
    gate.open()
    taken = [claim.id for claim in claiming.result()]

    assert taken == tasks[:2]
    assert laboratory.check() == []
    store.cancel(tasks[2:], reason="not wanted")
    assert claim_all(store) == []
    assert laboratory.check() == []


@POSTGRES
def test_a_retry_that_meets_a_cancel_takes_back_its_announcement(laboratory: Laboratory) -> None:
    dying, operator, store = laboratory.open(), laboratory.open(), laboratory.open()
    parent = submit_one(store)
    child = submit_one(store, queue="children", prerequisites=[parent])
    die_at(dying, "take_ended")  # It dies after its commit, before it resolves any edge.
    gate = laboratory.gate(dying, COMMIT)

    cancelling = laboratory.in_background(lambda: dying.cancel([parent], reason="not wanted"))
    gate.await_somebody()
    retrying = laboratory.in_background(lambda: operator.retry([parent]))
    laboratory.await_standstill(retrying)
    gate.open()
    with pytest.raises(Death):
        cancelling.result()
    assert retrying.result() == 1
    sweep_until_quiet(store)

    assert states_of(store, [parent, child]) == [State.RUNNABLE, State.WAITING]
    complete(store, claim_one(store))
    assert state_of(store, child) is State.RUNNABLE
    assert laboratory.check() == []


@BOTH
def test_the_stall_detector_leaves_a_task_alone_that_was_just_retried(laboratory: Laboratory) -> None:
    dying, sweeper, store = laboratory.open(), laboratory.open(), laboratory.open()
    parent = submit_one(store)
    child = submit_one(store, queue="children", prerequisites=[parent])
    die_at(dying, "take_ended")
    with pytest.raises(Death):
        dying.cancel([parent], reason="not wanted")
    laboratory.patch(sweeper, "_resolve_pending", lambda: 0)
    database_of(store).transact(lambda tx: tx.execute("close_ended", [(parent,)]))
    laboratory.clock.advance(MINUTE)
    read = database_of(sweeper).read

    heal = sweeper._heal

    def retry_within(now: int) -> int:
        database_of(sweeper).read = retry_once
        return heal(now)

    def retry_once(work: Callable[[Transaction], T]) -> T:
        seen = read(work)
        database_of(sweeper).read = read
        assert store.retry([parent]) == 1
        return seen

    laboratory.patch(sweeper, "_heal", retry_within)
    assert sweeper.sweep().healed == 0
    sweep_until_quiet(store)

    assert states_of(store, [parent, child]) == [State.RUNNABLE, State.WAITING]
    assert laboratory.check() == []


@POSTGRES
def test_an_adoption_and_a_retry_of_the_same_prerequisite_cause_no_deadlock(laboratory: Laboratory) -> None:
    states = watch_conflicts(laboratory)
    dying, operator, store = laboratory.open(), laboratory.open(), laboratory.open()
    parent = submit_one(store)
    submit_one(store, queue="children", prerequisites=[parent])
    die_at(dying, "take_ended")
    with pytest.raises(Death):
        dying.cancel([parent], reason="not wanted")
    connection = laboratory.connect()
    [joined] = store.submit([a_task(queue="children", prerequisites=[parent])], conn=connection)
    connection.commit()
    bystander = laboratory.connect()
    bystander.execute("SELECT id FROM windlass.task WHERE id = %s FOR SHARE", [parent]).fetchall()

    retrying = laboratory.in_background(lambda: operator.retry([parent]))
    laboratory.await_standstill(retrying)
    adopting = laboratory.in_background(lambda: graph.resolve_joined(database_of(store)))
    laboratory.await_standstill(retrying, adopting)
    bystander.rollback()

    assert (retrying.result(), adopting.result()) == (1, 1)
    assert states == []
    assert states_of(store, [parent, joined.id]) == [State.RUNNABLE, State.WAITING]
    assert laboratory.check() == []


@POSTGRES
def test_a_seal_waits_for_a_retry_that_makes_a_task_wait_for_it(laboratory: Laboratory) -> None:
    operator, store = laboratory.open(), laboratory.open()
    store.open_workflow("w", sealed=False)
    root, child = submit(store, after("root", workflow="w"), after("child", "root", workflow="w"))
    store.cancel([root], reason="not wanted")
    gate = laboratory.gate(operator, "wait_for_seal")

    retrying = laboratory.in_background(lambda: operator.retry([child]))
    gate.await_somebody()
    sealing = laboratory.in_background(lambda: store.seal_workflow("w"))
    laboratory.await_standstill(sealing)
    assert not sealing.ended
    gate.open()
    retrying.result()
    sealing.result()

    assert state_of(store, child) is State.RUNNABLE
    assert laboratory.check() == []
