"""The rights that each component needs on the tables in PostgreSQL, read from the statements that it runs.

No right is granted that no statement needs, and a new statement brings its rights along.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

from windlass.stores.statements import load

FOLDERS = ("sql", "shortcuts", "upkeep", "inspection")
NOT_FOR_NODES = frozenset({"raise_epoch", "raise_settings"})
"""What only people do: make all leases invalid, and change limits and the settings of tenants."""
VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE")

Rights = Mapping[str, tuple[str, ...]]
"""The verbs by table, both in a fixed order."""

_TABLE = re.compile(r"\bwindlass\.(\w+)\b(?!\()")
_INSERT = re.compile(r"\bINSERT INTO windlass\.(\w+)")
_UPDATE = re.compile(r"\bUPDATE windlass\.(\w+)")
_DELETE = re.compile(r"\bDELETE FROM windlass\.(\w+)")
_REPLACE = re.compile(r"\bINSERT INTO windlass\.(\w+)(?:(?!\bINSERT INTO\b).)*?\bDO UPDATE\b", re.DOTALL)
_LOCK = re.compile(r"\bFOR (?:(?:NO KEY )?UPDATE|(?:KEY )?SHARE)\b")


def api_rights() -> Rights:
    """Return what servers, commands and producers need: everything that any statement does."""
    return _rights(frozenset())


def node_rights() -> Rights:
    """Return what nodes need."""
    return _rights(NOT_FOR_NODES)


def read_rights() -> Rights:
    """Return what is needed to read everything."""
    return dict.fromkeys(api_rights(), ("SELECT",))


def grants(rights: Rights, role: str) -> str:
    """Return one GRANT for each set of verbs."""
    tables: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for table, verbs in rights.items():
        tables[verbs].append(f"windlass.{table}")
    lines = (f"GRANT {', '.join(verbs)}\n    ON {_wrapped(names)}\n    TO {role};" for verbs, names in tables.items())
    return "\n".join(lines)


def needed_by(text: str) -> Iterator[tuple[str, str]]:
    """Yield the tables of a statement with the verbs that it needs there."""
    for table in _TABLE.findall(text):
        yield table, "SELECT"
    for verb, pattern in (("INSERT", _INSERT), ("UPDATE", _UPDATE), ("UPDATE", _REPLACE), ("DELETE", _DELETE)):
        for table in pattern.findall(text):
            yield table, verb
    for lock in _LOCK.finditer(text):
        yield _locked_table(text[: lock.start()]), "UPDATE"


def _rights(left_out: frozenset[str]) -> Rights:
    found: dict[str, set[str]] = defaultdict(set)
    found["migration"].add("SELECT")  # Every start reads the version of the schema.
    for folder in FOLDERS:
        for name, statement in load("postgres", "$", folder=folder).items():
            for table, verb in needed_by(statement.text):
                if name not in left_out or verb == "SELECT":
                    found[table].add(verb)
    return {table: tuple(verb for verb in VERBS if verb in verbs) for table, verbs in sorted(found.items())}


def _locked_table(before: str) -> str:
    """Return the table of a SELECT that ends with FOR UPDATE: the last one that is not in a part in parentheses."""
    while before != (shorter := re.sub(r"\([^()]*\)", "", before)):
        before = shorter
    return re.findall(r"\bFROM windlass\.(\w+)", before)[-1]


def _wrapped(names: list[str]) -> str:
    lines = [", ".join(names[start : start + 6]) for start in range(0, len(names), 6)]
    return ",\n       ".join(lines)
