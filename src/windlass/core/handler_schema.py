"""JSON schemas of handlers: what a published one may contain, and which of its values are secret.

Servers walk these schemas to check arguments and to hide secrets, for every task that they show. Workers in other
languages publish them, so their size and their form are checked first. Patterns are not evaluated anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from windlass.errors import InvalidTask

MAX_SCHEMA_BYTES = 65_536
MAX_SCHEMA_DEPTH = 32
MAX_SUBSCHEMAS = 1_000
SECRET = "x-secret"

_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("additionalProperties", "items", "not", "if", "then", "else", "contains", "propertyNames")


def check_schema(field: str, schema: Mapping[str, Any]) -> None:
    """Raise `InvalidTask` for a schema that is too large, too deep or malformed, naming the place."""
    size = len(msgspec.json.encode(schema))
    if size > MAX_SCHEMA_BYTES:
        raise InvalidTask(f"{field}: {size:,} bytes of JSON; at most {MAX_SCHEMA_BYTES:,} are allowed")
    for number, (where, each, depth) in enumerate(_walk(field, schema), 1):
        if depth > MAX_SCHEMA_DEPTH:
            raise InvalidTask(f"{field}: nested deeper than {MAX_SCHEMA_DEPTH} levels")
        if number > MAX_SUBSCHEMAS:
            raise InvalidTask(f"{field}: more than {MAX_SUBSCHEMAS:,} schemas in one")
        _check_words(where, each, schema)


def secret_paths(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the places in a schema that are marked as secret."""
    return frozenset(where for where, each, _ in _walk("", schema) if _members(each).get(SECRET))


def _walk(where: str, schema: object, depth: int = 1) -> Iterator[tuple[str, object, int]]:
    """Yield a schema and all schemas in it, each with its place and depth. What is too deep is not entered."""
    yield where, schema, depth
    if not isinstance(schema, dict) or depth > MAX_SCHEMA_DEPTH:
        return
    members = cast("dict[str, Any]", schema)
    for word in _BY_NAME:
        for name, each in _members(members.get(word)).items():
            yield from _walk(f"{where}.{word}.{name}", each, depth + 1)
    for word in _LISTS:
        for index, each in enumerate(_elements(members.get(word))):
            yield from _walk(f"{where}.{word}[{index}]", each, depth + 1)
    for word in _SINGLE:
        if word in members:
            yield from _walk(f"{where}.{word}", members[word], depth + 1)


def _check_words(where: str, schema: object, root: Mapping[str, Any]) -> None:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise InvalidTask(f"{where}: a schema is an object or a boolean")
    members = cast("dict[str, Any]", schema)
    for word in _BY_NAME:
        if not isinstance(members.get(word, {}), dict):
            raise InvalidTask(f"{where}.{word}: not an object with a schema for each name")
    for word in _LISTS:
        if not isinstance(members.get(word, []), list):
            raise InvalidTask(f"{where}.{word}: not a list of schemas")
    required = members.get("required", [])
    if not isinstance(required, list) or not all(isinstance(each, str) for each in cast("list[Any]", required)):
        raise InvalidTask(f"{where}.required: not a list of names")
    if not isinstance(members.get(SECRET, False), bool):
        raise InvalidTask(f"{where}.{SECRET}: not true or false")
    _check_reference(where, members.get("$ref"), root)


def _check_reference(where: str, reference: object, root: Mapping[str, Any]) -> None:
    if reference is None:
        return
    if not isinstance(reference, str) or not reference.startswith("#/$defs/"):
        raise InvalidTask(f"{where}.$ref: only references such as #/$defs/NAME are allowed")
    if reference.removeprefix("#/$defs/") not in _members(root.get("$defs")):
        raise InvalidTask(f"{where}.$ref: {reference} is not in the schema")


def _members(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _elements(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
