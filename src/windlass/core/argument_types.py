"""Checks the types of arguments against a handler's JSON schema, where no app is imported.

It checks what every JSON schema says plainly: the type of an argument, of the items of a list, and one of several
values. What is inside an object is left to the worker, because models may convert it in their own way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from windlass.core.names import shorten
from windlass.core.references import REFERENCE_KEY

MAX_DEPTH = 8
"""How deep a schema is followed."""
_NAMES = {
    "string": "text",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}
_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: (isinstance(value, int) and not isinstance(value, bool)) or _is_whole(value),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list | tuple),
    "object": lambda value: isinstance(value, Mapping),
}


def find_type_error(name: str, value: Any, schema: object) -> str | None:
    """Return what is wrong with the type of an argument; None if nothing is, or the schema does not say.

    >>> find_type_error("copies", "two", {"type": "integer"})
    "copies='two' is not an integer"
    """
    wanted = _mismatch(value, schema, 0)
    return None if wanted is None else f"{name}={shorten(value)} is not {wanted}"


def _mismatch(value: Any, schema: object, depth: int) -> str | None:
    """Return what the value should be; None if it fits. Schemas come from workers, so any part may be anything."""
    if not isinstance(schema, Mapping) or _is_reference(value) or depth > MAX_DEPTH:
        return None
    known = cast("Mapping[str, Any]", schema)
    if "$ref" in known or known.get("format") == "decimal":
        return None
    choices, allowed = known.get("anyOf"), known.get("enum")
    if isinstance(choices, list):
        found = [_mismatch(value, each, depth + 1) for each in cast("list[Any]", choices)]
        return None if not found or None in found else " or ".join(dict.fromkeys(filter(None, found)))
    if isinstance(allowed, list):
        return None if value in allowed else f"one of {', '.join(map(repr, cast('list[Any]', allowed)))}"
    return _type_mismatch(value, known, depth)


def _type_mismatch(value: Any, schema: Mapping[str, Any], depth: int) -> str | None:
    given = schema.get("type")
    kinds: list[Any] = cast("list[Any]", given) if isinstance(given, list) else [given]
    if not kinds or not all(isinstance(kind, str) and kind in _CHECKS for kind in kinds):
        return None
    if not any(_CHECKS[kind](value) for kind in kinds):
        return " or ".join(_NAMES[kind] for kind in kinds)
    if not isinstance(value, list | tuple):
        return None
    items = schema.get("items")
    wrong = (_mismatch(each, items, depth + 1) for each in cast("Sequence[Any]", value))
    found = next((each for each in wrong if each is not None), None)
    return None if found is None else f"a list in which each item is {found}"


def _is_whole(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()


def _is_reference(value: Any) -> bool:
    return isinstance(value, Mapping) and set(cast("Mapping[str, Any]", value)) == {REFERENCE_KEY}
