"""Likely mistakes, each with the scenario that must catch it. `README.md` lists them."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace
from psycopg import IsolationLevel

from tests.mutants import fairness_scenarios, scenarios
from tests.mutants.laboratory import Laboratory
from windlass.core import admission, fairness
from windlass.core import graph as core_graph
from windlass.core.ids import fresh_id
from windlass.core.lifecycle import State
from windlass.core.settlement import stands_already
from windlass.stores.postgres import database as postgres
from windlass.stores.protocol import LeaseLost, Settled, Verdict
from windlass.stores.sql import claim as sql_claim
from windlass.stores.sql import graph, rows, settle, submit
from windlass.stores.sql import locks as sql_locks
from windlass.stores.sql.endings import Endings
from windlass.stores.sql.locks import HotRow
from windlass.stores.sql.rows import Moves, Row
from windlass.stores.sql.settle import SqlSettle
from windlass.stores.sql.submit import Submit
from windlass.stores.sql.sweep import SqlSweep
from windlass.stores.sqlite import SQLiteStore
from windlass.stores.sqlite import database as sqlite

BOTH = ("sqlite", "postgres")
POSTGRES = ("postgres",)
SQLITE = ("sqlite",)
NOBODY = UUID(int=0)


class Mutant(Struct, frozen=True):
    """A fault, and the scenario that catches it. One that a second wall makes harmless is `caught=False`."""

    name: str
    plant: Callable[[Laboratory], None]
    scenario: Callable[[Laboratory], None]
    dialects: tuple[str, ...] = BOTH
    caught: bool = True


def no_fence_in_complete(lab: Laboratory) -> None:
    if lab.dialect == "postgres":
        lab.rewrite("complete", lambda text: re.sub(r" AND l\.fence = \S+ AND l\.session = \S+", "", text))
    else:
        lab.replace(
            "complete", " AND fence = +:fence AND session = +:session", " AND :fence >= 0 AND :session NOT NULL"
        )


def no_fence_in_the_verdict(lab: Laboratory) -> None:
    def verdict(rows: Any, lease: Any, settlement: Any, endings: Any) -> Verdict:
        row = rows.get(lease.task)
        if row is None:
            return LeaseLost(lease)
        if row.state is State.LEASED:
            row = rows[row.id] = endings.end(row, settlement)
            return Settled(lease, row.state)
        return Settled(lease, row.state) if stands_already(row, settlement) else LeaseLost(lease)

    lab.patch(settle, "_verdict", verdict)


def completed_though_the_lease_is_gone(lab: Laboratory) -> None:
    if lab.dialect == "postgres":
        given = "FROM unnest(:id::uuid[], :fence::bigint[]) AS i (id, fence) CROSS JOIN clock"
        lab.rewrite(
            "complete",
            lambda text: re.sub(
                r"(INTO windlass.completed .*\n) *SELECT id, fence, (\S+), claimed, now FROM gone CROSS JOIN clock",
                rf"\1SELECT id, fence, '{NOBODY}'::uuid, now, now {given}",
                text,
            ),
        )
        return
    real = SQLiteStore.complete

    def complete_all(self: Any, tx: Any, *given: Any) -> Any:
        ended = real(self, tx, *given)
        there = {id for (id,) in tx.query("find_completed", [(id,) for id, *_ in given[-1]]).rows() for id in [id]}
        missing = [one for one in given[-1] if one[0] not in there]
        tx.execute("add_completed", [(id, fence, NOBODY, 0, 0) for id, fence, *_ in missing])
        return ended

    lab.patch(SQLiteStore, "complete", complete_all)


def an_equal_fence(lab: Laboratory) -> None:
    grown = r"(windlass\.next_fence\(.*\)) AS|(/ 10000\)) \+ 1"
    lab.rewrite("claim", lambda text: re.sub(grown, lambda m: f"{m[1]} - 1 AS" if m[1] else m[2], text))


def a_fence_without_the_epoch(lab: Laboratory) -> None:
    lab.rewrite("claim", lambda text: re.sub(r"(?<=next_fence\(t\.fence, )clock\.epoch|epoch(?= << 40)", "0", text))


def an_answer_before_the_commit(lab: Laboratory) -> None:
    def once(self: Any, work: Callable[[Any], Any]) -> Any:
        held = self._connection()
        connection = held.__enter__()

        def commit() -> None:
            connection.commit()
            held.__exit__(None, None, None)

        lab.at_the_end(commit)
        return work(postgres.PostgresTransaction(connection, self._statements))

    lab.patch(postgres.PostgresDatabase, "_once", once)


def a_commit_that_does_not_wait_for_the_disk(lab: Laboratory) -> None:
    lab.patch_item(postgres.SETTINGS, "synchronous_commit", "off")


def parents_read_without_a_lock(lab: Laboratory) -> None:
    lab.replace("parents", "FOR SHARE;", ";")


def runnable_parents_read_without_a_lock(lab: Laboratory) -> None:
    lab.replace("share_runnable", "FOR SHARE", "")


def leases_of_parents_read_without_a_lock(lab: Laboratory) -> None:
    lab.replace("share_leased", "FOR SHARE", "")


def parents_locked_as_a_foreign_key_would(lab: Laboratory) -> None:
    lab.replace("parents", "FOR SHARE;", "FOR KEY SHARE;")


def parents_and_children_locked_as_a_foreign_key_would(lab: Laboratory) -> None:
    parents_locked_as_a_foreign_key_would(lab)
    lab.replace("lock_tasks", "FOR UPDATE", "FOR NO KEY UPDATE")


def leases_locked_as_a_foreign_key_would(lab: Laboratory) -> None:
    lab.replace("share_leased", "FOR SHARE", "FOR KEY SHARE")
    lab.replace("complete", "FOR UPDATE", "FOR NO KEY UPDATE")


def settle_and_announce_in_one_statement(lab: Laboratory) -> None:
    lab.rewrite(
        "complete",
        lambda text: text.replace(
            "), gone AS (",
            """), noted AS (
            INSERT INTO windlass.ended (parent, how)
            SELECT g.id, 'completed' FROM gone AS g
             WHERE EXISTS (SELECT FROM windlass.edge AS e WHERE e.parent = g.id AND NOT e.resolved)
            ), gone AS (""",
        ).replace("WITH held", "WITH RECURSIVE held"),
    )
    seen = "EXISTS (SELECT FROM windlass.ended AS d WHERE d.parent = i.parent)"
    lab.replace("reach", "AND NOT e.resolved", f"AND NOT e.resolved AND {seen}")
    lab.rewrite(
        "announce",
        lambda text: (
            """-- batch: parent uuid, how text
            SELECT parent FROM windlass.ended WHERE parent = ANY (:parent::uuid[]) AND :how::text[] IS NOT NULL"""
        ),
    )


def repeatable_read(lab: Laboratory) -> None:
    def configure(connection: Any) -> None:
        connection.isolation_level = IsolationLevel.REPEATABLE_READ

    lab.patch(postgres, "_configure", configure)


def children_locked_as_they_come(lab: Laboratory) -> None:
    lab.patch(sql_locks, "sorted", lambda values, key=None: list(values))
    given = "unnest(:id::uuid[]) WITH ORDINALITY AS i (id, n) JOIN windlass.task AS t USING (id)"
    lab.rewrite(
        "lock_tasks",
        lambda text: (
            text.replace("FROM windlass.task", f"FROM {given}")
            .replace(" WHERE id = ANY (:id::uuid[])\n", "")
            .replace("ORDER BY id", "ORDER BY n")
            .replace("FOR UPDATE", "FOR UPDATE OF t")
        ),
    )


def leases_locked_as_they_come(lab: Laboratory) -> None:
    lab.rewrite("complete", lambda text: re.sub(r"\s+ORDER BY id\) AS i", ") AS i", text))


def leases_read_before_the_runnable_rows(lab: Laboratory) -> None:
    def lock_hot(db: Any, tx: Any, queued: Any, locks: Any) -> Any:
        leased = tx.query(locks.leased, queued).rows()
        completed = tx.query("find_completed", queued).rows()
        runnable = set(rows.uuids(db, tx.query(locks.runnable, queued).rows()))
        return runnable, hot_rows(db, leased, completed)

    lab.patch(sql_locks, "lock_hot", lock_hot)


def completed_rows_read_before_the_leases(lab: Laboratory) -> None:
    def lock_hot(db: Any, tx: Any, queued: Any, locks: Any) -> Any:
        runnable = set(rows.uuids(db, tx.query(locks.runnable, queued).rows()))
        completed = tx.query("find_completed", queued).rows()
        leased = tx.query(locks.leased, queued).rows()
        return runnable, hot_rows(db, leased, completed)

    lab.patch(sql_locks, "lock_hot", lock_hot)


def the_hot_tables_read_in_one_statement(lab: Laboratory) -> None:
    lab.rewrite(
        "lock_runnable",
        lambda text: text.replace("SELECT t.id\n", "SELECT r.queue IS NOT NULL, t.id, l.*, c.*\n", 1)
        .replace("CROSS JOIN LATERAL (\n       SELECT FROM windlass.runnable",
                 "LEFT JOIN LATERAL (\n       SELECT r.queue FROM windlass.runnable")
        .replace("FOR UPDATE) AS r", f"FOR UPDATE) AS r ON true {REST}"),
    )  # fmt: skip

    def lock_hot(db: Any, tx: Any, queued: Any, locks: Any) -> Any:
        found = tx.query(locks.runnable, queued).rows()
        leased = [line[2:6] for line in found if line[2] is not None]
        completed = [line[6:] for line in found if line[6] is not None]
        return {line[1] for line in found if line[0]}, hot_rows(db, leased, completed)

    lab.patch(sql_locks, "lock_hot", lock_hot)


REST = """
LEFT JOIN LATERAL (SELECT id, fence, session, claimed FROM windlass.leased WHERE leased.id = t.id) AS l ON true
LEFT JOIN LATERAL (
    SELECT id, fence, session, claimed, finished FROM windlass.completed WHERE completed.id = t.id) AS c ON true"""


def hot_rows(db: Any, leased: Any, completed: Any) -> dict[Any, HotRow]:
    found = [HotRow(State.LEASED, *line) for line in leased] + [HotRow(State.COMPLETED, *line) for line in completed]
    return {db.uuid(hot.id): hot._replace(session=db.uuid(hot.session)) for hot in found}


def runnable_rows_read_without_a_lock(lab: Laboratory) -> None:
    lab.replace("lock_runnable", "FOR UPDATE", "")


def leases_read_without_a_lock(lab: Laboratory) -> None:
    lab.replace("lock_leased", "FOR UPDATE", "")


def runnable_rows_not_dropped(lab: Laboratory) -> None:
    write = Moves.write

    def write_most(self: Any, *given: Any) -> None:
        self._dropped.clear()
        write(self, *given)

    lab.patch(Moves, "write", write_most)


def a_merge_that_does_not_lock_the_tasks(lab: Laboratory) -> None:
    lab.rewrite(
        "merge_lot",
        lambda text: text.replace(
            "(ARRAY(SELECT id FROM rest)) FOR UPDATE SKIP LOCKED", "(ARRAY(SELECT id FROM rest))"
        ),
        folder="upkeep",
    )


def tasks_counted_instead_of_run_time(lab: Laboratory) -> None:
    lab.patch(fairness, "get_charge", lambda _ran, weight: fairness.FIRST_RUN_TIME * fairness.SCALE // weight)


def credit_for_the_time_without_tasks(lab: Laboratory) -> None:
    lab.patch(fairness.Account, "join", lambda _self, _queue: None)


def a_task_that_counts_until_it_ends(lab: Laboratory) -> None:
    table = "windlass.current_task" if lab.dialect == "postgres" else "current_task"
    counted = f"""
        SELECT queue, tenant, handler, NULL, count(*) FROM {table} WHERE claimed IS NOT NULL AND finished IS NULL
         GROUP BY queue, tenant, handler
    """
    lab.rewrite("running_limited", lambda _text: counted)


def limits_without_a_lock(lab: Laboratory) -> None:
    lab.rewrite("lock_claims", lambda _text: "SELECT count(*) FROM unnest(:names::text[])")


def claims_that_do_not_compare_the_settings(lab: Laboratory) -> None:
    meta, number = ("windlass.meta WHERE one", ":settings") if lab.dialect == "postgres" else ("meta", "+:settings")
    lab.replace("claim", f"(SELECT settings FROM {meta}) = {number}", ":settings >= 0")


def a_recovery_that_does_not_wait(lab: Laboratory) -> None:
    lock = sql_locks.lock_tasks
    lab.patch(sql_claim, "lock_tasks", lambda db, tx, ids: lock(db, tx, ids, skip_locked=True))


def keys_written_as_they_come(lab: Laboratory) -> None:
    lab.patch(submit, "sorted", lambda values, key=None: list(values))


def the_session_opened_once_and_for_all(lab: Laboratory) -> None:
    lab.rewrite(
        "renew", lambda text: text.replace("(SELECT windlass.clock(:now))", "renewed").replace(":now", "renewed")
    )


def time_that_stands_still_in_a_transaction(lab: Laboratory) -> None:
    with lab.connect() as connection:
        [(real,)] = connection.execute("SELECT pg_get_functiondef('windlass.clock(bigint)'::regprocedure)").fetchall()
        assert "clock_timestamp()" in real
        connection.execute(real.replace("clock_timestamp()", "now()"))

    def restore() -> None:
        with lab.connect() as connection:
            connection.execute(real)

    lab.at_the_end(restore)


def a_fresh_id_for_every_try(lab: Laboratory) -> None:
    real = Submit.__call__

    def again(self: Any, tx: Any) -> Any:
        if self._tried:
            self._drafts = [replace(one, id=fresh_id(1, number)) for number, one in enumerate(self._drafts)]
        return real(self, tx)

    lab.patch(Submit, "__call__", again)


def a_claim_tried_again_blindly(lab: Laboratory) -> None:
    transact = postgres.PostgresDatabase.transact
    lab.patch(postgres.PostgresDatabase, "transact", lambda self, work, **_: transact(self, work))


def crashes_not_counted(lab: Laboratory) -> None:
    lab.rewrite("settle", lambda text: text.replace(" crashes = i.crashes,", "").replace(" crashes = :crashes,", ""))


def losses_not_counted(lab: Laboratory) -> None:
    if lab.dialect == "postgres":
        lab.replace("settle", "losses = i.losses, ", "")
    else:
        lab.replace("settle", " losses = :losses,", " losses = losses + 0 * :losses,")


def requeueing_only_when_a_session_is_marked(lab: Laboratory) -> None:
    mark, requeue = SqlSweep._mark_lost_sessions, SqlSweep._requeue_lost
    marked: list[int] = []

    def noted(self: SqlSweep) -> int:
        marked.append(mark(self))
        return marked[-1]

    lab.patch(SqlSweep, "_mark_lost_sessions", noted)
    lab.patch(SqlSweep, "_requeue_lost", lambda self: requeue(self) if marked[-1] else 0)


def claims_of_lost_sessions(lab: Laboratory) -> None:
    lab.rewrite("claim", lambda text: text.replace(" AND NOT s.lost", "").replace(" AND s.lost = 0", ""))


def held_tasks_dropped(lab: Laboratory) -> None:
    lab.replace("held", "session = :session", "session = :session AND false")


def a_cron_that_fires_whatever_fired_before(lab: Laboratory) -> None:
    lab.replace("fire", " AND (fired IS NULL OR fired < :nominal)", "")


def no_tenant_in_the_scope(lab: Laboratory) -> None:
    lab.patch(admission, "in_scope", lambda new, there: there is not None and there.workflow in (None, new.workflow))


def no_tenant_in_find(lab: Laboratory) -> None:
    # One of the conditions is about the tenant, in whichever words.
    lab.rewrite("find", lambda text: "\n".join(line for line in text.splitlines() if ":tenant" not in line))


def no_tenant_in_the_look_for_busy_workflows(lab: Laboratory) -> None:
    lab.rewrite("first_unfinished", lambda text: text.replace("b.workflow_tenant = :tenant", ":tenant IS NOT NULL")
                .replace(":tenant IS", ":tenant::text IS" if lab.dialect == "postgres" else ":tenant IS"))  # fmt: skip


def the_record_in_a_transaction_of_its_own(lab: Laboratory) -> None:
    write, settle_all = Endings.write, SqlSettle.settle
    later: list[Any] = []

    def write_most(self: Any, *args: Any) -> Any:
        later[:], self._attempts = self._attempts, []
        return write(self, *args)

    def settle_then_record(self: Any, reports: Any) -> Any:
        verdicts = settle_all(self, reports)
        self._db.transact(lambda tx: tx.execute("record_attempts", later))
        return verdicts

    lab.patch(Endings, "write", write_most)
    lab.patch(SqlSettle, "settle", settle_then_record)


def a_shared_child_counted_once(lab: Laboratory) -> None:
    unblock = core_graph.unblock
    lab.patch(
        graph,
        "unblock",
        lambda state, waiting, policy, ended, **t: unblock(state, waiting, policy, list(ended)[:1], **t),
    )


def a_cancelled_child_resurrected(lab: Laboratory) -> None:
    real = graph.apply_ends

    def resurrects(row: Row, ends: Any, now: int) -> Row:
        if row.state is State.CANCELLED and row.waiting == len(ends):
            return row._replace(state=State.RUNNABLE, waiting=0, finished=None, reason=None)
        return real(row, ends, now)

    lab.patch(graph, "apply_ends", resurrects)


def claims_that_wait(lab: Laboratory) -> None:
    lab.replace("claim", "FOR UPDATE SKIP LOCKED", "FOR UPDATE")


def claims_by_kinds_that_wait(lab: Laboratory) -> None:
    lab.replace("claim_kinds", "FOR UPDATE SKIP LOCKED", "FOR UPDATE")


def claims_by_kinds_without_a_lock(lab: Laboratory) -> None:
    lab.replace("claim_kinds", "FOR UPDATE SKIP LOCKED", "")


def claims_without_a_lock(lab: Laboratory) -> None:
    lab.replace("claim", "FOR UPDATE SKIP LOCKED", "")


def leases_of_all_chosen_rows(lab: Laboratory) -> None:
    lab.rewrite("claim", leased_as_chosen)


def leases_of_rows_chosen_without_a_lock(lab: Laboratory) -> None:
    lab.rewrite("claim", lambda text: leased_as_chosen(text.replace("FOR UPDATE SKIP LOCKED", "")))


def leased_as_chosen(text: str) -> str:
    chosen = text.replace("SELECT head.place\n", "SELECT head.place, head.band, head.rank, head.tie, head.id\n")
    after_the_delete = "(SELECT chosen.* FROM (SELECT count(*) FROM taken) AS n CROSS JOIN chosen) AS taken"
    leased = chosen.replace("FROM taken CROSS", f"FROM {after_the_delete} CROSS")
    assert text != chosen != leased
    return leased


def a_merge_that_looks_for_its_target_first(lab: Laboratory) -> None:
    open_now = "(SELECT max(number) FROM windlass.lot WHERE queue = :queue)"
    lab.rewrite("merge_lot", lambda text: text.replace("(SELECT windlass.open_lot(:queue))", open_now), folder="upkeep")


def a_failure_applied_only_to_direct_dependents(lab: Laboratory) -> None:
    apply = graph.Resolver.apply

    def to_the_nearest_alone(self: Any, rows: Any, reached: Any) -> Any:
        apply(self, rows, reached)
        return {}

    lab.patch(graph.Resolver, "apply", to_the_nearest_alone)


def a_read_that_becomes_a_write(lab: Laboratory) -> None:
    @contextmanager
    def writing(self: Any) -> Any:
        self._connection.execute("BEGIN")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    lab.patch(sqlite.Connection, "writing", writing)


MUTANTS = [
    Mutant("M1 no fence in complete", no_fence_in_complete, scenarios.a_stale_lease_is_refused),
    Mutant("M1 no fence in the rules", no_fence_in_the_verdict, scenarios.a_stale_lease_is_refused),
    Mutant(
        "M1 completed although the lease is gone",
        completed_though_the_lease_is_gone,
        scenarios.a_stale_lease_is_refused,
    ),
    Mutant("M2 a fence that does not grow", an_equal_fence, scenarios.every_grant_has_a_greater_fence),
    Mutant(
        "M2 a fence without the epoch",
        a_fence_without_the_epoch,
        scenarios.a_restored_store_hands_out_greater_fences_than_before,
    ),
    Mutant(
        "M3 an answer before the commit",
        an_answer_before_the_commit,
        scenarios.what_is_acknowledged_is_committed,
        POSTGRES,
    ),
    Mutant(
        "M3 a commit that does not wait for the disk",
        a_commit_that_does_not_wait_for_the_disk,
        scenarios.what_is_committed_is_durable,
        POSTGRES,
    ),
    Mutant(
        "M4 parents read without a lock",
        parents_read_without_a_lock,
        scenarios.no_wake_up_is_lost_when_submit_meets_cancel,
        POSTGRES,
    ),
    Mutant(
        "M4 runnable parents read without a lock",
        runnable_parents_read_without_a_lock,
        scenarios.no_wake_up_is_lost_when_submit_meets_claim_and_settle,
        POSTGRES,
    ),
    Mutant(
        "M4 leases of parents read without a lock",
        leases_of_parents_read_without_a_lock,
        scenarios.no_wake_up_is_lost_when_submit_meets_settle,
        POSTGRES,
    ),
    Mutant(
        "M4 FOR KEY SHARE on parents, and a cancel that locks as an UPDATE does",
        parents_and_children_locked_as_a_foreign_key_would,
        scenarios.no_wake_up_is_lost_when_submit_meets_cancel,
        POSTGRES,
    ),
    Mutant(
        "M4 FOR KEY SHARE on parents alone",
        parents_locked_as_a_foreign_key_would,
        scenarios.no_wake_up_is_lost_when_submit_meets_cancel,
        POSTGRES,
        caught=False,
    ),
    Mutant(
        "M4 FOR KEY SHARE on leases of parents, and a settle that locks as an UPDATE does",
        leases_locked_as_a_foreign_key_would,
        scenarios.no_wake_up_is_lost_when_submit_meets_settle,
        POSTGRES,
        caught=False,
    ),
    Mutant(
        "M4 leases of parents read without a lock after a caller's commit",
        leases_of_parents_read_without_a_lock,
        scenarios.no_wake_up_is_lost_when_adoption_meets_settle,
        POSTGRES,
    ),
    Mutant(
        "M5 settle and announce in one statement",
        settle_and_announce_in_one_statement,
        scenarios.no_wake_up_is_lost_when_submit_meets_settle,
        POSTGRES,
    ),
    Mutant("M5 REPEATABLE READ", repeatable_read, scenarios.no_wake_up_is_lost_when_submit_meets_settle, POSTGRES),
    Mutant(
        "M6 children locked as they come",
        children_locked_as_they_come,
        scenarios.children_reached_in_opposite_orders_cause_no_deadlock,
        POSTGRES,
    ),
    Mutant(
        "M6 leases locked as they come",
        leases_locked_as_they_come,
        scenarios.leases_in_opposite_orders_cause_no_deadlock,
        POSTGRES,
    ),
    Mutant(
        "M6 keys written as they come",
        keys_written_as_they_come,
        scenarios.the_same_keys_in_opposite_orders_cause_no_deadlock,
        POSTGRES,
    ),
    Mutant(
        "M7 now() in place of clock_timestamp()",
        time_that_stands_still_in_a_transaction,
        scenarios.a_late_submit_in_an_old_transaction_has_the_present_time,
        POSTGRES,
    ),
    Mutant(
        "M8 a fresh id for every try of a submit",
        a_fresh_id_for_every_try,
        scenarios.a_submit_whose_answer_was_lost_is_not_done_twice,
        POSTGRES,
    ),
    Mutant(
        "M8 a claim tried again blindly",
        a_claim_tried_again_blindly,
        scenarios.a_claim_whose_answer_was_lost_is_not_lost_itself,
        POSTGRES,
    ),
    Mutant(
        "M8 a recovery that does not wait for the claim in progress",
        a_recovery_that_does_not_wait,
        scenarios.a_claim_whose_commit_is_in_progress_is_not_lost,
        POSTGRES,
    ),
    Mutant(
        "M9 crashes not counted", crashes_not_counted, scenarios.a_task_that_kills_its_process_goes_to_the_dead_letters
    ),
    Mutant("M9 losses not counted", losses_not_counted, scenarios.a_task_that_loses_its_nodes_goes_to_the_dead_letters),
    Mutant(
        "M10 a sweep that ignores renewals",
        the_session_opened_once_and_for_all,
        scenarios.a_renewed_session_keeps_what_it_holds,
    ),
    Mutant(
        "M10 leases requeued only when their session is marked",
        requeueing_only_when_a_session_is_marked,
        scenarios.a_claim_that_commits_after_its_session_was_marked_is_found,
        POSTGRES,
    ),
    Mutant("M10 claims of lost sessions", claims_of_lost_sessions, scenarios.a_lost_session_claims_nothing),
    Mutant(
        "M11 a closed session that drops what it holds",
        held_tasks_dropped,
        scenarios.a_closed_session_gives_back_what_it_held,
    ),
    Mutant(
        "M12 a cron that fires whatever fired before",
        a_cron_that_fires_whatever_fired_before,
        scenarios.a_cron_fires_once_for_each_time,
    ),
    Mutant(
        "M13 no tenant in the scope of prerequisites",
        no_tenant_in_the_scope,
        scenarios.a_task_of_another_tenant_cannot_be_a_prerequisite,
    ),
    Mutant("M13 no tenant in find", no_tenant_in_find, scenarios.a_filter_by_tenant_shows_no_other_tenants_task),
    Mutant(
        "M13 no tenant in the look for busy workflows",
        no_tenant_in_the_look_for_busy_workflows,
        scenarios.another_tenants_workflow_keeps_nothing_from_being_pruned,
    ),
    Mutant(
        "M14 the record in a transaction of its own",
        the_record_in_a_transaction_of_its_own,
        scenarios.an_attempt_and_its_record_are_written_together,
    ),
    Mutant(
        "M15 a child shared by two parents of a batch counted once",
        a_shared_child_counted_once,
        scenarios.a_child_of_two_parents_in_one_batch_counts_both,
    ),
    Mutant(
        "M16 a cancelled child resurrected", a_cancelled_child_resurrected, scenarios.a_cancelled_child_stays_cancelled
    ),
    Mutant("X1 claims that wait for locked rows", claims_that_wait, scenarios.a_claim_waits_for_nobody, POSTGRES),
    Mutant(
        "X1 claims by kinds that wait for locked rows",
        claims_by_kinds_that_wait,
        scenarios.a_claim_by_kinds_waits_for_nobody,
        POSTGRES,
    ),
    Mutant(
        "X2 claims by kinds without a lock",
        claims_by_kinds_without_a_lock,
        scenarios.a_claim_by_kinds_waits_for_nobody,
        POSTGRES,
    ),
    Mutant("X2 claims without a lock", claims_without_a_lock, scenarios.a_claim_waits_for_nobody, POSTGRES),
    Mutant(
        "X2 claims without a lock that lease what they chose",
        leases_of_rows_chosen_without_a_lock,
        scenarios.no_task_is_in_two_leases,
        POSTGRES,
    ),
    Mutant(
        "X2 claims without a lock alone",
        claims_without_a_lock,
        scenarios.no_task_is_in_two_leases,
        POSTGRES,
        caught=False,
    ),
    Mutant(
        "X2 claims that lease what they chose alone",
        leases_of_all_chosen_rows,
        scenarios.no_task_is_in_two_leases,
        POSTGRES,
        caught=False,
    ),
    Mutant(
        "X3 a failure applied only to direct dependents",
        a_failure_applied_only_to_direct_dependents,
        scenarios.a_failed_prerequisite_ends_those_that_wait,
    ),
    Mutant(
        "X4 a read transaction that becomes a write",
        a_read_that_becomes_a_write,
        scenarios.two_writers_never_spoil_each_others_transaction,
        SQLITE,
    ),
    Mutant(
        "X5 a merge that looks for its target before it has a transaction number",
        a_merge_that_looks_for_its_target_first,
        scenarios.a_merge_meets_the_close_of_its_target,
        POSTGRES,
    ),
    Mutant(
        "X6 leases read before the runnable rows",
        leases_read_before_the_runnable_rows,
        scenarios.a_cancel_that_meets_a_claim_asks_its_holder_to_stop,
        POSTGRES,
    ),
    Mutant(
        "X6 completed rows read before the leases",
        completed_rows_read_before_the_leases,
        scenarios.a_cancel_that_meets_a_settle_changes_nothing,
        POSTGRES,
    ),
    Mutant(
        "X6 the hot tables read in one statement",
        the_hot_tables_read_in_one_statement,
        scenarios.a_cancel_that_meets_a_claim_asks_its_holder_to_stop,
        POSTGRES,
    ),
    Mutant(
        "X6 runnable rows read without a lock",
        runnable_rows_read_without_a_lock,
        scenarios.what_a_cancel_has_locked_is_neither_claimed_nor_completed,
        POSTGRES,
    ),
    Mutant(
        "X6 leases read without a lock",
        leases_read_without_a_lock,
        scenarios.what_a_cancel_has_locked_is_neither_claimed_nor_completed,
        POSTGRES,
    ),
    Mutant(
        "X7 a cancelled task that stays runnable",
        runnable_rows_not_dropped,
        scenarios.what_is_no_longer_runnable_is_not_claimed,
    ),
    Mutant(
        "X7 an expired task that stays runnable",
        runnable_rows_not_dropped,
        scenarios.an_expired_task_is_no_longer_runnable,
    ),
    Mutant(
        "X8 a merge that does not lock the tasks",
        a_merge_that_does_not_lock_the_tasks,
        scenarios.a_merge_and_a_cancel_do_not_wait_for_each_other,
        POSTGRES,
    ),
    Mutant(
        "X9 tasks counted instead of run time",
        tasks_counted_instead_of_run_time,
        fairness_scenarios.tenants_share_run_time_and_not_the_number_of_tasks,
    ),
    Mutant(
        "X9 credit for the time without tasks",
        credit_for_the_time_without_tasks,
        fairness_scenarios.a_tenant_that_was_away_has_saved_nothing_up,
    ),
    Mutant(
        "X10 a task that counts until it ends",
        a_task_that_counts_until_it_ends,
        fairness_scenarios.the_places_of_a_dead_node_come_back,
    ),
    Mutant(
        "X10 limits without a lock",
        limits_without_a_lock,
        fairness_scenarios.a_limit_holds_for_claims_at_the_same_time,
        POSTGRES,
    ),
    Mutant(
        "X10 claims that do not compare the settings",
        claims_that_do_not_compare_the_settings,
        fairness_scenarios.a_limit_holds_at_once_in_every_process,
    ),
]
