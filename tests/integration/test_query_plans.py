"""How the databases go about our statements when the tables are large: by which index, and past how many rows.

PostgreSQL is asked on tables of hundreds of thousands of rows, of which few are of interest, each statement with a plan
for its very values and with one for any values, as a prepared statement gets after a while. SQLite keeps no statistics,
so its plans are the same on empty tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, LiteralString, cast

import apsw
import psycopg
import pytest
from msgspec import Struct
from psycopg import sql

from tests.support.processes import file_lock
from windlass.stores.postgres import PostgresStore
from windlass.stores.postgres.database import PLANNING
from windlass.stores.protocol import SCANNED
from windlass.stores.sql.lanes import PARKED, lane_of
from windlass.stores.sqlite import SQLiteStore
from windlass.stores.statements import Statement, load

NOW = 1_800_000_000_000_000
FINISHED, RUNNABLE, WAITING, SCHEDULED, LEASED = 300_000, 50_000, 10_000, 10_000, 500
TOTAL = FINISHED + RUNNABLE + WAITING + SCHEDULED + LEASED
BATCH = 100
KINDS = 10
"""How many kinds are asked for, of 20 that there are."""
REWRITES = 10 * BATCH
"""After this many changed rows that were rolled back, a table is cleaned up for the next statement."""
NOBODY = "00000000-0000-0000-0000-000000000000"
LARGE = (
    *("task", "runnable", "leased", "completed", "edge", "result", "attempt", "audit", "bulk_task", "series"),
    *("account", "usage", "parked", "bucket", "unique_lock"),
)
"""The tables that grow with the number of tasks, decisions, queues or tenants; none of them may ever be read whole."""
ENTRIES = 100_000
SERIES_QUEUES = 20
LANES, ACCOUNTS, KEYS, ENDED = 10_000, 20_000, 10_000, 200
"""Tenants with tasks in the queue `fair`, tenants with accounts there, keys that hold back tasks of the queue `keyed`,
and attempts of each fair queue that have ended."""
BIG = 20_000
"""The tasks of the tenant that has most of the queue `fair`."""


def fill_lanes(lanes: int = LANES, big: int = BIG, keys: int = KEYS, accounts: int = ACCOUNTS) -> list[str]:
    """The queue `fair` has many tenants with one task and one with many. The tasks of `keyed` are held back by keys."""
    return [
        """
        INSERT INTO windlass.queue (name, strategy, horizon, step, paused, weight, fair)
        SELECT name, 'priority', 0, 0, false, 1, true FROM unnest(ARRAY['fair', 'other fair']) AS name
        """,
        f"""
        CREATE TEMPORARY TABLE laned AS
        SELECT md5('laned' || n)::uuid AS id, n, CASE WHEN n <= {lanes + big} THEN 'fair' ELSE 'keyed' END AS queue,
               CASE WHEN n <= {lanes + big} THEN 'tenant' || least(n, {lanes}) ELSE 'default' END AS tenant,
               CASE WHEN n <= {lanes + big} THEN windlass.lane('tenant' || least(n, {lanes}))
                    ELSE {PARKED} - 1 - n END AS lot
          FROM generate_series(1, {lanes + big + keys}) AS n
        """,
        f"""
        INSERT INTO windlass.task (id, queue, lot, tenant, state, band, rank, tie, due, waiting, on_failure, fence,
                                   kind, handler, args, priority, first_due, submitted)
        SELECT id, queue, lot, tenant, 'queued', 0, 0, {NOW} + n, {NOW} + n, 0, 'cancel', 1,
               n % 20, 'work', '{{}}', 0, 1, 1
          FROM laned
        """,
        """
        INSERT INTO windlass.runnable (queue, lot, band, rank, tie, id, kind, due)
        SELECT queue, lot, band, rank, tie, id, kind, due FROM windlass.task JOIN laned USING (id, queue, lot)
        """,
        """
        INSERT INTO windlass.parked (queue, tenant, name, lot, ready)
        SELECT queue, tenant, 'key=' || n, lot, CASE WHEN n % 10 = 0 THEN 0 END FROM laned WHERE queue = 'keyed'
        """,
        # Half of the accounts are of tenants that have no tasks, and most of these may be forgotten.
        f"""
        INSERT INTO windlass.account (queue, tenant, charged, highest, mean, minute, hour, at, active)
        SELECT queue, CASE WHEN n = 0 THEN '' ELSE 'tenant' || n END, n, n, 1, 0, 0, {NOW} + n, n BETWEEN 1 AND {lanes}
          FROM generate_series(0, {accounts}) AS n, (VALUES ('fair'), ('other fair')) AS q (queue)
        """,
        f"""
        INSERT INTO windlass.usage (queue, tenant, ran, charge, attempts, at)
        SELECT queue, 'tenant' || n, 1, 1, 1, {NOW}
          FROM (VALUES ('fair', {ENDED}), ('other fair', {accounts})) AS q (queue, many), generate_series(1, many) AS n
        """,
        f"""
        INSERT INTO windlass.bucket (name, full_at)
        SELECT 'key=' || n, {NOW} + n FROM generate_series(1, {keys}) AS n
        """,
    ]


# Tasks are numbered, and stand in the table by their states. Two in three are in the queue `default`, one in two is in
# a workflow, one in ten has a downstream. A waiting task waits for two runnable ones, a scheduled one for the hub; all
# the other edges are resolved. Most entries of the log are about pools.
FILL = [
    f"""
    CREATE TEMPORARY TABLE numbered AS
    SELECT n, md5(n::text)::uuid AS id,
           CASE WHEN n <= {FINISHED} THEN CASE WHEN n % 100 = 0 THEN 'failed' ELSE 'completed' END
                WHEN n <= {FINISHED + RUNNABLE} THEN 'runnable'
                WHEN n <= {FINISHED + RUNNABLE + WAITING} THEN 'waiting'
                WHEN n <= {FINISHED + RUNNABLE + WAITING + SCHEDULED} THEN
                     CASE WHEN n % 5 = 0 THEN 'retrying' ELSE 'scheduled' END
                ELSE 'leased' END AS state
      FROM generate_series(1, {TOTAL}) AS n
    """,
    f"""
    INSERT INTO windlass.session (id, node, ttl, renewed, boot, lost)
    SELECT md5('session' || n)::uuid, 'node', 15000000, {NOW}, '', n = 0 FROM generate_series(0, 19) AS n
    """,
    f"""
    INSERT INTO windlass.task (id, queue, tenant, state, band, rank, tie, due, expires, waiting, on_failure, fence,
                               finished, cancel_by, kind, error_group, handler, args, rules, workflow, workflow_tenant,
                               priority, first_due, submitted)
    SELECT id, CASE WHEN n % 3 > 0 THEN 'default' ELSE 'other' || n % 7 END, 'tenant' || n % 50,
           CASE WHEN state IN ('runnable', 'leased', 'completed') THEN 'queued' ELSE state END,
           -(n % 10), 9223372036854775807, {NOW} + n, {NOW} + n, CASE WHEN n % 50 = 0 THEN {NOW} + n END,
           CASE state WHEN 'waiting' THEN 2 ELSE 0 END, 'cancel', 1, CASE state WHEN 'failed' THEN {NOW} + n END,
           CASE WHEN state = 'leased' AND n % 10 = 0 THEN {NOW} + n END, n % 20,
           CASE state WHEN 'failed' THEN 'aaaaaaa' || n / 100 % 3 END,
           'work', '{{}}', CASE WHEN n % 100 < 10 THEN '{{"downstream":"payments"}}' END,
           CASE WHEN n % 2 = 0 THEN 'w' || n % 5000 END, CASE WHEN n % 2 = 0 THEN 'tenant' || n % 50 END,
           n % 10, {NOW} + n, {NOW} + n
      FROM numbered
    """,
    f"""
    INSERT INTO windlass.placeholder (id, workflow, expires)
    SELECT md5('placeholder' || n)::uuid, md5('workflow' || n % 10)::uuid, {NOW} + n FROM generate_series(1, 10000) AS n
    """,
    """
    INSERT INTO windlass.runnable (queue, lot, band, rank, tie, id, kind, due, expires)
    SELECT queue, lot, band, rank, tie, id, kind, due, expires FROM windlass.task JOIN numbered USING (id)
     WHERE numbered.state = 'runnable'
    """,
    """
    INSERT INTO windlass.leased (id, fence, session, claimed, queue, tenant, handler, cancel_requested)
    SELECT id, fence, md5('session' || n % 20)::uuid, 1, queue, tenant, handler, n % 10 = 0
      FROM windlass.task JOIN numbered USING (id)
     WHERE numbered.state = 'leased'
    """,
    f"""
    INSERT INTO windlass.completed (id, fence, session, claimed, finished)
    SELECT id, 1, md5('session' || n % 20)::uuid, 1, {NOW} + n FROM numbered WHERE state = 'completed'
    """,
    f"""
    INSERT INTO windlass.edge (child, parent, resolved)
    SELECT id, md5(({FINISHED} + n % {RUNNABLE} + k)::text)::uuid, false
      FROM numbered CROSS JOIN generate_series(1, 2) AS k WHERE state = 'waiting'
     UNION ALL
    SELECT id, md5('{FINISHED + 1}')::uuid, false FROM numbered WHERE state = 'scheduled'
     UNION ALL
    SELECT id, md5((n / 2)::text)::uuid, true FROM numbered WHERE n BETWEEN 2 AND {FINISHED // 2}
    """,
    "INSERT INTO windlass.result (id, value) SELECT id, '1' FROM numbered WHERE state = 'completed' AND n % 5 = 0",
    f"""
    INSERT INTO windlass.attempt (task, fence, session, started, ended, state)
    SELECT id, 1, id, 1, 2, 'failed' FROM numbered WHERE n % 10 = 0 AND n <= {FINISHED}
    """,
    f"""
    INSERT INTO windlass.ended (parent, how)
    SELECT md5(({FINISHED} + n)::text)::uuid, 'completed' FROM generate_series(1, 300) AS n
    """,
    f"""
    INSERT INTO windlass.audit (at, kind, subject, action, text, by, data)
    SELECT {NOW} + n, kind, kind || '/' || n % 20, 'held', 'held at ' || n, 'node', '{{}}'
      FROM generate_series(1, {ENTRIES}) AS n CROSS JOIN LATERAL (
           SELECT CASE WHEN n % 100 = 0 THEN 'queue' ELSE 'pool' END AS kind) AS k
    """,
    f"""
    INSERT INTO windlass.bulk_task (bulk, task, chosen, stage)
    SELECT '{NOBODY}'::uuid, id, n % 200 = 0,
           CASE WHEN n <= {100 * BATCH} THEN 'walk' WHEN n <= {200 * BATCH} THEN 'out' ELSE 'in' END
      FROM numbered WHERE state IN ('failed', 'completed') AND n % 5 = 0
    """,
    f"""
    INSERT INTO windlass.series (queue, width, at, arrived, started, completed, failed, retried, waited, longest)
    SELECT 'queue' || q, width, {NOW} + n::bigint * width, 1, 1, 1, 0, 0, 1, 1
      FROM generate_series(1, {SERIES_QUEUES}) AS q, (VALUES (1000000, 900), (60000000, 2880)) AS w (width, many),
           generate_series(1, many) AS n
    """,
    f"INSERT INTO windlass.unique_lock (id, task, until, look) SELECT id, id, {NOW} + n, {NOW} + n FROM numbered",
    *fill_lanes(),
    *(f"VACUUM (ANALYZE) windlass.{table}" for table in (*LARGE, "ended")),
]


class Expected(Struct, frozen=True):
    """What a statement may do: the indexes that it must go by, a bar between equally good ones, and how far."""

    uses: str = ""
    rows: int = BATCH
    """Of the large tables, those passed over included."""
    pages: int = 20 * BATCH
    """Of all tables and indexes."""
    whole: str = ""
    """The only tables that may be scanned: `leased`, which has as many rows as tasks are running."""


WRITES = Expected(rows=0)
TASKS = Expected("task_pkey")
TASK_MOVES = Expected("task_pkey", pages=25 * BATCH)
"""It writes to most indexes of a task. What earlier tests have rolled back adds a page here and there."""
PLANS = {
    # What runs all the time.
    "claim": Expected("runnable_pkey task_pkey", rows=3 * BATCH + 20, pages=12 * BATCH),
    "kinds": Expected("runnable_of_kind task_pkey", rows=2 * 20 + 1, pages=20 * 20),
    "claim_kinds": Expected(
        "runnable_of_kind runnable_pkey task_pkey", rows=(KINDS + 4) * BATCH, pages=4 * KINDS * BATCH
    ),
    "complete": Expected("leased_pkey", rows=2 * BATCH),
    "lock_runnable": Expected("task_pkey runnable_pkey", rows=2 * BATCH),
    "share_runnable": Expected("task_pkey runnable_pkey", rows=2 * BATCH),
    "lock_leased": Expected("leased_pkey"),
    "lock_leased_skip": Expected("leased_pkey"),
    "lock_runnable_skip": Expected("task_pkey runnable_pkey", rows=2 * BATCH),
    "share_leased": Expected("leased_pkey"),
    "find_completed": Expected("completed_pkey"),
    "add_runnable": TASKS,
    "drop_runnable": Expected("task_pkey runnable_pkey", rows=3 * BATCH),
    "end_leases": Expected("leased_pkey", rows=2 * BATCH),
    "add_completed": WRITES,
    "request_cancel": Expected("leased_pkey", rows=2 * BATCH),
    "lock_tasks": TASKS,
    "settle": TASK_MOVES,
    "record_attempts": WRITES,
    "record_results": WRITES,
    "announce": Expected("edge_open"),
    "open_edges": Expected("edge_open", rows=3 * BATCH),
    "reach": Expected("edge_open task_pkey", rows=6 * BATCH),
    "resolve_edges": Expected("edge_pkey|edge_parent"),
    "move": TASK_MOVES,
    "parents": TASKS,
    "peek_parents": Expected("task_pkey leased_pkey completed_pkey", rows=2 * BATCH),
    "submit": WRITES,
    "submit_edges": WRITES,
    "progress": Expected("leased_pkey"),
    "record_output": Expected("leased_pkey"),
    "cancelling": Expected("leased_cancelling"),
    "held": Expected("task_pkey", rows=2 * LEASED, whole="leased"),
    # What the autoscaler looks at.
    "queue_heads": Expected("runnable_oldest", rows=1, pages=20),
    "due_soon": Expected("task_due", rows=BATCH),
    "note": WRITES,
    # Fair queues and limits.
    "claim_guard": Expected("parked_pkey", rows=1, pages=20),
    "governed_queue": Expected("parked_pkey", rows=2, pages=20),
    "used_accounts": Expected("usage_queue account_pkey", rows=2 * ENDED + 1, pages=6 * ENDED),
    "take_usage": Expected("usage_queue", rows=ENDED, pages=6 * ENDED),
    "next_accounts": Expected("account_turn", pages=4 * BATCH),
    "find_accounts": Expected("account_pkey"),
    "put_accounts": WRITES,
    "find_lanes": Expected("task_pkey", rows=3 * BATCH, pages=15 * BATCH),
    "outside_lanes": Expected("runnable_pkey task_pkey", rows=2 * BATCH),
    "inside_lanes": Expected("runnable_pkey"),
    "candidates": Expected("runnable_pkey task_pkey", rows=3 * BATCH),
    "kind_candidates": Expected("runnable_of_kind task_pkey", rows=3 * KINDS * BATCH, pages=6 * KINDS * BATCH),
    "lane_kind_candidates": Expected("runnable_lane_kind task_pkey", rows=3 * BATCH),
    "lane_kinds": Expected("runnable_lane_kind task_pkey", rows=2 * (BATCH + 20)),
    "held_back": Expected("runnable_pkey", rows=BATCH),
    "claim_chosen": Expected("runnable_pkey task_pkey", rows=3 * BATCH),
    "park": Expected("task_pkey runnable_pkey", rows=4 * BATCH, pages=50 * BATCH),
    "ready_lanes": Expected("parked_ready", rows=BATCH, pages=4 * BATCH),
    "put_parked": WRITES,
    "drop_parked": Expected("parked_pkey", rows=2 * BATCH),
    "parked_after": Expected("parked_pkey runnable_pkey", rows=2 * BATCH),
    "ready_names": Expected("parked_name", rows=2 * BATCH),
    "record_usage": WRITES,
    "running": Expected(rows=LEASED, whole="leased"),
    "running_limited": Expected("leased_limited", rows=LEASED),
    "count_leases": Expected(rows=2 * LEASED, whole="leased", pages=30 * LEASED),
    "buckets": Expected("bucket_pkey"),
    "put_buckets": WRITES,
    "accounts": Expected("account_pkey", rows=ACCOUNTS + 1, pages=ACCOUNTS),
    "pending_usage": Expected("usage_queue", rows=ENDED),
    "rebase_accounts": Expected("account_pkey|account_turn", rows=ACCOUNTS + 1, pages=20 * ACCOUNTS),
    # The sweep.
    "forget_accounts": Expected("account_idle account_pkey", rows=4 * BATCH, pages=15 * BATCH),
    "forget_buckets": Expected("bucket_full"),
    "some_old_unique": Expected("unique_lock_look"),
    "old_unique": Expected("unique_lock_look"),
    "forget_unique": Expected("unique_lock_pkey"),
    "look_later": Expected("unique_lock_pkey"),
    "lock_tasks_skip": TASKS,
    "lost_leases": Expected("task_pkey", rows=2 * LEASED, whole="leased"),
    "late_cancels": Expected("task_cancel_by"),
    "bump_fences": TASKS,
    "expired": Expected("task_expires runnable_expires", rows=2 * BATCH),
    "due": Expected("task_due"),
    "next_due": Expected("task_due", rows=1),
    "open_prerequisites": Expected("edge_pkey", rows=3 * BATCH),
    "open_among": Expected("edge_pkey|edge_open"),
    "edges_after": Expected("edge_pkey task_pkey completed_pkey", rows=3 * BATCH),
    "finished_before": Expected("task_finished completed_finished task_pkey", rows=10 * BATCH),
    "stored_placeholders": Expected("task_pkey", rows=BATCH, pages=6 * BATCH),
    "late_placeholders": Expected("task_pkey", rows=1, pages=12 * BATCH),
    "first_unfinished": Expected("task_workflow task_pkey completed_pkey", rows=3 * BATCH),
    "workflow_edges": Expected("task_workflow task_pkey edge_pkey", rows=3 * BATCH),
    "unnotified": Expected("edge_open"),
    "forget_sessions": Expected(rows=LEASED, whole="leased"),
    "forget_tasks": TASKS,
    "forget_completed": Expected("completed_pkey"),
    "forget_results": Expected("result_pkey"),
    "forget_attempts": Expected("attempt_pkey"),
    "forget_edges": Expected("edge_pkey edge_parent", rows=10 * BATCH),
    # What people look at and change.
    "logs": Expected("leased_pkey"),
    "latest_output": Expected("leased_pkey"),
    "keys": TASKS,
    "get": Expected("task_pkey leased_pkey completed_pkey result_pkey", rows=3 * BATCH),
    "find": Expected("task_submitted leased_pkey completed_pkey", rows=3 * SCANNED + BATCH, pages=12 * SCANNED),
    "scanned": Expected("task_submitted", rows=SCANNED + 1, pages=SCANNED),
    "indexed_candidates": Expected(
        "task_failed task_due task_workflow task_pkey", rows=6 * BATCH, whole="leased runnable"
    ),
    "count_matching": Expected(
        "task_failed task_due task_workflow task_submitted task_pkey leased_pkey completed_pkey",
        rows=9 * BATCH,
        whole="leased runnable",
    ),
    "dead_groups": Expected("task_failed task_pkey", rows=3 * BATCH + 1),
    "dead_scanned": Expected("task_failed", rows=20),
    "dead_letters": Expected("task_failed", rows=SCANNED, pages=2 * SCANNED),
    "last_errors": Expected("task_pkey attempt_pkey", rows=2 * BATCH),
    "set_error_group": TASKS,
    "step_list": Expected("task_workflow task_pkey leased_pkey completed_pkey", rows=3 * BATCH),
    "step_scanned": Expected("task_workflow"),
    "step_groups": Expected("task_workflow task_pkey leased_pkey completed_pkey", rows=3 * BATCH),
    "step_edges": Expected("task_workflow edge_pkey task_pkey", rows=3 * BATCH),
    "workflow_list": Expected("task_workflow_newest task_workflow", rows=3 * BATCH),
    "workflow_tenants": Expected("task_workflow", rows=2),
    "amend": TASKS,
    "set_waits": TASKS,
    "continue_as": TASKS,
    "wait_again": WRITES,
    "added_steps": Expected("task_pkey edge_pkey", rows=5 * BATCH),
    "hold_unique": Expected(rows=0, pages=40 * BATCH),
    "take_unique": Expected("unique_lock_pkey"),
    "put_off": TASKS,
    "set_place": Expected("task_pkey", pages=25 * BATCH),
    "attempts": Expected("attempt_pkey completed_pkey"),
    "prerequisites": Expected("edge_pkey task_pkey leased_pkey completed_pkey"),
    "dependents": Expected("edge_parent task_pkey leased_pkey completed_pkey", rows=3 * BATCH),
    "ancestors": Expected("edge_pkey"),
    "edges_above": Expected("edge_pkey", rows=3 * BATCH),
    "resolved_edges": Expected("edge_pkey", rows=3 * BATCH),
    "workflows_of": Expected("task_pkey", rows=3 * BATCH),
    "wait_for_seal": WRITES,
    "reopen_edges": Expected("edge_pkey|edge_parent"),
    "add_to_bulk": Expected("task_pkey completed_pkey", pages=30 * BATCH),
    "add_taken_down": Expected("edge_parent task_pkey bulk_task_stage", rows=20 * BATCH),
    "kept_down": Expected("edge_pkey task_pkey bulk_task_pkey", rows=10 * BATCH),
    "take_out_below": Expected("edge_parent bulk_task_stage", rows=20 * BATCH),
    "bulk_page": Expected("bulk_task_stage", rows=BATCH),
    "bulk_stages": Expected("bulk_task_pkey"),
    "mark_bulk_tasks": Expected("bulk_task_pkey|bulk_task_task"),
    "advance_bulk": Expected("bulk_task_stage|bulk_task_pkey", rows=10 * BATCH),
    "count_bulk": Expected("bulk_task_stage|bulk_task_pkey", rows=FINISHED, pages=FINISHED),
    "drop_bulk_tasks": Expected("bulk_task_pkey", rows=3 * BATCH),
    "audit": Expected("audit_pkey"),
    "audit_of": Expected("audit_subject"),
    "audit_under": Expected("audit_kind", rows=10 * BATCH),  # all that there are of that kind
    "count_ahead": Expected("task_pkey runnable_pkey", rows=BATCH + 2),
    "count_before": Expected("runnable_pkey", rows=BATCH + 2),
    "first_entries": Expected("audit_pkey"),
    "forget_entries": Expected("audit_pkey"),
    "record_series": WRITES,
    "roll_up_series": Expected("series_at", rows=2 * BATCH),
    "series": Expected("series_at", rows=2 * SERIES_QUEUES * BATCH, pages=2 * SERIES_QUEUES * BATCH),
    "series_of": Expected("series_queue", rows=2 * BATCH),
    "recent_waits": Expected("completed_finished task_pkey", rows=4 * BATCH),
}
ABOUT = {
    "lock_runnable": "runnable",
    "lock_runnable_skip": "runnable",
    "share_runnable": "runnable",
    "drop_runnable": "runnable",
    "lock_leased": "leased",
    "lock_leased_skip": "leased",
    "share_leased": "leased",
    "end_leases": "leased",
    "request_cancel": "leased",
    "find_completed": "completed",
    "complete": "leased",
    "settle": "leased",
    "progress": "leased",
    "record_output": "leased",
    "bump_fences": "leased",
    "move": "scheduled",
    "add_runnable": "scheduled",
    "unnotified": "runnable",
    "forget_tasks": "completed",
    "forget_completed": "completed",
    "forget_results": "completed",
    "forget_attempts": "completed",
    "forget_edges": "completed",
}
"""The state of the tasks that are given to a statement, where it is not `waiting`."""
IN_LANES = {
    *("used_accounts", "take_usage", "next_accounts", "find_accounts", "put_accounts", "accounts", "pending_usage"),
    *("find_lanes", "inside_lanes", "candidates", "kind_candidates", "lane_kind_candidates", "lane_kinds"),
    *("claim_chosen", "park", "put_parked", "drop_parked", "ready_names", "buckets", "put_buckets"),
    *("governed_queue", "rebase_accounts"),
}
"""What is about the lanes of the queue `fair`, and about limits."""


def test_every_statement_on_a_large_table_is_looked_at_here() -> None:
    touches = re.compile(rf"\bwindlass\.({'|'.join((*LARGE, 'current_task'))})\b")

    large = {name for name, statement in load("postgres", "$").items() if touches.search(statement.text)}

    assert large == PLANS.keys()


def fill_large(url: str) -> None:
    """Make a database with very many tasks, of which few are unfinished."""
    PostgresStore(url).close()
    with psycopg.connect(url, autocommit=True) as connection:
        for table in LARGE:  # Quicker to fill, and planned alike.
            connection.execute(sql.SQL("ALTER TABLE windlass.{} SET UNLOGGED").format(sql.Identifier(table)))
        for statement in FILL:
            connection.execute(cast("LiteralString", statement))


@pytest.fixture
def large(
    database_of_the_run: Callable[[str, Callable[[str], None]], str], run_folder: Path
) -> Iterator[psycopg.Connection[Any]]:
    """The database with very many tasks, for one test at a time: locks of others change what a statement reads, and an
    open snapshot, even of who waits for a lock in the database, keeps `VACUUM` from removing what is rolled back."""
    url = database_of_the_run("large", fill_large)
    with file_lock(run_folder / "large.lock"), psycopg.connect(url) as connection:
        connection.autocommit = True
        yield connection


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("name", PLANS)
def test_postgres_goes_by_the_right_index_and_reads_no_more_than_it_must(
    large: psycopg.Connection[Any], name: str, mode: str
) -> None:
    expected = PLANS[name]

    statement = load("postgres", "$")[name]
    plan = explained(large, statement, mode, arguments_for(large, statement))

    nodes = list(walked(plan))
    reads = [node for node in nodes if node.get("Relation Name") in LARGE and node["Node Type"] != "ModifyTable"]
    found = [(node["Node Type"], node["Relation Name"], node.get("Index Name"), looked_at(node)) for node in reads]
    indexes = {node["Index Name"] for node in nodes if "Index Name" in node}
    scanned = {node["Relation Name"] for node in reads if node["Node Type"] == "Seq Scan"}
    assert scanned <= set(expected.whole.split()), found
    assert all(indexes.intersection(one.split("|")) for one in expected.uses.split()), found
    assert sum(looked_at(node) for node in reads) <= expected.rows, found
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= expected.pages, found
    assert [node for node in nodes if "Sort" in node["Node Type"] and looked_at(node) > expected.rows] == []


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("newest", [True, False])
def test_postgres_counts_at_a_bounded_cost(large: psycopg.Connection[Any], mode: str, newest: bool) -> None:
    statement = load("postgres", "$")["count_matching"]
    flags: dict[str, Any] = {"newest": newest, "runnable": not newest, "failed": False, "due": False, "workflows": None}

    asked = arguments_for(large, statement, **flags, looked_at=cast("Any", SCANNED))
    plan = explained(large, statement, mode, asked)

    reads = [node for node in walked(plan) if node.get("Relation Name") in LARGE]
    assert {node["Node Type"] for node in reads if node["Actual Rows"]}.isdisjoint({"Seq Scan", "Bitmap Heap Scan"})
    assert sum(looked_at(node) for node in reads) <= 3 * SCANNED
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= 12 * SCANNED


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
def test_postgres_reads_no_tasks_after_a_full_page(large: psycopg.Connection[Any], mode: str) -> None:
    statement = load("postgres", "$")["find"]

    any_task: dict[str, Any] = dict.fromkeys(("states", "queues", "tenants", "workflows", "handlers"))
    plan = explained(large, statement, mode, arguments_for(large, statement, **any_task))

    reads = [node for node in walked(plan) if node.get("Relation Name") in LARGE]
    assert plan["Actual Rows"] == BATCH
    assert sum(looked_at(node) for node in reads) <= 4 * BATCH
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= 15 * BATCH


def explained(
    connection: psycopg.Connection[Any], statement: Statement, mode: str, arguments: sql.Composable
) -> dict[str, Any]:
    """Run a statement on values that it might get, and roll it back; how it was gone about."""
    with connection.transaction(force_rollback=True):
        connection.execute("DEALLOCATE ALL")
        for name, value in {**PLANNING, "plan_cache_mode": mode}.items():
            connection.execute("SELECT set_config(%s, %s, true)", [name, value])
        connection.execute(cast("LiteralString", f"PREPARE asked AS {statement.text}"))
        explain = sql.SQL("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE asked") + arguments
        [([answer],)] = connection.execute(explain).fetchall()
    for node in walked(answer["Plan"]):
        if node["Node Type"] == "ModifyTable" and any(part["Actual Rows"] > REWRITES for part in node["Plans"]):
            connection.execute(sql.SQL("VACUUM windlass.{}").format(sql.Identifier(node["Relation Name"])))
    return answer["Plan"]


def arguments_for(
    connection: psycopg.Connection[Any], statement: Statement, **given: Sequence[object]
) -> sql.Composable:
    """Values that a statement might get, as they stand behind EXECUTE."""
    if not statement.batch and not statement.scalars:
        return sql.SQL("")
    values = sql.SQL(", ").join(map(sql.Literal, values_for(connection, statement, **given)))
    return sql.SQL("({})").format(values)


def values_for(connection: psycopg.Connection[Any], statement: Statement, **given: Sequence[object]) -> list[object]:
    """A batch of tasks in the state that the statement is about, and scalars to go with it, unless they are `given`."""
    state = ABOUT.get(statement.name, "waiting")
    in_state = "SELECT id FROM windlass.current_task WHERE state = %s ORDER BY id LIMIT %s"
    tasks = column(connection, in_state, state, BATCH)
    ids = tasks
    if statement.name.startswith(("submit", "enqueue", "record", "add_completed")):
        ids = [f"00000000-0000-0000-0000-{number:012}" for number in range(BATCH)]
    one_parent = "SELECT max(parent::text) FROM windlass.edge WHERE child = ANY (%s) GROUP BY child ORDER BY child"
    by_name = {
        "id": ids,
        "task": ids,
        "child": ids,
        "parent": column(connection, one_parent, tasks) if state == "waiting" else ids,
        "after": [NOBODY] * BATCH,
        "old": [state] * BATCH,
        "state": ["retrying" if statement.name == "settle" else "waiting"] * BATCH,
        "finished": [1 if statement.name == "add_completed" else None] * BATCH,
        **given,
    }
    by_type = {"uuid": ids, "text": ["any"] * BATCH, "boolean": [False] * BATCH}
    scalars: dict[str, object] = {
        "queue": "default",
        "session": column(connection, "SELECT id FROM windlass.session WHERE NOT lost ORDER BY id")[0],
        "now": NOW + TOTAL,
        "age": 1,
        "limit": BATCH,
        "band": 1,
        "rank": 0,
        "tie": 0,
        "limit_time": NOW + FINISHED,
        "task": column(connection, "SELECT md5(%s)::uuid", str(FINISHED + 1))[0],
        "child": NOBODY,
        "parent": NOBODY,
        "id": NOBODY,
        "finished": 0,
        "priority": 1,
        "deadline": None,
        "first_due": 1,
        "args": "{}",
        "wait": 1,
        "tenant": "tenant4",
        "workflow": "w4",
        "reach": BATCH,
        "queues": "{default}",
        "to_notify": "{}",
        "number": 0,
        "ahead": TOTAL,
        "before": NOW + TOTAL,
        "subject": "queue/0",
        "kind": "queue",
        "first": "queue/",
        "behind": "queue0",
        "submitted": NOW + FINISHED,
        "since": NOW,
        "skip": SCANNED - 1,
        "end": NOW + FINISHED - SCANNED,
        "end_id": NOBODY,
        "states": "{failed}",
        "looked_at": BATCH,
        "newest_of_each": 10,
        "error_group": "aaaaaaa1",
        "newest": True,
        "failed": True,
        "leased": False,
        "runnable": True,
        "due": True,
        "tenants": None,
        "workflows": "{w4,w8}",
        "handlers": "{nothing}",
        "bulk": NOBODY,
        "stage": "out",
        "old": "out",
        "unfinished": True,
        "after": PARKED if statement.name in IN_LANES else NOBODY,
        "settings": 0,
        "limited": False,
        "charged": 10,
        "floor": 10,
        "name": "key=4",
        "last": "01000000-0000-0000-0000-000000000000",
    }
    if statement.name in IN_LANES:
        scalars["queue"] = "fair"
        by_name = {**by_name, **lanes_for(connection, statement), **given}
    if statement.name in ("ready_lanes", "parked_after"):
        scalars |= {"queue": "keyed", "tenant": "", "name": ""}
    if statement.name == "forget_accounts":
        scalars["before"] = NOW + LANES + BATCH
    if statement.name == "forget_buckets":
        scalars["now"] = NOW + BATCH
    if statement.name == "claim_kinds":
        by_name = {"queue": ["default"] * KINDS, "kind": list(range(KINDS)), **by_name}
    if statement.name.startswith("step"):
        scalars |= {"workflow": "w0", "tenant": "tenant0", "submitted": 0, "end": 2 * NOW, "states": None, "skip": 10}
    if statement.name.startswith(("series", "roll_up")):
        scalars |= {"queue": "queue1", "width": 60_000_000, "widths": "{1000000,60000000}"}
        scalars |= {"since": NOW + (2880 - BATCH) * 60_000_000, "before": NOW + (BATCH + 1) * 60_000_000}
    if statement.name == "recent_waits":
        scalars |= {"since": NOW, "limit": BATCH}
    if statement.name in ("dead_scanned", "dead_letters"):
        scalars |= {"finished": NOW + FINISHED, "skip": 10, "end": NOW, "queue": None, "tenant": None, "limit": BATCH}
    if statement.name == "last_errors":
        ids = column(connection, "SELECT id FROM windlass.task WHERE state = 'failed' LIMIT %s", BATCH)
        by_name["id"] = ids
    if statement.name == "complete":
        held = "SELECT id FROM windlass.leased WHERE session = %s AND NOT cancel_requested ORDER BY id LIMIT %s"
        by_name["id"] = column(connection, held, scalars["session"], BATCH)
        by_name["fence"] = [1] * len(cast("list[object]", by_name["id"]))
    if statement.name == "enqueue":
        scalars |= {"queue": "{default}", "tenant": "{default}", "band": "{0}", "rank": "{0}", "on_failure": "{cancel}"}
        scalars |= {"handler": "{work}", "rules": "{NULL}", "priority": "{0}", "kind": "{1}"}
        by_name |= {"args": ["1"] * BATCH, "part": [0] * BATCH}
    if statement.name == "enqueue_one":
        scalars |= {"band": 0, "rank": 0, "on_failure": "cancel", "kind": 1, "handler": "work", "args": "{}"}
        scalars |= {"rules": None, "notify": False}
    if statement.name in ("progress", "record_output"):
        holders = "SELECT session FROM windlass.leased WHERE id = ANY (%s) ORDER BY id"
        by_name["session"] = column(connection, holders, tasks)
    if statement.name in ("open_edges", "reach"):
        scalars["limit"] = 3
    if statement.name in ("ancestors", "prerequisites"):
        scalars["task"] = tasks[0]
    batch = [array(by_name.get(column.name) or by_type.get(column.type) or [1] * BATCH) for column in statement.batch]
    return [*batch, *({**scalars, **given}[name] for name in statement.scalars)]


def lanes_for(connection: psycopg.Connection[Any], statement: Statement) -> dict[str, list[object]]:
    """A batch for statements about lanes: one task each of tenants in a fair queue, or keys that hold back tasks."""
    if statement.name == "kind_candidates":
        return {"queue": ["default"] * KINDS, "lot": [0] * KINDS, "kind": list(range(KINDS)), "tasks": [BATCH] * KINDS}
    if statement.name in ("drop_parked", "put_parked", "ready_names", "buckets", "put_buckets"):
        keys = "SELECT queue, tenant, name, lot, ready FROM windlass.parked WHERE name <> '' ORDER BY name LIMIT %s"
        names: Sequence[str] = ("queue", "tenant", "name", "lot", "ready")
        rows = connection.execute(keys, [BATCH]).fetchall()
    else:
        tasks = """
        SELECT queue, lot, band, rank, tie, id, kind, tenant FROM (
               SELECT DISTINCT ON (r.lot) r.queue, r.lot, r.band, r.rank, r.tie, r.id, r.kind, t.tenant,
                      count(*) OVER (PARTITION BY r.lot) AS tasks
                 FROM windlass.runnable AS r JOIN windlass.task AS t ON t.id = r.id
                WHERE r.queue = 'fair' AND r.lot < 0 ORDER BY r.lot, r.tie) AS heads
         ORDER BY tasks DESC, lot LIMIT %s
        """
        names = ("queue", "lot", "band", "rank", "tie", "id", "kind", "tenant")
        rows = connection.execute(tasks, [BATCH]).fetchall()
    batch: dict[str, list[object]] = {
        name: list(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)
    }
    return {**batch, "target": [PARKED - 1] * len(rows)}


def column(connection: psycopg.Connection[Any], query: LiteralString, *values: object) -> list[Any]:
    return [value for (value,) in connection.execute(query, values)]


def array(values: Sequence[object]) -> str:
    return "{" + ",".join("NULL" if value is None else str(value) for value in values) + "}"


def walked(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every step of a plan."""
    yield plan
    for below in plan.get("Plans", ()):
        yield from walked(below)


def looked_at(node: dict[str, Any]) -> int:
    """How many rows a step went through, those that it left out included.

    PostgreSQL reports means per loop. Those of the rows left out are rounded to whole rows, also since 18, which rounds
    the rows returned to hundredths; so these count rounded, as before 18.
    """
    removed = sum(node.get(f"Rows Removed by {why}", 0) for why in ("Filter", "Index Recheck", "Join Filter"))
    return round((round(node["Actual Rows"]) + removed) * node["Actual Loops"])


BY_PLACE = "USING PRIMARY KEY (queue=? AND lot=? AND band=? AND rank=? AND tie=? AND id=?)"
STEPS_BETWEEN = "(workflow=? AND workflow_tenant=? AND (submitted,id)>(?,?) AND (submitted,id)<(?,?))"
# What a statement searches, as EXPLAIN QUERY PLAN reports it.
SEARCHES = {
    "claim": "r USING PRIMARY KEY (queue=? AND lot=?)",
    "kinds": "r USING INDEX runnable_kind (queue=? AND lot=? AND kind>?)",
    "claim_kinds": "r USING INDEX runnable_kind (queue=? AND lot=? AND kind=?)",
    "claim_guard": "p USING INDEX parked_lot (queue=?)",
    "governed_queue": "p USING PRIMARY KEY (queue=? AND tenant=? AND name=?)",
    "used_accounts": "a USING PRIMARY KEY (queue=? AND tenant=?)",
    "take_usage": "usage USING INDEX usage_queue (queue=?)",
    "next_accounts": "account USING INDEX account_turn (queue=? AND (charged,tenant)>(?,?))",
    "find_accounts": "account USING PRIMARY KEY (queue=? AND tenant=?)",
    "find_lanes": "r USING INDEX runnable_kind (queue=? AND lot>? AND lot<?)",
    "outside_lanes": "r USING PRIMARY KEY (queue=? AND lot>?)",
    "inside_lanes": "r USING PRIMARY KEY (queue=? AND lot>? AND lot<?)",
    "candidates": "r USING PRIMARY KEY (queue=? AND lot=?)",
    "kind_candidates": "r USING INDEX runnable_kind (queue=? AND lot=? AND kind=?)",
    "lane_kind_candidates": "r USING INDEX runnable_kind (queue=? AND lot=? AND kind=?)",
    "lane_kinds": "r USING INDEX runnable_kind (queue=? AND lot=? AND kind>?)",
    "claim_chosen": f"r {BY_PLACE}",
    "park": f"runnable {BY_PLACE}",
    "ready_lanes": "parked USING INDEX parked_ready (queue=? AND ready<?)",
    "drop_parked": "parked USING PRIMARY KEY (queue=? AND tenant=? AND name=?)",
    "parked_after": "p USING PRIMARY KEY ((queue,tenant,name)>(?,?,?))",
    "ready_names": "parked USING INDEX parked_name (name=?)",
    "running_limited": "leased USING INDEX leased_limited",
    "buckets": "bucket USING PRIMARY KEY (name=?)",
    "forget_accounts": "account USING INDEX account_idle (at<?)",
    "forget_buckets": "bucket USING INDEX bucket_full (full_at<?)",
    "rebase_accounts": "account USING PRIMARY KEY (queue=?)",
    "accounts": "account USING PRIMARY KEY (queue>? AND queue<?)",
    "pending_usage": "usage USING INDEX usage_queue (queue>? AND queue<?)",
    "queue_heads": "r USING INDEX runnable_oldest (queue=?)",
    "due_soon": "task USING INDEX task_due (due<?)",
    "audit": "audit USING INTEGER PRIMARY KEY (rowid<?)",
    "audit_of": "audit USING INDEX audit_subject (subject=? AND number<?)",
    "audit_under": "audit USING INDEX audit_kind (kind=? AND number<?)",
    "first_entries": "audit USING INTEGER PRIMARY KEY (rowid>?)",
    "take": f"runnable {BY_PLACE}",
    "lock_runnable": f"r {BY_PLACE}",
    "lock_runnable_skip": f"r {BY_PLACE}",
    "share_runnable": f"r {BY_PLACE}",
    "drop_runnable": f"runnable {BY_PLACE}",
    "add_runnable": "task USING PRIMARY KEY (id=?)",
    "lock_leased": "leased USING PRIMARY KEY (id=?)",
    "lock_leased_skip": "leased USING PRIMARY KEY (id=?)",
    "submit_runnable": "t USING PRIMARY KEY (id=?)",
    "share_leased": "leased USING PRIMARY KEY (id=?)",
    "end_leases": "leased USING PRIMARY KEY (id=?)",
    "request_cancel": "leased USING PRIMARY KEY (id=?)",
    "find_completed": "completed USING PRIMARY KEY (id=?)",
    "forget_completed": "completed USING PRIMARY KEY (id=?)",
    "get": "c USING PRIMARY KEY (id=?) LEFT-JOIN",
    "with_dependents": "edge EXISTS USING INDEX edge_parent (parent=?)",
    "lock_tasks": "task USING PRIMARY KEY (id=?)",
    "lock_tasks_skip": "task USING PRIMARY KEY (id=?)",
    "complete": "leased USING PRIMARY KEY (id=?)",
    "settle": "task USING PRIMARY KEY (id=?)",
    "move": "task USING PRIMARY KEY (id=?)",
    "progress": "leased USING PRIMARY KEY (id=?)",
    "record_output": "leased USING PRIMARY KEY (id=?)",
    "latest_output": "log USING PRIMARY KEY (task=?)",
    "set_place": "task USING PRIMARY KEY (id=?)",
    "set_waits": "task USING PRIMARY KEY (id=?)",
    "continue_as": "task USING PRIMARY KEY (id=?)",
    "added_steps": "e USING PRIMARY KEY (child=?)",
    "parents": "task USING PRIMARY KEY (id=?)",
    "announce": "e EXISTS USING INDEX edge_parent (parent=?)",
    "open_edges": "e USING INDEX edge_parent (parent=? AND child>?)",
    "reach": "edge USING INDEX edge_parent (parent=?)",
    "resolve_edges": "edge USING PRIMARY KEY (child=? AND parent=?)",
    "open_among": "edge USING PRIMARY KEY (child=? AND parent=?)",
    "due": "task USING INDEX task_due (due<?)",
    "next_due": "task USING INDEX task_due",
    "expired": "task USING INDEX task_expires (expires>? AND expires<?)",
    "cancelling": "leased USING INDEX leased_cancelling (session=?)",
    "late_cancels": "task USING INDEX task_cancel_by (cancel_by<?)",
    "finished_before": "task USING INDEX task_finished ((finished,id)>(?,?) AND finished<?)",
    "edges_after": "edge USING PRIMARY KEY ((child,parent)>(?,?))",
    "first_unfinished": f"b USING INDEX task_workflow {STEPS_BETWEEN}",
    "find": "t USING INDEX task_submitted ((submitted,id)>(?,?) AND (submitted,id)<(?,?))",
    "scanned": "task USING INDEX task_submitted (submitted>? AND (submitted,id)<(?,?))",
    "indexed_candidates": "task USING INDEX task_failed",
    "count_matching": "task USING INDEX task_submitted (submitted>? AND submitted<?)",
    "dead_groups": "task USING INDEX task_failed",
    "dead_scanned": "task USING INDEX task_failed ((finished,id)<(?,?))",
    "dead_letters": "task USING INDEX task_failed ((finished,id)>(?,?) AND (finished,id)<(?,?))",
    "last_errors": "t USING PRIMARY KEY (id=?)",
    "step_list": f"b USING INDEX task_workflow {STEPS_BETWEEN}",
    "step_scanned": "task USING INDEX task_workflow (workflow=? AND workflow_tenant=? AND (submitted,id)>(?,?))",
    "step_groups": f"b USING INDEX task_workflow {STEPS_BETWEEN}",
    "step_edges": "task USING INDEX task_workflow (workflow=? AND workflow_tenant=? AND (submitted,id)>(?,?))",
    "series": "series USING INDEX series_at (width=? AND at>?)",
    "series_of": "series USING INDEX series_queue (queue=? AND width=? AND at>?)",
    "roll_up_series": "series USING INDEX series_at (width=? AND at<?)",
    "recent_waits": "completed USING INDEX completed_finished (finished>?)",
    "workflow_list": "task USING INDEX task_workflow_newest ((submitted,workflow,workflow_tenant)<(?,?,?))",
    "workflow_tenants": "task USING INDEX task_workflow (workflow=?)",
}


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    path = tmp_path_factory.mktemp("plans") / "windlass.db"
    SQLiteStore(path).close()
    connection = apsw.Connection(str(path))
    connection.create_scalar_function("lane", lane_of, 1, deterministic=True)
    yield connection
    connection.close()


def sqlite_statements() -> dict[str, Statement]:
    return {**load("sqlite", "?"), **load("sqlite", "?", folder="parts")}


def query_plan(connection: apsw.Connection, name: str) -> list[str]:
    statement = sqlite_statements()[name]
    values = [1] * (len(statement.batch) + len(statement.scalars))
    return [line for *_, line in connection.execute(f"EXPLAIN QUERY PLAN {statement.text}", values)]


@pytest.mark.parametrize("name", SEARCHES)
def test_sqlite_goes_by_the_right_index(sqlite: apsw.Connection, name: str) -> None:
    plan = query_plan(sqlite, name)

    searched = {re.sub("^(SEARCH|SCAN) ", "", line).replace("COVERING ", "") for line in plan}
    # In a table that is stored in the order of batches, the primary key is an index with a name of SQLite's own.
    searched = {re.sub(r"INDEX sqlite_autoindex_\w+_1\b", "PRIMARY KEY", line) for line in searched}
    assert SEARCHES[name] in searched, plan


def test_sqlite_walks_from_workflow_to_workflow_and_not_from_task_to_task(sqlite: apsw.Connection) -> None:
    walks = [line for line in query_plan(sqlite, "workflow_list") if "task_workflow_newest" in line]

    assert len(walks) == 2
    assert all("((submitted,workflow,workflow_tenant)<(?,?,?))" in line for line in walks), walks


def test_sqlite_reads_no_large_table_whole_and_sorts_nothing_that_grows(sqlite: apsw.Connection) -> None:
    plans = {name: query_plan(sqlite, name) for name in sqlite_statements()}

    whole = re.compile(rf"SCAN ({'|'.join(LARGE)}|[tbrcpl])( |$)(?!USING)|SCAN t USING|MATERIALIZE current_task")
    # `leased` has as many rows as tasks are running. The searches stop at a limit.
    scans = {name: {line for line in plan if whole.match(line)} for name, plan in plans.items()}
    assert {name: lines for name, lines in scans.items() if lines} == {
        "forget_sessions": {"SCAN l"},
        "held": {"SCAN l"},
        "lost_leases": {"SCAN l"},
        "running": {"SCAN leased"},
        "count_leases": {"SCAN leased"},
        "count_matching": {"SCAN leased", "SCAN runnable"},
        "indexed_candidates": {"SCAN leased", "SCAN runnable"},
    }
    # `dead_groups` sorts the tasks that it looks at, `finished_before` two pages, `used_accounts` the tenants whose
    # attempts have ended since the last claim, `count_ahead` up to its limit of lanes, `attempts` and
    # `logs` what is kept of one task: their numbers are bounded.
    sorted_ones = {name for name, plan in plans.items() if any("TEMP B-TREE FOR ORDER BY" in line for line in plan)}
    assert sorted_ones == {"dead_groups", "finished_before", "used_accounts", "count_ahead", "attempts", "logs"}
