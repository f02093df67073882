"""The detector of SQL that is built from text finds the usual ways to build it, and nothing else."""

from __future__ import annotations

import ast

import pytest

from tests.support.built_sql import find_built_sql

FORMATTED = [
    "f'SELECT a FROM {table}'",
    "f'PRAGMA user_version = {n}'",
    "f'PRAGMA {pragma}'",
    "f'GRANT {verbs} ON task TO node'",
    "'DELETE FROM x WHERE id = %s' % id",
    "'UPDATE {} SET a = 1'.format(table)",
    "'DROP TABLE {t}'.format_map(names)",
    "'DROP TABLE T'.replace('T', table)",
]
ADDED = [
    "'INSERT INTO ' + table",
    "base + ' WHERE a = 1'",
    "base + f' ORDER BY {column}'",
    "first + ' AND ' + 'x LIMIT ' + most",
    "query += ' WHERE a = 1'",
    "query += f' LIMIT {n}'",
    "query += 'SELECT a FROM b'",
    "self.text += ' RETURNING id'",
]
JOINED = [
    "' '.join(['SELECT a FROM', table])",
    "' '.join(('SELECT a', 'FROM b', 'WHERE', *conditions))",
    "' UNION '.join(parts)",
    "''.join(f'DELETE FROM {each};' for each in tables)",
    "' WHERE '.join([base, condition])",
]
NAMED = [
    "T = 'SELECT a FROM {}'; T.format(x)",
    "T = 'SELECT a FROM %s'; T % x",
    "T = 'SELECT a FROM b'; T += x",
    "T: str = 'SELECT a FROM b'; T + x",
    "T = 'SELECT a FROM b'; f'{T} AS OF {x}'",
    "T = 'SELECT a FROM b'; ' '.join([T, x])",
    "self.sql = 'SELECT a FROM b'; self.sql + x",
    "T = ['SELECT a FROM b']; ' '.join(T)",
    "T = []; T.append('SELECT a FROM b'); ' '.join(T)",
    "T = 'SELECT a FROM b'; T.replace('b', x)",
]
COMPOSED = [
    "SQL('SELECT {} FROM a').format(SQL(x))",
    "sql.SQL(x)",
    "sql.SQL(f'SELECT {a}')",
    "sql.SQL('SELECT ' + a)",
]


@pytest.mark.parametrize("source", [*FORMATTED, *ADDED, *JOINED, *NAMED, *COMPOSED])
def test_built_sql_is_found(source: str) -> None:
    assert find_built_sql(ast.parse(source)) == [1]


@pytest.mark.parametrize(
    "source",
    [
        "connection.execute('SELECT a FROM b WHERE c = %s', [c])",
        "'SELECT a ' 'FROM b'",
        "'SELECT a ' + 'FROM b'",
        "sql.SQL('SELECT {} FROM a').format(sql.Identifier(x))",
        "query = sql.SQL('SELECT {}'); query.format(sql.Identifier(x))",
        "sql.SQL(', ').join(map(sql.Identifier, columns))",
        "rows = connection.execute('SELECT a FROM b').fetchall(); found += rows; rows + more",
        "f'{count} tasks from {queue}, where nothing waits'",
        "', '.join(names)",
        "text += ' and more'",
        "path.replace('a', 'b')",
    ],
)
def test_bound_and_composed_statements_and_other_texts_are_not_found(source: str) -> None:
    assert find_built_sql(ast.parse(source)) == []


def test_lines_are_those_of_the_text() -> None:
    assert find_built_sql(ast.parse("a = 1\n\nb = f'SELECT x FROM {a}'\nc = f'DROP TABLE {a}'")) == [3, 4]
