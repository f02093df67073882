"""Rules about the source that keep out whole classes of attacks: built SQL, outbound requests, timing of secrets."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import windlass
from tests.support.built_sql import find_built_sql

SOURCE = Path(windlass.__file__).parent

BUILT = {
    "stores/sqlite/admin.py": "names of tables and columns from the fixed list `TABLES`, quoted",
    "deploy/rights.py": "a script for people to read and run; `Plan.check` has checked the names of roles",
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


@cache
def trees() -> dict[str, ast.AST]:
    return {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


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


def test_no_sql_is_built_from_text() -> None:
    """Values are bound, and names of tables go through `psycopg.sql`, from a fixed list."""
    found = {file: lines for file, tree in trees().items() if (lines := find_built_sql(tree))}

    assert {file: lines for file, lines in found.items() if file not in BUILT} == {}
    assert found.keys() >= BUILT.keys(), "an exception that is no longer needed"


def test_nothing_opens_connections_but_to_the_store_and_to_prometheus() -> None:
    """There are no webhooks and no callbacks, so no task can make a server send a request somewhere."""
    imports = {
        file
        for file, tree in trees().items()
        for name in imported(tree)
        if any(name == module or name.startswith(f"{module}.") for module in OUTBOUND)
    }
    calls = {
        file
        for file, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("connect", "connect_ex", "create_connection", "open_connection")
    }

    assert imports == {PROMETHEUS}
    assert calls == CONNECTING


@pytest.mark.parametrize("file", COMPARING)
def test_secrets_are_compared_in_constant_time(file: str) -> None:
    compared = [
        (node.lineno, name)
        for node in ast.walk(trees()[file])
        if isinstance(node, ast.Compare) and any(isinstance(each, ast.Eq | ast.NotEq) for each in node.ops)
        for each in (node.left, *node.comparators)
        if (name := getattr(each, "attr", getattr(each, "id", ""))) in SECRET_NAMES
    ]

    assert compared == []
    assert "hmac.compare_digest" in (SOURCE / file).read_text()
