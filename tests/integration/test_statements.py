from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import RawCursor

from windlass.core.graph import End, prerequisite_reason
from windlass.errors import CYCLE_REASON
from windlass.stores.postgres.arrays import array
from windlass.stores.statements import Column, Statement, load, parse


def read(source: str, marker: str = "$") -> Statement:
    return parse("example", source, lambda n: f"{marker}{n}")


def test_parameters_are_numbered_in_the_order_of_their_first_use() -> None:
    statement = read("SELECT :b, :a, :b WHERE x = :a AND y = :c_d;")

    assert statement.text == "SELECT $1, $2, $1 WHERE x = $2 AND y = $3"
    assert statement.scalars == ("b", "a", "c_d")


def test_the_columns_of_a_batch_come_before_everything_else() -> None:
    statement = read(
        "-- batch: id uuid, n bigint\nUPDATE t SET n = :n, s = :session WHERE id = :id AND q = :queue", "?"
    )

    assert statement.batch == (Column("id", "uuid"), Column("n", "bigint"))
    assert statement.scalars == ("session", "queue")
    assert statement.text == "UPDATE t SET n = ?2, s = ?3 WHERE id = ?1 AND q = ?4"


def test_a_header_may_go_on_over_lines() -> None:
    statement = read(
        "-- example: does something.\n-- moves: runnable -> leased |\n--   failed\n"
        "-- batch: id uuid, queue text,\n--   due bigint\nSELECT :due, :queue, :id"
    )

    assert statement.moves == "runnable -> leased | failed"
    assert [column.name for column in statement.batch] == ["id", "queue", "due"]
    assert statement.text == "SELECT $3, $2, $1"


def test_a_statement_without_headers_has_none() -> None:
    statement = read("SELECT 1")

    assert (statement.batch, statement.scalars, statement.moves) == ((), (), None)


def test_casts_and_slices_are_no_parameters() -> None:
    statement = read("SELECT :id::uuid[], 'a'::text, now()::text, x[1:2], :n::bigint")

    assert statement.text == "SELECT $1::uuid[], 'a'::text, now()::text, x[1:2], $2::bigint"


def test_comments_are_left_out_wherever_a_line_begins_with_them() -> None:
    statement = read("-- what it does with :nothing\nSELECT a\n  -- why :never\n  FROM t;\n")

    assert statement.text == "SELECT a\n  FROM t"
    assert statement.scalars == ()


def test_the_two_dialects_have_the_same_statements_with_the_same_parameters() -> None:
    postgres, sqlite = load("postgres", "$"), load("sqlite", "?")

    assert postgres.keys() == sqlite.keys()
    assert all(name == statement.name for name, statement in postgres.items())
    columns = [
        {name: [column.name for column in dialect[name].batch] for name in postgres} for dialect in (postgres, sqlite)
    ]
    assert columns[0] == columns[1]


@pytest.mark.parametrize("dialect", ["postgres", "sqlite"])
def test_every_number_in_a_statement_has_its_parameter(dialect: str) -> None:
    for statement in load(dialect, "@").values():
        used = {int(number) for number in re.findall(r"@(\d+)", statement.text)}
        columns, all_of_them = len(statement.batch), len(statement.batch) + len(statement.scalars)

        assert used <= set(range(1, all_of_them + 1)), statement.name
        assert used >= set(range(columns + 1, all_of_them + 1)), statement.name


# Arrays: what is written here is read by the server.


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
BIGINTS = st.integers(-(2**63), 2**63 - 1)
INTEGERS = st.integers(-(2**31), 2**31 - 1)


def as_read(connection: psycopg.Connection, type: str, values: list[Any]) -> list[Any]:
    cursor = RawCursor(connection)
    [(found,)] = cursor.execute(f"SELECT $1::{type}[]".encode(), [array(type, values)]).fetchall()
    return found


@given(values=st.lists(st.none() | TEXTS))
def test_any_text_comes_back_as_it_went(shared_admin: psycopg.Connection, values: list[str | None]) -> None:
    assert as_read(shared_admin, "text", values) == values


@pytest.mark.parametrize(
    "text", ["", "NULL", "null", '"', "\\", "\\\\", '\\"', "{}", "{", ",", " ", "\n", "\t", "'", "$1", "%s", "é", "🙂"]
)
def test_text_that_means_something_in_an_array_means_nothing(shared_admin: psycopg.Connection, text: str) -> None:
    assert as_read(shared_admin, "text", [text, None, text]) == [text, None, text]


@given(values=st.lists(st.none() | BIGINTS))
def test_any_number_comes_back_as_it_went(shared_admin: psycopg.Connection, values: list[int | None]) -> None:
    assert as_read(shared_admin, "bigint", values) == values


@given(values=st.lists(st.none() | INTEGERS), flags=st.lists(st.none() | st.booleans()), ids=st.lists(st.uuids()))
def test_other_types_come_back_as_they_went(
    shared_admin: psycopg.Connection, values: list[int | None], flags: list[bool | None], ids: list[UUID]
) -> None:
    assert as_read(shared_admin, "integer", values) == values
    assert as_read(shared_admin, "boolean", flags) == flags
    assert as_read(shared_admin, "uuid", ids) == ids


PATTERN = re.compile(r"\breason (?:LIKE|GLOB) '([^']+)'")


@pytest.mark.parametrize("dialect", ["postgres", "sqlite"])
def test_the_statements_look_for_the_reasons_that_core_writes(dialect: str) -> None:
    statements = load(dialect, "?")
    cascades = {prerequisite_reason("%", end) for end in End if not end.good}

    taken_down = [found.replace("*", "%") for found in PATTERN.findall(statements["add_taken_down"].text)]
    assert PATTERN.findall(statements["workflows_of"].text) == [f"{CYCLE_REASON}%"]
    assert sorted(taken_down) == sorted([*cascades, *cascades]), "once per branch of the recursion"
