"""Likely mistakes, each with the scenario that must catch it. `README.md` lists them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from psycopg import IsolationLevel

from tests.mutants import scenarios
from tests.mutants.laboratory import Laboratory
from windlass.core import admission
from windlass.core import graph as core_graph
from windlass.core.ids import fresh_id
from windlass.core.lifecycle import State
from windlass.core.settlement import stands_already
from windlass.core.task import Claim
from windlass.stores.postgres import database as postgres
from windlass.stores.protocol import LeaseLost, Settled, Verdict
from windlass.stores.sql import claim as sql_claim
from windlass.stores.sql import graph, settle, submit
from windlass.stores.sql.rows import Row
from windlass.stores.sql.settle import Endings, SqlSettle
from windlass.stores.sql.submit import Submit
from windlass.stores.sql.sweep import SqlSweep
from windlass.stores.sqlite import database as sqlite

BOTH = ("sqlite", "postgres")
POSTGRES = ("postgres",)
SQLITE = ("sqlite",)


class Mutant(Struct, frozen=True):
    """A fault, and the scenario that catches it. One that a second wall makes harmless is `caught=False`."""

    name: str
    plant: Callable[[Laboratory], None]
    scenario: Callable[[Laboratory], None]
    dialects: tuple[str, ...] = BOTH
    caught: bool = True


def no_fence_in_the_statement(lab: Laboratory) -> None:
    if lab.dialect == "postgres":
        lab.replace("settle", " AND t.fence = i.fence AND t.session = i.session", "")
    else:
        lab.replace("settle", " AND fence = :fence AND session = :session", " AND :fence >= 0 AND :session NOT NULL")


def no_fence_in_complete(lab: Laboratory) -> None:
    if lab.dialect == "postgres":
        lab.replace("complete", " AND t.fence = i.fence AND t.session = i.session", "")
    else:
        lab.replace("complete", " AND fence = :fence AND session = :session", " AND :fence >= 0 AND :session NOT NULL")


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


def no_fence_at_all(lab: Laboratory) -> None:
    no_fence_in_the_statement(lab)
    no_fence_in_the_verdict(lab)


def an_equal_fence(lab: Laboratory) -> None:
    granted = sql_claim._claim

    def equal(*given: Any) -> Claim:
        claim = granted(*given)
        fence = claim.lease.fence - 1
        return Claim(replace(claim.lease, fence=fence), replace(claim.task, fence=fence))

    lab.patch(sql_claim, "_claim", equal)


def a_fence_without_the_epoch(lab: Laboratory) -> None:
    granted = sql_claim._claim
    lab.patch(sql_claim, "_claim", lambda db, session, line: granted(db, session, (0, *line[1:])))


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
    lab.replace("parents", "FOR SHARE OF t", "")


def parents_locked_as_a_foreign_key_would(lab: Laboratory) -> None:
    lab.replace("parents", "FOR SHARE OF t", "FOR KEY SHARE OF t")


def parents_and_children_locked_as_a_foreign_key_would(lab: Laboratory) -> None:
    parents_locked_as_a_foreign_key_would(lab)
    lab.replace("lock_tasks", "FOR UPDATE", "FOR NO KEY UPDATE")
    lab.replace("complete", "FOR UPDATE OF t", "FOR NO KEY UPDATE OF t")


def settle_and_announce_in_one_statement(lab: Laboratory) -> None:
    lab.replace("complete", "FOR UPDATE OF t", "")
    lab.rewrite(
        "complete",
        lambda text: (
            text.replace("UPDATE windlass.task", ", settled AS (UPDATE windlass.task").rstrip(" ;\n")
            + """), noted AS (
            INSERT INTO windlass.ended (parent, how)
            SELECT s.id, 'completed' FROM settled AS s
             WHERE EXISTS (SELECT FROM windlass.edge AS e WHERE e.parent = s.id AND NOT e.resolved))
            SELECT id, queue, tenant, finished FROM settled"""
        ),
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
    lab.patch(graph, "sorted", list)
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
    lab.replace("held", "state = 'leased'", "state = 'forgotten'")


def a_cron_that_fires_whatever_fired_before(lab: Laboratory) -> None:
    lab.replace("fire", " AND (fired IS NULL OR fired < :nominal)", "")


def no_tenant_in_the_scope(lab: Laboratory) -> None:
    lab.patch(admission, "in_scope", lambda new, there: there is not None and there.workflow in (None, new.workflow))


def no_tenant_in_find(lab: Laboratory) -> None:
    # One of the conditions is about the tenant, in whichever words.
    lab.rewrite("find", lambda text: "\n".join(line for line in text.splitlines() if ":tenant" not in line))


def no_tenant_in_the_look_for_busy_workflows(lab: Laboratory) -> None:
    lab.rewrite("workflow_is_busy", lambda text: text.replace("b.workflow_tenant = :tenant", ":tenant IS NOT NULL")
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


def claims_without_a_lock(lab: Laboratory) -> None:
    lab.replace("claim", "FOR UPDATE SKIP LOCKED", "")


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
    Mutant(
        "M1 no fence in settle, in the rules and in the statement", no_fence_at_all, scenarios.a_stale_lease_is_refused
    ),
    Mutant("M1 no fence in complete", no_fence_in_complete, scenarios.a_stale_lease_is_refused),
    Mutant("M1 no fence in the rules alone", no_fence_in_the_verdict, scenarios.a_stale_lease_is_refused),
    Mutant(
        "M1 no fence in the statement alone",
        no_fence_in_the_statement,
        scenarios.a_stale_lease_is_refused,
        caught=False,
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
        scenarios.no_wake_up_is_lost_when_submit_meets_settle,
        POSTGRES,
    ),
    Mutant(
        "M4 FOR KEY SHARE on parents, and a settle that locks as an UPDATE does",
        parents_and_children_locked_as_a_foreign_key_would,
        scenarios.no_wake_up_is_lost_when_submit_meets_settle,
        POSTGRES,
    ),
    Mutant(
        "M4 FOR KEY SHARE on parents alone",
        parents_locked_as_a_foreign_key_would,
        scenarios.no_wake_up_is_lost_when_submit_meets_settle,
        POSTGRES,
        caught=False,
    ),
    Mutant(
        "M4 parents read without a lock after a caller's commit",
        parents_read_without_a_lock,
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
    Mutant("X2 claims without a lock", claims_without_a_lock, scenarios.no_task_is_in_two_leases, POSTGRES),
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
]
