"""Hides secrets: values found by name, by a handler's `Secret[...]` annotation, or by form (URLs).

Everything that people see (API, command line, logs, events) goes through here. The store and the workers have the
original value. Names are matched broadly: hiding one word too many does less harm than showing a password.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias, TypeVar, cast, overload

import msgspec

T = TypeVar("T")

HIDDEN = "[redacted]"

Secret: TypeAlias = Annotated[T, msgspec.Meta(extra_json_schema={"writeOnly": True, "x-secret": True})]
"""An argument that is never shown: `def charge(card: Secret[str])`. For the handler and type checkers it is a `str`.

The mark is part of the parameter's JSON schema, which nodes publish, so processes that do not import the app see it.
"""

_ANYWHERE = re.compile(
    r"passw|passphrase|token|secret|authori[sz]ation|cookie|credential|apikey|privatekey", re.IGNORECASE
)
_AS_A_WORD = frozenset({"key", "keys", "dsn", "pwd", "auth"})
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Both start with literal text and have bounded repetition, so that a megabyte of any text is scanned quickly.
_URL = re.compile(r"""://(?P<user>[^\s/?#@:'"]{0,200}):(?P<word>[^\s/?#'"]{0,500})@""")
_ASSIGNMENT = re.compile(
    r"""(?i)(?P<name>(?:passw(?:or)?d|passphrase|token|secret|authorization|credential|api[_-]?key|dsn)\w{0,20})"""
    r"""(?P<between>["']?\s{0,3}[=:]\s{0,3})"""
    r"""(?!\[redacted\](?:[\s,;&)}\]"']|$))(?P<value>\[redacted\][^\s,;&)}\]]+|"[^"]{0,2000}"|'[^']{0,2000}'|(?:Bearer\s|Basic\s)?[^\s,;&)}\]]+)"""
)


def is_secret(name: str) -> bool:
    """Return whether a value of this name must be hidden.

    >>> [name for name in ("apiKey", "monkey", "db_password", "to") if is_secret(name)]
    ['apiKey', 'db_password']
    """
    if _ANYWHERE.search(name):
        return True
    return not _AS_A_WORD.isdisjoint(word.lower() for word in _WORD.findall(name))


def redact(value: Any, schema: Mapping[str, Any] | None = None) -> Any:
    """Replace secrets in plain JSON, found by their name or by the schema."""
    return _Redaction(schema or {}).redact(value, schema or {})


@overload
def redact_text(text: str) -> str: ...
@overload
def redact_text(text: str | None) -> str | None: ...
def redact_text(text: str | None) -> str | None:
    """Replace passwords in URLs and values of secret names in text such as an error or a log line."""
    if text is None:
        return None
    text = _URL.sub(rf"://\g<user>:{HIDDEN}@", text)
    return _ASSIGNMENT.sub(rf"\g<name>\g<between>{HIDDEN}", text)


class _Redaction:
    """Walks a value together with its schema. A value that the schema does not describe is judged by its name."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._defined: Mapping[str, Any] = root.get("$defs", {})

    def redact(self, value: Any, schema: Mapping[str, Any]) -> Any:
        schemas = self._choices(schema)
        if any(each.get("x-secret") for each in schemas):
            return None if value is None else HIDDEN
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            return {name: self._member(name, member, schemas) for name, member in members.items()}
        if isinstance(value, list):
            items = cast("list[Any]", value)
            return [self.redact(item, self._item(schemas, index)) for index, item in enumerate(items)]
        return redact_text(value) if isinstance(value, str) and "://" in value else value

    def _member(self, name: str, value: Any, schemas: list[Mapping[str, Any]]) -> Any:
        if is_secret(name) and value is not None:
            return HIDDEN
        found = [_member_schema(each, name) for each in schemas]
        return self.redact(value, {"anyOf": [schema for schema in found if schema]})

    def _item(self, schemas: list[Mapping[str, Any]], index: int) -> Mapping[str, Any]:
        found: list[Any] = []
        for each in schemas:
            first: list[Any] = each.get("prefixItems", [])
            found.append(first[index] if index < len(first) else each.get("items"))
        return {"anyOf": [schema for schema in found if isinstance(schema, dict)]}

    def _choices(self, schema: Mapping[str, Any], depth: int = 0) -> list[Mapping[str, Any]]:
        """Return every schema that may apply. A value that is secret in one of them is hidden."""
        found = [schema]
        if depth < 10:
            reference = str(schema.get("$ref", ""))
            further: list[Any] = [self._defined.get(reference.rpartition("/")[2], {})] if reference else []
            for word in ("anyOf", "oneOf", "allOf"):
                further += schema.get(word, [])
            for each in further:
                found += self._choices(each, depth + 1)
        return found


def _member_schema(schema: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the schema of one member of an object."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    found = properties.get(name, schema.get("additionalProperties"))
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}
