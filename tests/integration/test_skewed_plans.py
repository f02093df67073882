"""How PostgreSQL goes about the statements of the hot path when the data are as lopsided as real data get.

One queue and one tenant have everything. Each shape adds 100,000 tasks of one kind, on tables that were never analyzed
and then after ANALYZE, which is when the planner begins to believe what it sees: with one parent for all edges, for
example, that a look by parent is as good as a look at every edge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, LiteralString, cast
from uuid import UUID
from zlib import crc32

import psycopg
import pytest
from psycopg import sql

from tests.integration.test_query_plans import BATCH, LARGE, NOW, arguments_for, explained, looked_at, walked
from tests.support.servers import PostgresServer
from windlass.stores.postgres import PostgresStore
from windlass.stores.statements import Statement, load

MANY = 100_000
FEW = 200
TABLES = (*LARGE, "ended", "joining")
STATES = ("runnable", "leased", "waiting", "scheduled", "retrying", "completed", "failed")
ROWS = 12 * BATCH
"""The most rows of large tables that a statement may read for a batch, those passed over included."""

NOT_HERE = {"find", "scanned", "dead_letters"}
"""What people search for: how far these look is bounded by a budget of their own (`test_query_plans`)."""


def id_of(name: str, number: str = "n") -> str:
    """The id of a task by what it is called and its number, as SQL; in order, because that is quicker to load."""
    return f"('{UUID(int=crc32(name.encode()) << 96).hex[:8]}' || lpad(to_hex({number}), 24, '0'))::uuid"


def tasks(state: str, count: int, name: str = "") -> str:
    """Tasks of a state, named by their state and a number."""
    final = state in ("completed", "failed")
    return f"""
    WITH new AS (
        SELECT {id_of(name or state)} AS id, n FROM generate_series(1, {count}) AS n
    ), tasks AS (
        INSERT INTO windlass.task (id, queue, tenant, state, band, rank, tie, due, waiting, on_failure, fence, session,
                                   claimed, finished, expires, cancel_by, kind, error_group)
        SELECT id, 'default', 'default', '{state}', 0, 9223372036854775807, {NOW} + n, {NOW} + n,
               {int(state == "waiting")}, 'cancel', 1,
               {"md5('session' || n % 3)::uuid" if state == "leased" else "NULL"},
               {"1" if state == "leased" else "NULL"}, {f"{NOW} + n" if final else "NULL"},
               CASE WHEN n % 500 = 0 THEN {NOW} + n END,
               CASE WHEN n % 10 = 0 AND '{state}' = 'leased' THEN {NOW} + n END,
               {2 if name == "parent" else 1}, {"'aaaaaaa1'" if state == "failed" else "NULL"}
          FROM new
    )
    INSERT INTO windlass.body (id, handler, args, workflow, workflow_tenant, priority, first_due, submitted)
    SELECT id, 'work', '{{}}', CASE WHEN n <= 20 THEN 'w4' END,
           CASE WHEN n <= 20 THEN 'default' END, 0, {NOW} + n, {NOW} + n FROM new
    """


SHAPES = {
    "one parent with very many children": [
        tasks("waiting", MANY, "child"),
        f"""
        INSERT INTO windlass.edge (child, parent, resolved)
        SELECT {id_of("child")}, {id_of("leased", "1")}, false FROM generate_series(1, {MANY}) AS n
        """,
    ],
    "one parent whose very many children are finished": [
        tasks("completed", MANY, "child"),
        f"""
        INSERT INTO windlass.edge (child, parent, resolved)
        SELECT {id_of("child")}, {id_of("leased", "1")}, true FROM generate_series(1, {MANY}) AS n
        """,
        f"""
        INSERT INTO windlass.ended (parent, how)
        SELECT {id_of("child")}, 'completed' FROM generate_series(1, {MANY}) AS n
        """,
    ],
    "very many dead letters": [tasks("failed", MANY, "dead")],
    # They are of another kind than the one that is asked for, and most of them stand before it.
    "very many runnable parents with one child": [
        tasks("runnable", MANY, "parent"),
        f"""
        INSERT INTO windlass.edge (child, parent, resolved)
        SELECT {id_of("child")}, {id_of("parent")}, false FROM generate_series(1, {MANY}) AS n
        """,
    ],
}
BASE = [
    f"""
    INSERT INTO windlass.session (id, node, ttl, renewed, boot, lost)
    SELECT md5('session' || n)::uuid, 'node', 15000000, {NOW}, '', n = 0 FROM generate_series(0, 2) AS n
    """,
    *(tasks(state, FEW) for state in STATES),
    f"""
    INSERT INTO windlass.edge (child, parent, resolved)
    SELECT {id_of("waiting")}, {id_of("runnable")}, false FROM generate_series(1, {FEW}) AS n
    """,
]


@pytest.fixture(params=SHAPES)
def skewed(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    """A database of a shape that nobody has analyzed yet."""
    name = postgres_server.create_database()
    url = postgres_server.url(name)
    PostgresStore(url).close()
    with psycopg.connect(url, autocommit=True) as connection:
        for table in TABLES:
            statement = sql.SQL("ALTER TABLE windlass.{} SET UNLOGGED, SET (autovacuum_enabled = false)")
            connection.execute(statement.format(sql.Identifier(table)))
        for statement in BASE + SHAPES[request.param]:
            connection.execute(cast("LiteralString", statement))
        yield connection
    postgres_server.drop_database(name)


def statements() -> list[Statement]:
    """Every statement that reads a large table, but for those whose reach has a budget of its own."""
    found = [statement for name, statement in load("postgres", "$").items() if name not in NOT_HERE]
    found += [*load("postgres", "$", folder="shortcuts").values()]
    upkeep = load("postgres", "$", folder="upkeep")
    found += [upkeep[name] for name in ("closed_lots", "merge_lot", "rescue")]
    return [statement for statement in found if any(f"windlass.{table}" in statement.text for table in TABLES)]


@pytest.mark.slow
def test_no_statement_reads_a_large_table_whole_however_lopsided_the_data_are(
    skewed: psycopg.Connection[Any],
) -> None:
    asked = [(each, arguments_for(skewed, each, **GIVEN.get(each.name, {}))) for each in statements()]

    faults = looked_over(skewed, asked, "never analyzed")
    for table in TABLES:
        skewed.execute(sql.SQL("ANALYZE windlass.{}").format(sql.Identifier(table)))
    faults += looked_over(skewed, asked, "analyzed")

    assert faults == [], "\n".join(faults)


def looked_over(
    connection: psycopg.Connection[Any], asked: Sequence[tuple[Statement, sql.Composable]], when: str
) -> list[str]:
    """What is wrong with the plans, in words."""
    return [
        f"{when}, {mode}, {statement.name}: {fault}"
        for mode in ("force_custom_plan", "force_generic_plan")
        for statement, arguments in asked
        for fault in faults_of(explained(connection, statement, mode, arguments))
    ]


def faults_of(plan: dict[str, Any]) -> list[str]:
    reads = [
        (node["Node Type"], node.get("Index Name", node["Relation Name"]), looked_at(node))
        for node in walked(plan)
        if node.get("Relation Name") in TABLES and node["Node Type"] != "ModifyTable"
    ]
    rows = sum(rows for *_, rows in reads)
    return [f"{rows} rows by {reads}"] if rows > ROWS else []


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
