"""How PostgreSQL goes about our statements when its statistics mislead it, or the data are as lopsided as real data.

One queue and one tenant have everything, or a fair queue has very many tenants. The hot tables (`runnable`, `leased`,
`completed`) are full, or empty and full of dead rows, while plans were made, or statistics gathered, when they were
empty. A plan is made for the values at hand (custom), for any values (generic), or was made when the database was new
and is still in use (old).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, LiteralString, cast
from uuid import UUID
from zlib import crc32

import psycopg
import pytest
from msgspec import Struct
from psycopg import IsolationLevel, sql

from tests.integration.test_query_plans import BATCH, LARGE, NOW, arguments_for, fill_lanes, looked_at, walked
from tests.support.builders import SECOND, a_task
from tests.support.servers import PostgresServer
from windlass.stores.postgres import PostgresStore, database
from windlass.stores.postgres.database import PLANNING, REPLAN_EVERY
from windlass.stores.statements import Statement, load

MANY = 40_000
"""Enough to make the indexes of a table differ in height: without statistics, the planner prefers a low one."""
FEW = 200
LANES = 10_000
HOT = ("runnable", "leased", "completed")
LANED = ("account", "usage", "parked", "bucket")
TABLES = (*LARGE, "ended", "joining")
STATES = ("runnable", "leased", "waiting", "scheduled", "retrying", "completed", "failed")
ROWS = 12 * BATCH
"""The most rows of large tables that a statement may read for a batch, those passed over included."""
PAGES = 50 * BATCH
"""The most pages of tables and indexes that a statement may touch for a batch. Each row that it writes is in some
indexes, of up to four levels."""

NOT_HERE = {"find", "scanned", "dead_letters", "count_bulk"}
"""What people search for: how far these look is bounded by a budget of their own (`test_query_plans`)."""
HOT_PATH = {
    "add_runnable",
    "cancelling",
    "claim",
    "claim_kinds",
    "complete",
    "drop_runnable",
    "end_leases",
    "enqueue",
    "enqueue_one",
    "find_completed",
    "get",
    "kinds",
    "lock_leased",
    "lock_leased_skip",
    "lock_runnable",
    "lock_runnable_skip",
    "lock_tasks",
    "lock_tasks_skip",
    "parents",
    "peek_parents",
    "progress",
    "queue_heads",
    "reach",
    "request_cancel",
    "share_leased",
    "share_runnable",
    "submit",
    # Claims of fair queues, and under limits.
    "buckets",
    "candidates",
    "claim_chosen",
    "claim_guard",
    "drop_parked",
    "find_accounts",
    "find_lanes",
    "governed_queue",
    "kind_candidates",
    "lane_kind_candidates",
    "lane_kinds",
    "next_accounts",
    "outside_lanes",
    "park",
    "put_accounts",
    "put_buckets",
    "put_parked",
    "ready_lanes",
    "ready_names",
    "record_usage",
    "running_limited",
    "take_usage",
    "used_accounts",
}
"""What must be quick at any time. The old plans of other statements are bad for `database.REPLAN_EVERY` at most."""
ALL_LEASES = {"held", "lost_leases", "forget_sessions", "running", "running_limited", "count_leases"}
"""What reads all leases, which are as many as tasks are running."""
ALL_ACCOUNTS = {"accounts", "rebase_accounts"}
"""What reads all accounts of a queue, for people or once in very many claims."""
DEAD_ENTRIES = {"count_matching", "indexed_candidates", "rescue", "kind_candidates"}
"""What passes over the dead entries of hot tables: searches for all runnable or leased tasks, up to a limit, and the
search for tasks that no claim can see, which waits a hundred times as long as it took (`claim_partitions`). The claim
is given a partition here that is empty and no longer known."""


def id_of(name: str, number: str = "n") -> str:
    """The id of a task by what it is called and its number, as SQL; in order, because that is quicker to load."""
    return f"('{UUID(int=crc32(name.encode()) << 96).hex[:8]}' || lpad(to_hex({number}), 24, '0'))::uuid"


def tasks(state: str, count: int, name: str = "") -> list[str]:
    """Tasks of a state, named by their state and a number."""
    name = name or state
    numbers = f"generate_series(1, {count}) AS n"
    task = f"""
    INSERT INTO windlass.task (id, queue, tenant, state, band, rank, tie, due, waiting, on_failure, fence, finished,
                               expires, cancel_by, kind, error_group, handler, args, workflow, workflow_tenant,
                               priority, first_due, submitted)
    SELECT {id_of(name)}, 'default', 'default', '{"queued" if state in HOT else state}', 0, 9223372036854775807,
           {NOW} + n, {NOW} + n, {int(state == "waiting")}, 'cancel', 1,
           {f"{NOW} + n" if state == "failed" else "NULL"}, CASE WHEN n % 500 = 0 THEN {NOW} + n END,
           CASE WHEN n % 10 = 0 AND '{state}' = 'leased' THEN {NOW} + n END, {2 if name == "parent" else 1},
           {"'aaaaaaa1'" if state == "failed" else "NULL"}, 'work', '{{}}', CASE WHEN n <= 20 THEN 'w4' END,
           CASE WHEN n <= 20 THEN 'default' END, 0, {NOW} + n, {NOW} + n
      FROM {numbers}
    """
    hot = {
        "runnable": f"""
    INSERT INTO windlass.runnable (queue, band, rank, tie, id, kind, due, expires)
    SELECT 'default', 0, 9223372036854775807, {NOW} + n, {id_of(name)}, {2 if name == "parent" else 1}, {NOW} + n,
           CASE WHEN n % 500 = 0 THEN {NOW} + n END
      FROM {numbers}
    """,
        "leased": f"""
    INSERT INTO windlass.leased (id, fence, session, claimed, queue, tenant, handler, cancel_requested)
    SELECT {id_of(name)}, 1, md5('session' || n % 3)::uuid, 1, 'default', 'default', 'work', n % 100 = 0 FROM {numbers}
    """,
        "completed": f"""
    INSERT INTO windlass.completed (id, fence, session, claimed, finished)
    SELECT {id_of(name)}, 1, md5('session' || n % 3)::uuid, 1, {NOW} + n FROM {numbers}
    """,
    }
    return [task, *([hot[state]] if state in hot else [])]


class Shape(Struct, frozen=True):
    """How a database came to be as it is."""

    fill: Sequence[str] = ()
    analyzed_when_new: bool = False
    pinned: bool = False
    """A transaction is open from before the fill, so that no dead row can be removed."""


VERY_MANY_HOT = [statement for state in HOT for statement in tasks(state, MANY, f"many {state}")]
VERY_MANY_LANES = [
    "TRUNCATE windlass.account, windlass.usage, windlass.parked, windlass.bucket",
    "DROP TABLE laned",
    "DELETE FROM windlass.task WHERE queue IN ('fair', 'keyed')",
    "DELETE FROM windlass.runnable WHERE queue IN ('fair', 'keyed')",
    *fill_lanes(LANES, LANES, LANES, 2 * LANES)[1:],
]
SHAPES = {
    "very many lanes": Shape(VERY_MANY_LANES),
    "very many lanes, analyzed when it was empty": Shape(VERY_MANY_LANES, analyzed_when_new=True),
    "very many hot tasks": Shape(VERY_MANY_HOT),
    "very many hot tasks, analyzed when it was empty": Shape(VERY_MANY_HOT, analyzed_when_new=True),
    # As after a long drain: the old partition is empty and gone, the tasks that are left are in the new one.
    "very many dead rows": Shape(
        [
            "UPDATE windlass.task SET lot = 1 WHERE state = 'queued' AND queue = 'default'",
            "UPDATE windlass.runnable SET lot = 1 WHERE queue = 'default'",
            "INSERT INTO windlass.lot (queue, number) VALUES ('default', 1)",
            *VERY_MANY_HOT,
            *(
                f"DELETE FROM windlass.{state} WHERE id > {id_of(f'many {state}', '0')}"
                + (f" AND id <= {id_of(f'many {state}', str(MANY))}")
                for state in HOT
            ),
            *(
                f"DELETE FROM windlass.task WHERE id > {id_of(f'many {state}', '0')}"
                + (f" AND id <= {id_of(f'many {state}', str(MANY))}")
                for state in HOT
            ),
        ],
        analyzed_when_new=True,
        pinned=True,
    ),
    "one parent with very many children": Shape(
        [
            *tasks("waiting", MANY, "child"),
            f"""
        INSERT INTO windlass.edge (child, parent, resolved)
        SELECT {id_of("child")}, {id_of("leased", "1")}, false FROM generate_series(1, {MANY}) AS n
        """,
        ]
    ),
    "one parent whose very many children are finished": Shape(
        [
            *tasks("completed", MANY, "child"),
            f"""
        INSERT INTO windlass.edge (child, parent, resolved)
        SELECT {id_of("child")}, {id_of("leased", "1")}, true FROM generate_series(1, {MANY}) AS n
        """,
            f"""
        INSERT INTO windlass.ended (parent, how)
        SELECT {id_of("child")}, 'completed' FROM generate_series(1, {MANY}) AS n
        """,
        ]
    ),
    "very many dead letters": Shape(tasks("failed", MANY, "dead")),
    # They are of another kind than the one that is asked for, and most of them stand before it.
    "very many runnable parents with one child": Shape(
        [
            *tasks("runnable", MANY, "parent"),
            f"""
        INSERT INTO windlass.edge (child, parent, resolved)
        SELECT {id_of("child")}, {id_of("parent")}, false FROM generate_series(1, {MANY}) AS n
        """,
        ]
    ),
}
BASE = [
    f"""
    INSERT INTO windlass.session (id, node, ttl, renewed, boot, lost)
    SELECT md5('session' || n)::uuid, 'node', 15000000, {NOW}, '', n = 0 FROM generate_series(0, 2) AS n
    """,
    *(statement for state in STATES for statement in tasks(state, FEW)),
    *fill_lanes(FEW, FEW, FEW, 2 * FEW),
    f"""
    INSERT INTO windlass.edge (child, parent, resolved)
    SELECT {id_of("waiting")}, {id_of("runnable")}, false FROM generate_series(1, {FEW}) AS n
    """,
]


@pytest.fixture(params=SHAPES)
def shape(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def skewed(shape: str, postgres_server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    """A database of a shape. Every statement was prepared when it was new, and is still."""
    name = postgres_server.create_database()
    url = postgres_server.url(name)
    PostgresStore(url).close()
    how = SHAPES[shape]
    with psycopg.connect(url, autocommit=True) as connection, psycopg.connect(url) as other:
        for table in TABLES:
            statement = sql.SQL("ALTER TABLE windlass.{} SET UNLOGGED, SET (autovacuum_enabled = false)")
            connection.execute(statement.format(sql.Identifier(table)))
        connection.prepare_threshold = None  # With its own prepared statements, psycopg would drop ours too.
        if how.analyzed_when_new:
            for table in (*HOT, *LANED):
                connection.execute(sql.SQL("VACUUM (ANALYZE) windlass.{}").format(sql.Identifier(table)))
        for setting, value in {**PLANNING, "plan_cache_mode": "force_generic_plan"}.items():
            connection.execute("SELECT set_config(%s, %s, false)", [setting, value])
        for each in statements():
            connection.execute(cast("LiteralString", f"PREPARE old_{each.name} AS {each.text}"))
            nothing = sql.SQL(", ").join([sql.NULL] * (len(each.batch) + len(each.scalars)))
            plan = sql.SQL("EXPLAIN EXECUTE {}").format(sql.Identifier(f"old_{each.name}"))
            connection.execute(plan + sql.SQL("({})").format(nothing) if each.batch or each.scalars else plan)
        other.isolation_level = IsolationLevel.REPEATABLE_READ
        if how.pinned:
            other.execute("SELECT 1")
        for statement in (*BASE, *how.fill):
            connection.execute(cast("LiteralString", statement))
        yield connection
    postgres_server.drop_database(name)


def statements() -> list[Statement]:
    """Every statement that reads a large table, but for those whose reach has a budget of its own."""
    found = [statement for name, statement in load("postgres", "$").items() if name not in NOT_HERE]
    found += [*load("postgres", "$", folder="shortcuts").values()]
    upkeep = load("postgres", "$", folder="upkeep")
    found += [upkeep[name] for name in ("closed_lots", "merge_lot", "rescue")]
    tables = (*TABLES, "current_task")
    return [statement for statement in found if any(f"windlass.{table}" in statement.text for table in tables)]


def test_a_connection_forgets_its_plans_after_a_while(migrated_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = PostgresStore(migrated_url, connections=1)
    times = (1000, 999 + REPLAN_EVERY, 1001 + REPLAN_EVERY, 1002 + REPLAN_EVERY)
    sent: list[bool] = []
    execute = psycopg.Connection.execute

    def seen(self: psycopg.Connection[Any], query: Any, *args: Any, **more: Any) -> Any:
        if query == "DISCARD PLANS":
            sent[-1] = True
        return execute(self, query, *args, **more)

    monkeypatch.setattr(psycopg.Connection, "execute", seen)
    store._db._planned.clear()
    for at in times:
        sent.append(False)
        with monkeypatch.context() as patch:
            patch.setattr(database, "monotonic", lambda at=at: at)
            store.submit([a_task(deadline=SECOND)])
    store.close()

    assert sent == [False, False, True, False]


@pytest.mark.slow
def test_no_statement_reads_a_large_table_whole_whatever_the_planner_believes(
    skewed: psycopg.Connection[Any], shape: str
) -> None:
    asked = [(each, arguments_for(skewed, each, **given_to(each, shape))) for each in statements()]

    hot = [(each, arguments) for each, arguments in asked if each.name in HOT_PATH]
    faults = looked_over(skewed, hot, shape, "old")
    faults += looked_over(skewed, asked, shape, "custom")
    faults += looked_over(skewed, asked, shape, "generic")
    for table in TABLES:
        skewed.execute(sql.SQL("ANALYZE windlass.{}").format(sql.Identifier(table)))
    faults += looked_over(skewed, asked, shape, "custom", ", analyzed")
    faults += looked_over(skewed, asked, shape, "generic", ", analyzed")

    assert faults == [], "\n".join(faults)


def looked_over(
    connection: psycopg.Connection[Any],
    asked: Sequence[tuple[Statement, sql.Composable]],
    shape: str,
    mode: str,
    when: str = "",
) -> list[str]:
    """What is wrong with the plans, in words."""
    return [
        f"{mode}{when}, {statement.name}: {fault}"
        for statement, arguments in asked
        for fault in faults_of(statement.name, explained(connection, statement, mode, arguments), shape)
    ]


def explained(
    connection: psycopg.Connection[Any], statement: Statement, mode: str, arguments: sql.Composable
) -> dict[str, Any]:
    """Run a statement with a plan that is made for its values, for any, or is old; and roll it back."""
    name = f"{'old' if mode == 'old' else 'new'}_{statement.name}"
    with connection.transaction(force_rollback=True):
        cache = "force_custom_plan" if mode == "custom" else "force_generic_plan"
        connection.execute("SELECT set_config('plan_cache_mode', %s, true)", [cache])
        if mode != "old":
            connection.execute(cast("LiteralString", f"PREPARE {name} AS {statement.text}"))
        explain = sql.SQL("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE {}").format(sql.Identifier(name))
        [([answer],)] = connection.execute(explain + arguments).fetchall()
    assert "JIT" not in answer, statement.name
    if mode != "old":
        connection.execute(sql.SQL("DEALLOCATE {}").format(sql.Identifier(name)))
    return answer["Plan"]


def faults_of(name: str, plan: dict[str, Any], shape: str) -> list[str]:
    """What a plan does that it should not: scans, and how many rows and pages it reads and writes."""
    reads = [
        (node["Node Type"], node.get("Index Name", node["Relation Name"]), looked_at(node))
        for node in walked(plan)
        if node.get("Relation Name") in TABLES and node["Node Type"] != "ModifyTable"
    ]
    rows, pages = sum(rows for *_, rows in reads), pages_of(plan)
    full = MANY if shape.startswith("very many hot") else FEW
    dead = shape == "very many dead rows"
    faults: list[str] = []
    if name not in ALL_LEASES and any("Seq Scan" in kind and table in HOT for kind, table, _ in reads):
        faults.append(f"scans, {reads}")
    whole = 2 * (full + FEW) if name in ALL_LEASES else 0
    whole += 2 * LANES + 1 if name in ALL_ACCOUNTS else 0
    if rows > ROWS + whole:
        faults.append(f"{rows} rows by {reads}")
    if pages > PAGES and name not in ALL_LEASES | ALL_ACCOUNTS and not (dead and name in DEAD_ENTRIES):
        faults.append(f"{pages} pages by {reads}")
    return faults


def pages_of(plan: dict[str, Any]) -> int:
    """The pages that a plan touched. Parts that nothing reads run after the rest and are not in its sum."""
    read = {node.get("CTE Name") for node in walked(plan)}
    after = [node for node in plan.get("Plans", ()) if node.get("Subplan Name", "").startswith("CTE ")]
    unread = [node for node in after if node["Subplan Name"].removeprefix("CTE ") not in read]
    return sum(node["Shared Hit Blocks"] + node["Shared Read Blocks"] for node in (plan, *unread))


def named(state: str, count: int = BATCH) -> list[object]:
    """The ids of the first tasks of a state."""
    return [UUID(int=(crc32(state.encode()) << 96) + number) for number in range(1, count + 1)]


PARENTS: dict[str, Sequence[object]] = {"parent": named("leased")}
"""A batch that a settle may have: plain tasks, and the one that all others wait for."""
GIVEN: dict[str, dict[str, Sequence[object]]] = {
    "announce": PARENTS,
    "reach": PARENTS,
    "note_ended": PARENTS,
    "take_ended": PARENTS,
    "advance_ended": PARENTS,
    "close_ended": PARENTS,
    "open_edges": PARENTS,
    "unnotified": {"id": named("leased")},
    "forget_edges": {"id": named("completed")},
    "claim_kinds": {"queue": ["default"], "kind": [1]},
}


def given_to(statement: Statement, shape: str) -> Mapping[str, Sequence[object]]:
    """What a statement gets, where `values_for` does not know better."""
    given: dict[str, Any] = dict(GIVEN.get(statement.name, {}))
    if statement.name == "merge_lot" and shape == "very many dead rows":
        given["number"] = 1
    return given
