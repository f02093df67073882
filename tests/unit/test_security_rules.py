"""Rules about the source that keep out whole classes of attacks: built SQL, outbound requests, timing of secrets."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import windlass

SOURCE = Path(windlass.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

SQL = re.compile(
    r"\b(SELECT\b.*\bFROM|INSERT\s+INTO|UPDATE\b.*\bSET|DELETE\s+FROM|COPY\s+\w+|(CREATE|ALTER|DROP|TRUNCATE)\s+\w+|"
    r"GRANT\s+\w+|PRAGMA\s+\w+|ATTACH\b|VACUUM\s+INTO|NOTIFY\s+\w+|LISTEN\s+\w+)",
    re.DOTALL,
)
BUILT = {
    "stores/sqlite/admin.py": "names of tables and columns from the fixed list `TABLES`, quoted",
}

OUTBOUND = (
    "urllib.request",
    "http.client",
    "httpx",
    "requests",
    "aiohttp",
    "ftplib",
    "smtplib",
    "xmlrpc",
    "websockets",
)
PROMETHEUS = "worker/external_signals.py"
"""Asks the address that the settings file of a node names, and follows no redirect."""
CONNECTING = {f"stores/postgres/{name}.py" for name in ("admin", "database", "notify")}
SECRET_NAMES = {"hash", "secret", "mac", "tag", "csrf", "cookie", "expected", "password"}
COMPARING = ("operations/tokens.py", "operations/cursor_seal.py", "server/http/auth.py", "dashboard/sessions.py")


def below(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def built_texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the texts that are built by formatting or adding, with their line, with a gap for every value."""
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr(values=values) if any(isinstance(each, ast.FormattedValue) for each in values):
                yield (
                    node.lineno,
                    "".join(str(each.value) if isinstance(each, ast.Constant) else " ? " for each in values),
                )
            case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Add() | ast.Mod()):
                yield node.lineno, text
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")):
                yield node.lineno, text
            case _:
                pass


def built_sql(source: str) -> list[int]:
    return [line for line, text in built_texts(ast.parse(source)) if SQL.search(text)]


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield module
                yield from (f"{module}.{alias.name}" for alias in names)
            case _:
                pass


@pytest.mark.parametrize(
    "text",
    [
        "f'SELECT a FROM {table}'",
        "'DELETE FROM x WHERE id = %s' % id",
        "'INSERT INTO ' + table",
        "'UPDATE {} SET a = 1'.format(table)",
        "f'PRAGMA user_version = {n}'",
    ],
)
def test_built_sql_is_recognized(text: str) -> None:
    assert built_sql(text) == [1]


def test_no_sql_is_built_from_text() -> None:
    """Values are bound, and names of tables go through `psycopg.sql`, from a fixed list."""
    found = {below(path): lines for path in FILES if (lines := built_sql(path.read_text()))}

    assert {file: lines for file, lines in found.items() if file not in BUILT} == {}
    assert found.keys() >= BUILT.keys(), "an exception that is no longer needed"


def test_nothing_opens_connections_but_to_the_store_and_to_prometheus() -> None:
    """There are no webhooks and no callbacks, so no task can make a server send a request somewhere."""
    imports = {
        below(path)
        for path in FILES
        for name in imported(ast.parse(path.read_text()))
        if any(name == module or name.startswith(f"{module}.") for module in OUTBOUND)
    }
    calls = {
        below(path)
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("connect", "connect_ex", "create_connection", "open_connection")
    }

    assert imports == {PROMETHEUS}
    assert calls == CONNECTING


@pytest.mark.parametrize("file", COMPARING)
def test_secrets_are_compared_in_constant_time(file: str) -> None:
    tree = ast.parse((SOURCE / file).read_text())
    compared = [
        (node.lineno, name)
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare) and any(isinstance(each, ast.Eq | ast.NotEq) for each in node.ops)
        for each in (node.left, *node.comparators)
        if (name := getattr(each, "attr", getattr(each, "id", ""))) in SECRET_NAMES
    ]

    assert compared == []
    assert "hmac.compare_digest" in (SOURCE / file).read_text()
