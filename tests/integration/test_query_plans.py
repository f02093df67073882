"""How the databases go about our statements when the tables are large: by which index, and past how many rows.

PostgreSQL is asked on tables of hundreds of thousands of rows, of which few are of interest, each statement with a plan
for its very values and with one for any values, as a prepared statement gets after a while. SQLite keeps no statistics,
so its plans are the same on empty tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, LiteralString, cast

import apsw
import psycopg
import pytest
from msgspec import Struct
from psycopg import sql

from tests.support.servers import PostgresServer
from windlass.stores.postgres import PostgresStore
from windlass.stores.protocol import SCANNED
from windlass.stores.sqlite import SQLiteStore
from windlass.stores.statements import Statement, load

NOW = 1_800_000_000_000_000
FINISHED, RUNNABLE, WAITING, SCHEDULED, LEASED = 300_000, 50_000, 10_000, 10_000, 500
TOTAL = FINISHED + RUNNABLE + WAITING + SCHEDULED + LEASED
BATCH = 100
KINDS = 10
"""How many kinds are asked for, of 20 that there are."""
NOBODY = "00000000-0000-0000-0000-000000000000"
LARGE = ("task", "body", "edge", "result", "attempt", "audit", "bulk_task", "series")
"""The tables that grow with the number of tasks, decisions, or queues; none of them may ever be read whole."""
ENTRIES = 100_000
SERIES_QUEUES = 20

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
                               session, claimed, finished, cancel_by, kind, error_group)
    SELECT id, CASE WHEN n % 3 > 0 THEN 'default' ELSE 'other' || n % 7 END, 'tenant' || n % 50, state,
           -(n % 10), 9223372036854775807, {NOW} + n, {NOW} + n, CASE WHEN n % 50 = 0 THEN {NOW} + n END,
           CASE state WHEN 'waiting' THEN 2 ELSE 0 END, 'cancel', 1,
           CASE state WHEN 'leased' THEN md5('session' || n % 20)::uuid END, CASE state WHEN 'leased' THEN 1 END,
           CASE WHEN state IN ('completed', 'failed') THEN {NOW} + n END,
           CASE WHEN state = 'leased' AND n % 10 = 0 THEN {NOW} + n END, n % 20,
           CASE state WHEN 'failed' THEN 'aaaaaaa' || n / 100 % 3 END
      FROM numbered
    """,
    f"""
    INSERT INTO windlass.body (id, handler, args, rules, workflow, workflow_tenant, priority, first_due, submitted)
    SELECT id, 'work', '{{}}', CASE WHEN n % 100 < 10 THEN '{{"downstream":"payments"}}' END,
           CASE WHEN n % 2 = 0 THEN 'w' || n % 5000 END, CASE WHEN n % 2 = 0 THEN 'tenant' || n % 50 END,
           n % 10, {NOW} + n, {NOW} + n
      FROM numbered
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
    *(f"VACUUM (ANALYZE) windlass.{table}" for table in (*LARGE, "ended")),
]


class Expected(Struct, frozen=True):
    """What a statement may do: the indexes that it must go by, a bar between equally good ones, and how far."""

    uses: str = ""
    rows: int = BATCH
    """Of the large tables, those passed over included."""
    pages: int = 20 * BATCH
    """Of all tables and indexes."""


WRITES = Expected(rows=0)
TASKS = Expected("task_pkey")
PLANS = {
    # What runs all the time.
    "claim": Expected("task_runnable body_pkey", rows=2 * BATCH + 20, pages=8 * BATCH),
    "kinds": Expected("task_kind body_pkey", rows=2 * 20 + 1, pages=20 * 20),
    "claim_kinds": Expected("task_kind task_pkey body_pkey", rows=(KINDS + 3) * BATCH, pages=3 * KINDS * BATCH),
    "lease": TASKS,
    "complete": Expected("task_pkey", rows=2 * BATCH),
    "lock_tasks": TASKS,
    "settle": TASKS,
    "record_attempts": WRITES,
    "record_results": WRITES,
    "announce": Expected("edge_open"),
    "open_edges": Expected("edge_open", rows=3 * BATCH),
    "reach": Expected("edge_open task_pkey", rows=6 * BATCH),
    "resolve_edges": Expected("edge_pkey|edge_parent"),
    "move": TASKS,
    "parents": Expected("task_pkey body_pkey", rows=2 * BATCH),
    "peek_parents": Expected("task_pkey body_pkey", rows=2 * BATCH),
    "submit": WRITES,
    "submit_bodies": WRITES,
    "submit_edges": WRITES,
    "progress": TASKS,
    "cancelling": Expected("task_held", rows=LEASED),
    "held": Expected("task_held"),
    # What the autoscaler looks at.
    "queue_heads": Expected("task_oldest", rows=1, pages=20),
    "due_soon": Expected("task_due", rows=BATCH),
    "note": WRITES,
    # The sweep.
    "lock_tasks_skip": TASKS,
    "lost_leases": Expected("task_held", rows=LEASED),
    "late_cancels": Expected("task_cancel_by"),
    "bump_fences": TASKS,
    "expired": Expected("task_expires", rows=2 * BATCH),
    "due": Expected("task_due"),
    "next_due": Expected("task_due", rows=1),
    "open_prerequisites": Expected("edge_pkey", rows=3 * BATCH),
    "edges_after": Expected("edge_pkey task_pkey", rows=2 * BATCH),
    "finished_before": Expected("task_finished body_pkey", rows=10 * BATCH),
    "workflow_is_busy": Expected("body_workflow task_pkey", rows=3 * BATCH),
    "workflow_edges": Expected("body_workflow task_pkey edge_pkey", rows=3 * BATCH),
    "unnotified": Expected("edge_open"),
    "forget_sessions": Expected("task_held", rows=LEASED),
    "forget_tasks": TASKS,
    "forget_bodies": Expected("body_pkey"),
    "forget_results": Expected("result_pkey"),
    "forget_attempts": Expected("attempt_pkey"),
    "forget_edges": Expected("edge_pkey edge_parent", rows=10 * BATCH),
    # What people look at and change.
    "keys": Expected("body_pkey", rows=BATCH),
    "get": Expected("task_pkey body_pkey result_pkey", rows=3 * BATCH),
    "find": Expected("body_submitted task_pkey", rows=2 * SCANNED + BATCH, pages=6 * SCANNED),
    "scanned": Expected("body_submitted", rows=SCANNED + 1, pages=SCANNED),
    "indexed_candidates": Expected(
        "task_failed task_due task_runnable|task_oldest body_workflow body_pkey", rows=6 * BATCH
    ),
    "count_matching": Expected(
        "task_failed task_due task_runnable|task_oldest body_workflow body_submitted task_pkey body_pkey",
        rows=9 * BATCH,
    ),
    "dead_groups": Expected("task_failed body_pkey", rows=3 * BATCH + 1),
    "dead_scanned": Expected("task_failed", rows=20),
    "dead_letters": Expected("task_failed", rows=SCANNED, pages=2 * SCANNED),
    "last_errors": Expected("task_pkey attempt_pkey", rows=2 * BATCH),
    "set_error_group": TASKS,
    "step_list": Expected("body_workflow task_pkey", rows=2 * BATCH),
    "step_scanned": Expected("body_workflow"),
    "step_groups": Expected("body_workflow task_pkey", rows=2 * BATCH),
    "step_edges": Expected("body_workflow edge_pkey body_pkey", rows=3 * BATCH),
    "workflow_list": Expected("body_workflow_newest body_workflow", rows=3 * BATCH),
    "workflow_tenants": Expected("body_workflow", rows=2),
    "amend_body": Expected("body_pkey"),
    "set_place": TASKS,
    "attempts": Expected("attempt_pkey task_pkey"),
    "prerequisites": Expected("edge_pkey task_pkey"),
    "dependents": Expected("edge_parent task_pkey", rows=2 * BATCH),
    "ancestors": Expected("edge_pkey"),
    "resolved_edges": Expected("edge_pkey", rows=3 * BATCH),
    "failed_by_cycle": Expected("task_pkey body_pkey", rows=3 * BATCH),
    "reopen_edges": Expected("edge_pkey|edge_parent"),
    "add_to_bulk": TASKS,
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
    "count_ahead": Expected("task_pkey task_runnable", rows=BATCH + 1),
    "first_entries": Expected("audit_pkey"),
    "forget_entries": Expected("audit_pkey"),
    "record_series": WRITES,
    "roll_up_series": Expected("series_at", rows=2 * BATCH),
    "series": Expected("series_at", rows=2 * SERIES_QUEUES * BATCH),
    "series_of": Expected("series_queue", rows=2 * BATCH),
}
ABOUT = {
    "lease": "runnable",
    "complete": "leased",
    "settle": "leased",
    "progress": "leased",
    "bump_fences": "leased",
    "move": "scheduled",
    "unnotified": "runnable",
    "forget_tasks": "completed",
    "forget_bodies": "completed",
    "forget_results": "completed",
    "forget_attempts": "completed",
    "forget_edges": "completed",
}
"""The state of the tasks that are given to a statement, where it is not `waiting`."""


def test_every_statement_on_a_large_table_is_looked_at_here() -> None:
    touches = re.compile(rf"\bwindlass\.({'|'.join(LARGE)})\b")

    large = {name for name, statement in load("postgres", "$").items() if touches.search(statement.text)}

    assert large == PLANS.keys()


@pytest.fixture(scope="module")
def large(postgres_server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    """A database with very many tasks, of which few are unfinished."""
    name = postgres_server.create_database()
    url = postgres_server.url(name)
    PostgresStore(url).close()
    with psycopg.connect(url, autocommit=True) as connection:
        for table in LARGE:  # Quicker to fill, and planned alike.
            connection.execute(sql.SQL("ALTER TABLE windlass.{} SET UNLOGGED").format(sql.Identifier(table)))
        for statement in FILL:
            connection.execute(cast("LiteralString", statement))
        yield connection
    postgres_server.drop_database(name)


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
    assert "Seq Scan" not in {node["Node Type"] for node in reads}, found
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


def explained(
    connection: psycopg.Connection[Any], statement: Statement, mode: str, arguments: sql.Composable
) -> dict[str, Any]:
    """Run a statement on values that it might get, and roll it back; how it was gone about."""
    with connection.transaction(force_rollback=True):
        connection.execute("DEALLOCATE ALL")
        connection.execute("SELECT set_config('plan_cache_mode', %s, true)", [mode])
        connection.execute(cast("LiteralString", f"PREPARE asked AS {statement.text}"))
        explain = sql.SQL("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE asked") + arguments
        [([answer],)] = connection.execute(explain).fetchall()
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
    tasks = column(connection, "SELECT id FROM windlass.task WHERE state = %s ORDER BY id LIMIT %s", state, BATCH)
    ids = tasks
    if statement.name.startswith(("submit", "record")):
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
        "finished": [None] * BATCH,
        **given,
    }
    by_type = {"uuid": ids, "text": ["any"] * BATCH, "boolean": [False] * BATCH}
    scalars: dict[str, object] = {
        "queue": "default",
        "session": column(connection, "SELECT id FROM windlass.session WHERE NOT lost ORDER BY id")[0],
        "now": NOW + TOTAL,
        "age": 1,
        "limit": BATCH,
        "limit_time": NOW + FINISHED,
        "task": column(connection, "SELECT md5(%s)::uuid", str(FINISHED + 1))[0],
        "child": NOBODY,
        "parent": NOBODY,
        "id": NOBODY,
        "finished": 0,
        "priority": 1,
        "deadline": None,
        "first_due": 1,
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
        "after": NOBODY,
        "last": "01000000-0000-0000-0000-000000000000",
    }
    if statement.name == "claim_kinds":
        by_name = {"queue": ["default"] * KINDS, "kind": list(range(KINDS)), **by_name}
    if statement.name.startswith("step"):
        scalars |= {"workflow": "w0", "tenant": "tenant0", "submitted": 0, "end": 2 * NOW, "states": None, "skip": 10}
    if statement.name.startswith(("series", "roll_up")):
        scalars |= {"queue": "queue1", "width": 60_000_000, "widths": "{1000000,60000000}"}
        scalars |= {"since": NOW + (2880 - BATCH) * 60_000_000, "before": NOW + (BATCH + 1) * 60_000_000}
    if statement.name in ("dead_scanned", "dead_letters"):
        scalars |= {"finished": NOW + FINISHED, "skip": 10, "end": NOW, "queue": None, "tenant": None, "limit": BATCH}
    if statement.name == "last_errors":
        ids = column(connection, "SELECT id FROM windlass.task WHERE state = 'failed' LIMIT %s", BATCH)
        by_name["id"] = ids
    if statement.name in ("open_edges", "reach"):
        scalars["limit"] = 3
    if statement.name in ("ancestors", "prerequisites"):
        scalars["task"] = tasks[0]
    batch = [array(by_name.get(column.name) or by_type.get(column.type) or [1] * BATCH) for column in statement.batch]
    return [*batch, *({**scalars, **given}[name] for name in statement.scalars)]


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
    """How many rows a step went through, those that it left out included."""
    removed = sum(node.get(f"Rows Removed by {why}", 0) for why in ("Filter", "Index Recheck", "Join Filter"))
    return round((node["Actual Rows"] + removed) * node["Actual Loops"])


STEPS_BETWEEN = "(workflow=? AND workflow_tenant=? AND (submitted,id)>(?,?) AND (submitted,id)<(?,?))"
# What a statement searches, as EXPLAIN QUERY PLAN reports it.
SEARCHES = {
    "claim": "t USING INDEX task_runnable (queue=?)",
    "kinds": "t USING INDEX task_kind (queue=? AND kind>?)",
    "claim_kinds": "t USING INDEX task_kind (queue=? AND kind=?)",
    "queue_heads": "t USING INDEX task_oldest (queue=?)",
    "due_soon": "task USING INDEX task_due (due<?)",
    "audit": "audit USING INTEGER PRIMARY KEY (rowid<?)",
    "audit_of": "audit USING INDEX audit_subject (subject=? AND number<?)",
    "audit_under": "audit USING INDEX audit_kind (kind=? AND number<?)",
    "first_entries": "audit USING INTEGER PRIMARY KEY (rowid>?)",
    "lease": "task USING PRIMARY KEY (id=?)",
    "lock_tasks": "task USING PRIMARY KEY (id=?)",
    "lock_tasks_skip": "task USING PRIMARY KEY (id=?)",
    "complete": "task USING PRIMARY KEY (id=?)",
    "settle": "task USING PRIMARY KEY (id=?)",
    "move": "task USING PRIMARY KEY (id=?)",
    "progress": "task USING PRIMARY KEY (id=?)",
    "set_place": "task USING PRIMARY KEY (id=?)",
    "parents": "t USING PRIMARY KEY (id=?)",
    "announce": "e EXISTS USING INDEX edge_parent (parent=?)",
    "open_edges": "e USING INDEX edge_parent (parent=? AND child>?)",
    "reach": "edge USING INDEX edge_parent (parent=?)",
    "resolve_edges": "edge USING PRIMARY KEY (child=? AND parent=?)",
    "due": "task USING INDEX task_due (due<?)",
    "next_due": "task USING INDEX task_due",
    "expired": "task USING INDEX task_expires (expires>? AND expires<?)",
    "lost_leases": "t USING INDEX task_held",
    "held": "t USING INDEX task_held (session=?)",
    "cancelling": "task USING INDEX task_held (session=?)",
    "late_cancels": "task USING INDEX task_cancel_by (cancel_by<?)",
    "finished_before": "t USING INDEX task_finished ((finished,id)>(?,?) AND finished<?)",
    "edges_after": "edge USING PRIMARY KEY ((child,parent)>(?,?))",
    "workflow_is_busy": "b USING INDEX body_workflow (workflow=? AND workflow_tenant=?)",
    "find": "b USING INDEX body_submitted ((submitted,id)>(?,?) AND (submitted,id)<(?,?))",
    "scanned": "body USING INDEX body_submitted (submitted>? AND (submitted,id)<(?,?))",
    "indexed_candidates": "task USING INDEX task_failed",
    "count_matching": "body USING INDEX body_submitted (submitted>? AND submitted<?)",
    "dead_groups": "task USING INDEX task_failed",
    "dead_scanned": "task USING INDEX task_failed ((finished,id)<(?,?))",
    "dead_letters": "task USING INDEX task_failed ((finished,id)>(?,?) AND (finished,id)<(?,?))",
    "last_errors": "task USING PRIMARY KEY (id=?)",
    "step_list": f"b USING INDEX body_workflow {STEPS_BETWEEN}",
    "step_scanned": "body USING INDEX body_workflow (workflow=? AND workflow_tenant=? AND (submitted,id)>(?,?))",
    "step_groups": f"b USING INDEX body_workflow {STEPS_BETWEEN}",
    "step_edges": "body USING INDEX body_workflow (workflow=? AND workflow_tenant=? AND (submitted,id)>(?,?))",
    "series": "series USING INDEX series_at (width=? AND at>?)",
    "series_of": "series USING INDEX series_queue (queue=? AND width=? AND at>?)",
    "roll_up_series": "series USING INDEX series_at (width=? AND at<?)",
    "workflow_list": "body USING INDEX body_workflow_newest ((submitted,workflow,workflow_tenant)<(?,?,?))",
    "workflow_tenants": "body USING INDEX body_workflow (workflow=?)",
}


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    path = tmp_path_factory.mktemp("plans") / "windlass.db"
    SQLiteStore(path).close()
    connection = apsw.Connection(str(path))
    yield connection
    connection.close()


def query_plan(connection: apsw.Connection, name: str) -> list[str]:
    statement = load("sqlite", "?")[name]
    values = [1] * (len(statement.batch) + len(statement.scalars))
    return [line for *_, line in connection.execute(f"EXPLAIN QUERY PLAN {statement.text}", values)]


@pytest.mark.parametrize("name", SEARCHES)
def test_sqlite_goes_by_the_right_index(sqlite: apsw.Connection, name: str) -> None:
    plan = query_plan(sqlite, name)

    searched = {re.sub("^(SEARCH|SCAN) ", "", line).replace("COVERING ", "") for line in plan}
    assert SEARCHES[name] in searched, plan


def test_sqlite_walks_from_workflow_to_workflow_and_not_from_task_to_task(sqlite: apsw.Connection) -> None:
    walks = [line for line in query_plan(sqlite, "workflow_list") if "body_workflow_newest" in line]

    assert len(walks) == 2
    assert all("((submitted,workflow,workflow_tenant)<(?,?,?))" in line for line in walks), walks


def test_sqlite_reads_no_large_table_whole_and_sorts_nothing_that_grows(sqlite: apsw.Connection) -> None:
    plans = {name: query_plan(sqlite, name) for name in load("sqlite", "?")}

    whole = re.compile(rf"SCAN ({'|'.join(LARGE)}|[tbrcp])( |$)(?!USING)")
    assert {name: plan for name, plan in plans.items() if any(map(whole.match, plan))} == {}
    # `dead_groups` sorts the tasks that it looks at, whose number is bounded.
    sorted_ones = {name for name, plan in plans.items() if any("TEMP B-TREE FOR ORDER BY" in line for line in plan)}
    assert sorted_ones == {"dead_groups"}
