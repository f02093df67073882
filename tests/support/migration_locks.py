"""Finds statements of a PostgreSQL migration that read or write a whole table, or hold its lock for as long.

It reads text, not plans: whatever touches the rows of a table that is there already counts, unless a LIMIT of at most
four digits ends the statement. It cannot see whether such a statement finds its rows through an index. `windlass.meta`
is exempt, which has one row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from windlass.stores.migrate import Migration

SMALL = frozenset({"meta"})
"""Tables whose number of rows does not grow."""

_STRING = r"'(?:[^']|'')*'"
_DOLLARS = r"\$(\w*)\$.*?\$\1\$"
_TABLE = r'(?:ONLY\s+)?(?:"?windlass"?\.)?"?(\w+)"?'
_CREATED = re.compile(rf"^CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?{_TABLE}", re.IGNORECASE)
_INDEX = re.compile(
    rf"^CREATE\s+(?:UNIQUE\s+)?INDEX\b(\s+CONCURRENTLY\b)?.*?\bON\s+{_TABLE}", re.IGNORECASE | re.DOTALL
)
_ALTER = re.compile(rf"^ALTER\s+TABLE\s+(?:IF\s+EXISTS\s+)?{_TABLE}\s*\*?\s*(.*)", re.IGNORECASE | re.DOTALL)
_WRITE = re.compile(rf"\b(?:UPDATE|DELETE\s+FROM|MERGE\s+INTO)\s+{_TABLE}", re.IGNORECASE)
_WRITE_OF_A_CONFLICT = re.compile(
    r"\bDO\s+UPDATE\b|\bON\s+(?:UPDATE|DELETE)\b|\bFOR\s+(?:NO\s+KEY\s+)?UPDATE\b", re.IGNORECASE
)
_READ = re.compile(rf"\b(?:FROM|JOIN)\s+{_TABLE}\b(?!\s*\()", re.IGNORECASE)
_BOUND = re.compile(r"\bLIMIT\s+\d{1,4}$", re.IGNORECASE)
_BOUND_WRITE = re.compile(r"\bIN\s*\(\s*SELECT\b[^()]*\bLIMIT\s+\d{1,4}\s*\)$", re.IGNORECASE)
_NEVER = re.compile(
    r"^(?:DO|CALL|CLUSTER|VACUUM|LOCK|TRUNCATE|REFRESH|COPY|REINDEX(?!\b.*\bCONCURRENTLY\b))\b",
    re.IGNORECASE | re.DOTALL,
)
_ROWS = re.compile(r"^(?:INSERT|UPDATE|DELETE|MERGE|WITH|SELECT|CREATE\s+TABLE\b.*\bAS\b)", re.IGNORECASE | re.DOTALL)

_CONSTANT = re.compile(
    r"""^(?:NULL|TRUE|FALSE|[-+]?[\d.]+(?:e[-+]?\d+)?|''|\(\s*[-+]?[\d.]+\s*\)|'\{\}')(?:\s*::\s*[\w ]+(?:\[\])?)?$""",
    re.IGNORECASE,
)
_DEFAULT = re.compile(
    r"\bDEFAULT\s+(.*?)(?=\s+(?:NOT\s+NULL|NULL|CONSTRAINT|CHECK|UNIQUE|PRIMARY|REFERENCES|COLLATE|GENERATED)\b|$)",
    re.IGNORECASE | re.DOTALL,
)
_ACTIONS = (
    (r"ALTER\s+(?:COLUMN\s+)?\S+\s+(?:SET\s+DATA\s+)?TYPE\b", "rewrites the table for another type of a column"),
    (r"ALTER\s+(?:COLUMN\s+)?\S+\s+SET\s+NOT\s+NULL\b", "reads the table to check NOT NULL"),
    (r"ALTER\s+(?:COLUMN\s+)?\S+\s+(?:SET\s+EXPRESSION|ADD\s+GENERATED)\b", "rewrites or reads the table"),
    (r"VALIDATE\s+CONSTRAINT\b", "reads the table, in one transaction with other locks"),
    (r"SET\s+(?:LOGGED|UNLOGGED|TABLESPACE|ACCESS\s+METHOD)\b", "rewrites the table"),
    (r"(?:ATTACH|DETACH)\s+PARTITION\b", "reads the table, or waits for those who use it"),
)
_CONSTRAINT = re.compile(
    r"^ADD\s+(?:CONSTRAINT\b|CHECK\b|UNIQUE\b|PRIMARY\s+KEY\b|FOREIGN\s+KEY\b|EXCLUDE\b|NOT\s+NULL\b)", re.IGNORECASE
)
_COLUMN_CONSTRAINT = re.compile(r"\b(?:UNIQUE|PRIMARY\s+KEY|CHECK|REFERENCES)\b", re.IGNORECASE)
_COMPUTED = re.compile(r"\bGENERATED\b|\b(?:small|big)?serial[248]?\b", re.IGNORECASE)


def long_locks(migration: Migration) -> list[str]:
    """Return what is wrong with a migration, one sentence for each statement that may hold a lock for long."""
    statements = split(migration.script)
    new = {found[1].lower() for each in statements if (found := _CREATED.match(each))} | SMALL
    found = [f"{fault}: {' '.join(each.split())[:80]}" for each in statements for fault in _faults(each, new)]
    if migration.index is not None and len(statements) > 1:
        found.append("an index that is built concurrently is the only statement of its file")
    return found


def split(script: str) -> list[str]:
    """Return the statements of a script without comments. Strings and bodies of functions are emptied."""
    # One pass, so that a comment in a string is part of the string and the other way round.
    tokens = re.compile(rf"--[^\n]*|/\*.*?\*/|{_DOLLARS}|{_STRING}", re.DOTALL)
    text = tokens.sub(lambda match: _emptied(match[0]), script)
    return [each.strip() for each in text.split(";") if each.strip()]


def _emptied(token: str) -> str:
    return " " if token.startswith(("--", "/*")) else "''"


def _faults(statement: str, new: set[str]) -> Iterator[str]:
    if _NEVER.match(statement):
        yield "a migration does not do this, because it may take long or hide what does"
    elif found := _INDEX.match(statement):
        yield from _index_faults(statement, is_concurrent=found[1] is not None, is_new=found[2].lower() in new)
    elif found := _ALTER.match(statement):
        if found[1].lower() not in new:
            for action in _actions(found[2]):
                yield from _action_faults(action)
    elif _ROWS.match(statement):
        yield from _row_faults(_WRITE_OF_A_CONFLICT.sub(" ", statement), new)


def _row_faults(statement: str, new: set[str]) -> Iterator[str]:
    if _BOUND_WRITE.search(statement):
        return
    written = {name.lower() for name in _WRITE.findall(statement)} - new
    parts = {name.lower() for name in re.findall(r"(?:\bWITH|,)\s+(\w+)\s+AS\b", statement, re.IGNORECASE)}
    read = {name.lower() for name in _READ.findall(statement)} - new - parts
    if written:
        yield f"writes all rows of {', '.join(sorted(written))}: let the sweep do it, or use IN (SELECT … LIMIT 1000)"
    elif read and not _BOUND.search(statement):
        yield f"reads all rows of {', '.join(sorted(read))}: let the sweep do it, or use a LIMIT"


def _index_faults(statement: str, *, is_concurrent: bool, is_new: bool) -> Iterator[str]:
    if is_concurrent and is_new:
        yield "an index on a new table needs no CONCURRENTLY"
    elif is_concurrent and not re.search(r"\bIF\s+NOT\s+EXISTS\b", statement, re.IGNORECASE):
        yield "write CREATE INDEX CONCURRENTLY IF NOT EXISTS"
    elif not is_concurrent and not is_new:
        yield "blocks writes while it builds an index: write CREATE INDEX CONCURRENTLY IF NOT EXISTS"


def _actions(text: str) -> list[str]:
    """Return the parts of an ALTER TABLE, which commas outside of parentheses separate."""
    depth, parts = 0, [""]
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _action_faults(action: str) -> Iterator[str]:
    for pattern, fault in _ACTIONS:
        if re.match(pattern, action, re.IGNORECASE):
            yield fault
    if _CONSTRAINT.match(action):
        if not re.search(r"\bNOT\s+VALID$", action, re.IGNORECASE):
            yield "reads the table to check a constraint: write NOT VALID"
    elif re.match(r"ADD\b", action, re.IGNORECASE):
        yield from _column_faults(action)


def _column_faults(action: str) -> Iterator[str]:
    default = _DEFAULT.search(action)
    if default and not _CONSTANT.match(default[1].strip()):
        yield "a default that is not a constant may rewrite the table"
    if _COMPUTED.search(action):
        yield "a column that the server computes rewrites the table"
    if _COLUMN_CONSTRAINT.search(action):
        yield "a column with a constraint reads the table or builds an index"
    if re.search(r"\bNOT\s+NULL\b", action, re.IGNORECASE) and default is None:
        yield "a column that is NOT NULL needs a constant default"
