"""The arguments of a task as fields that people edit.

A field is text as it is, or JSON: `5` as text would be submitted as `"5"`, and text as JSON needs double quotes. The
handler's schema and the stored value decide. Where the schema says nothing, a value keeps its kind: text stays text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct

from windlass.core.names import shorten
from windlass.core.payload import canonical, decode_stored, json_object
from windlass.core.task import TaskId
from windlass.errors import InvalidTask
from windlass.operations.access import Access
from windlass.operations.presentation import escape_controls, escape_json
from windlass.operations.redact import redact_task

MOST_CHARACTERS = 20_000
"""How many characters of a value are shown. A longer one cannot be edited, because its end would be lost."""
MAX_DEPTH = 8
"""How deep a schema is followed."""
MOST_CHOICES = 6
"""How many values of an enumeration are named."""


class ArgumentField(Struct, frozen=True, kw_only=True):
    """One argument without secrets, and how it is edited."""

    name: str
    type: str
    """What its handler declares, else the type of its value."""
    as_text: bool
    """True for text as it is, False for JSON."""
    takes_text: bool
    """True if the JSON may be, or have, text, which needs quotes."""
    text: str
    """The value; only its beginning if it is long."""
    length: int
    """How many characters the whole value has."""
    hidden: bool
    """True if it is, or has, a secret: it can be replaced as a whole, but not seen."""
    damaged: bool = False
    """True if the stored arguments cannot be read."""

    @property
    def cut(self) -> bool:
        """Return True if only the beginning is shown."""
        return self.length > len(self.text)

    @property
    def editable(self) -> bool:
        """Return True if the whole value is known to who edits it, or replaced."""
        return not self.damaged and (self.hidden or not self.cut)


class EditedField(Struct, frozen=True, kw_only=True):
    """A field as it was sent: its text, and how it was shown."""

    name: str
    as_text: bool
    text: str


def get_fields(access: Access, id: TaskId) -> list[ArgumentField]:
    """Return the arguments of a task as fields."""
    return [field for field, _ in _fields(access, id)]


def parse_fields(access: Access, id: TaskId, edited: Sequence[EditedField]) -> dict[str, Any]:
    """Return the arguments whose fields were changed, with their new values. The others stay as they are stored.

    Line breaks are `\\n`, however a browser sent them. An empty field keeps a secret.
    """
    known = {field.name: (field, stored) for field, stored in _fields(access, id)}
    changes: dict[str, Any] = {}
    for each in edited:
        if each.name not in known:
            raise InvalidTask(f"args: the task has no argument {shorten(each.name)}. Reload the page and try again.")
        field, stored = known[each.name]
        text = each.text.replace("\r\n", "\n")
        if text == ("" if field.hidden else _show(stored, as_text=each.as_text)):
            continue
        if not field.editable:
            raise InvalidTask(f"args: {each.name} cannot be edited here. Use `windlass dead edit`.")
        value = text if each.as_text else _decode(each.name, text)
        # A secret that is typed again counts as a change: otherwise the answer would say whether a guess is right.
        if field.hidden or canonical(value) != canonical(stored):
            changes[each.name] = value
    return changes


def show_value(value: object) -> str:
    """Return text as it is, and anything else as indented JSON."""
    return _show(value, as_text=isinstance(value, str))


def _fields(access: Access, id: TaskId) -> list[tuple[ArgumentField, Any]]:
    """Return the fields with the stored values."""
    task = access.task(id)
    schema, stored = access.catalog.parameters(task.handler), json_object(task.args)
    shown = decode_stored(redact_task(task, access.catalog).args, is_object=True)
    described, definitions = _mapping(schema.get("properties")), _mapping(schema.get("$defs"))
    found: list[tuple[ArgumentField, Any]] = []
    for name, value in cast("dict[str, Any]", shown).items():
        declared, original = described.get(name), stored.get(name)
        hidden, kinds = name in stored and value != original, _kinds(declared, definitions, 0)
        as_text = isinstance(original, str) and kinds in (None, {"string"})
        if as_text and not hidden:
            # A field of a form cannot hold a carriage return, and what reorders text must be seen.
            as_text = escape_controls(cast("str", original)) == original
        whole = _show(value, as_text=as_text or (hidden and isinstance(value, str)))
        field = ArgumentField(
            name=name,
            type=_type_name(declared, definitions, 0) or _type_of(original),
            as_text=as_text,
            takes_text=kinds is None or not kinds.isdisjoint({"string", "array", "object"}),
            text=whole[:MOST_CHARACTERS],
            length=len(whole),
            hidden=hidden,
            damaged=name not in stored,
        )
        found.append((field, original))
    return found


def _show(value: object, *, as_text: bool) -> str:
    if as_text and isinstance(value, str):
        return value
    return escape_json(msgspec.json.format(msgspec.json.encode(value)).decode())


def _decode(name: str, text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidTask(f"args: {name}={shorten(text)} is not JSON ({error}). Put text in double quotes.") from None


def _kinds(schema: object, definitions: Mapping[str, Any], depth: int) -> frozenset[str] | None:
    """Return the JSON types that a schema allows; None if it does not say. Schemas come from workers."""
    known = _mapping(schema)
    if not known or depth > MAX_DEPTH:
        return None
    if "$ref" in known:
        return _kinds(definitions.get(_target(known)), definitions, depth + 1)
    options = known.get("anyOf", known.get("oneOf"))
    if isinstance(options, list):
        each = [_kinds(option, definitions, depth + 1) for option in cast("list[Any]", options)]
        return None if None in each else frozenset(kind for kinds in each if kinds for kind in kinds)
    values = known.get("enum")
    if isinstance(values, list):
        return frozenset(_type_of(value) for value in cast("list[Any]", values))
    named = known.get("type")
    names = cast("list[Any]", named) if isinstance(named, list) else [named]
    return frozenset(cast("list[str]", names)) if all(isinstance(name, str) for name in names) else None


def _type_name(schema: object, definitions: Mapping[str, Any], depth: int) -> str:
    """Return the type that a schema declares, as people read it; nothing if it declares none."""
    known = _mapping(schema)
    if not known or depth > MAX_DEPTH:
        return ""
    if "$ref" in known:
        name, values = _target(known), _mapping(definitions.get(_target(known))).get("enum")
        return f"{name} ({_name_choices(cast('list[Any]', values))})" if isinstance(values, list) else name
    options = known.get("anyOf", known.get("oneOf"))
    if isinstance(options, list):
        names = [_type_name(option, definitions, depth + 1) for option in cast("list[Any]", options)]
        return " or ".join(names) if all(names) else ""
    values, named = known.get("enum"), known.get("type")
    if isinstance(values, list):
        return _name_choices(cast("list[Any]", values))
    return str(known.get("format", named)) if isinstance(named, str) else ""


def _name_choices(values: list[Any]) -> str:
    return f"one of {len(values)} values" if len(values) > MOST_CHOICES else " or ".join(map(show_value, values))


def _target(schema: Mapping[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _type_of(value: object) -> str:
    names: dict[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array"}
    return "null" if value is None else names.get(type(value), "object")


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
