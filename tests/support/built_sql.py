"""Finds SQL in Python source that is built from text: by formatting, adding, joining or replacing.

A text is SQL if it has a statement in it, and also if it has a clause such as `WHERE` and is added or joined to
something. A name is SQL if its file assigns such a statement to it, alone or in a list. What `psycopg.sql` composes is
safe as long as `SQL` gets a literal, so it may get nothing else.

It does not follow a text through calls: `Statements` and `cast("LiteralString", ...)` are for statements from files.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

_STATEMENT = re.compile(
    r"\b(SELECT\b.*\bFROM|INSERT\s+INTO|UPDATE\b.*\bSET|DELETE\s+FROM|MERGE\s+INTO|COPY\s+[\w?]+|"
    r"(CREATE|ALTER|DROP|TRUNCATE|GRANT|REVOKE|PRAGMA|NOTIFY|LISTEN)\s+[\w?]+|ATTACH\b|VACUUM\s+INTO)",
    re.DOTALL,
)
_CLAUSE = re.compile(
    r"\b(SELECT|FROM|WHERE|HAVING|LIMIT|OFFSET|RETURNING|UNION|VALUES|JOIN|(ORDER|GROUP)\s+BY|ON\s+CONFLICT)\b"
)
_GAP = " ? "
"""Stands for a value in a text."""


def find_built_sql(tree: ast.AST) -> list[int]:
    """Return the lines of a file on which SQL is built from text."""
    finder = _Finder(tree)
    return sorted(
        {node.lineno for node in ast.walk(tree) if isinstance(node, ast.expr | ast.stmt) and finder.finds(node)}
    )


class _Finder:
    """Judges the nodes of one file."""

    def __init__(self, tree: ast.AST) -> None:
        self._texts: set[str] = set()
        """Names of texts with a statement."""
        self._lists: set[str] = set()
        """Names of lists that have such a text."""
        for name, value in _assignments(tree):
            if _STATEMENT.search(_text(value)):
                self._texts.add(name)
            elif any(_STATEMENT.search(_text(each)) for each in _elements(value)):
                self._lists.add(name)

    def finds(self, node: ast.AST) -> bool:
        """Return True if a node builds SQL."""
        match node:
            case ast.JoinedStr():
                return self._is_built(_text(node), [node])
            case ast.BinOp(left=left, op=ast.Mod(), right=right):
                return self._is_built(_text(left) + _GAP, [left, right])
            case ast.BinOp(op=ast.Add()):
                return self._is_built(_text(node), [node], clauses=True)
            case ast.AugAssign(target=target, op=ast.Add() | ast.Mod(), value=value):
                return self._is_built(_GAP + _text(value), [target, value], clauses=True)
            case ast.Call(func=ast.Attribute(value=value, attr="format" | "format_map" | "replace")):
                return self._is_built(_text(value), [value], always=True)
            case ast.Call(func=ast.Attribute(value=between, attr="join"), args=[joined]):
                texts = [_text(each) or _GAP for each in _elements(joined)]
                names = set(_names(joined))
                found = self._is_built(
                    _text(between).join([*texts, "", ""]), [between, joined], clauses=True, always=True
                )
                return found or not self._lists.isdisjoint(names)
            case ast.Call(func=ast.Name(id="SQL") | ast.Attribute(attr="SQL"), args=args):
                return not all(isinstance(each, ast.Constant) for each in args)
            case _:
                return False

    def _is_built(self, text: str, parts: Sequence[ast.expr], *, clauses: bool = False, always: bool = False) -> bool:
        """Return True if a text is SQL and has a part that is not a literal; `always` if it is sure to have one."""
        names = {name for part in parts for name in _names(part)}
        if not names and not always:
            return False
        is_sql = _STATEMENT.search(text) or (clauses and _CLAUSE.search(text))
        return bool(is_sql) or not self._texts.isdisjoint(names)


def _assignments(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield what is assigned to a name or an attribute, or appended to it."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                yield from ((_name(target), value) for target in targets)
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.AugAssign(target=target, value=value):
                yield _name(target), value
            case ast.Call(func=ast.Attribute(value=target, attr="append"), args=[value]):
                yield _name(target), ast.List([value])
            case _:
                pass


def _text(node: ast.expr) -> str:
    """Return the literal parts of a text, with a gap for every value; nothing if it has none."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_text(each) or _GAP for each in values)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            texts = (_text(left), _text(right))
            return "".join(text or _GAP for text in texts) if any(texts) else ""
        case _:
            return ""


def _elements(node: ast.expr) -> list[ast.expr]:
    match node:
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            return elements
        case ast.GeneratorExp(elt=element) | ast.ListComp(elt=element):
            return [element]
        case ast.Dict(values=values):
            return values
        case _:
            return []


def _names(node: ast.expr) -> Iterator[str]:
    """Yield the names of the values in a text or a list of texts; an empty one for what has no name."""
    match node:
        case ast.Constant():
            pass
        case ast.JoinedStr(values=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts):
            yield from (name for part in parts for name in _names(part))
        case ast.FormattedValue(value=part) | ast.Starred(value=part):
            yield from _names(part)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from _names(left)
            yield from _names(right)
        case _:
            yield _name(node)


def _name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""
