"""Hides secrets: values found by name, by a handler's `Secret[...]` annotation, or by form (URLs).

Everything that people see (API, command line, logs, events) goes through here. The store and the workers have the
original value. Names are matched broadly: hiding one word too many does less harm than showing a password.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias, TypeVar, cast, overload

import msgspec

T = TypeVar("T")

HIDDEN = "[redacted]"
MAX_PASSES = 5
MAX_SCHEMAS = 32
"""How many schemas may apply to one value. Beyond that the value is hidden."""
_SECRET: Mapping[str, Any] = {"x-secret": True}

Schemas: TypeAlias = tuple[Mapping[str, Any], ...]

Secret: TypeAlias = Annotated[T, msgspec.Meta(extra_json_schema={"writeOnly": True, "x-secret": True})]
"""An argument that is never shown: `def charge(card: Secret[str])`. For the handler and type checkers it is a `str`.

The mark is part of the parameter's JSON schema, which nodes publish, so processes that do not import the app see it.
"""

_ANYWHERE = re.compile(
    r"passw|passphrase|token|secret|authori[sz]ation|cookie|credential|apikey|privatekey", re.IGNORECASE
)
_AS_A_WORD = frozenset({"key", "keys", "dsn", "pwd", "auth"})
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# All start with literal text and have bounded repetition, so that a megabyte of any text is scanned quickly.
_URL = re.compile(r"""://(?P<user>[^\s/?#@:'"]{0,200}):(?P<word>[^\s/?#'"]{0,500})@""")
_URL_TOKEN = re.compile(r"""://(?P<word>[^\s/?#@:'"\[]{20,200})@""")
_PEM = re.compile(r"-----BEGIN (?P<kind>[A-Z0-9 ]{0,40}PRIVATE KEY)-----.*?(?:-----END (?P=kind)-----|\Z)", re.DOTALL)
_HEADER = re.compile(
    r"""(?i)(?P<name>authorization|cookie)(?:"""
    r"""(?P<colon>\s{0,3}:\s{0,3})[^\s"'{}][^\n"'{}]{0,8000}|"""
    r"""(?P<quoted>["']\s{0,3}:\s{0,3})(?:"[^"\n]{0,8000}"|'[^'\n]{0,8000}'))"""
)
"""A header has a value to the end of its line, whatever its scheme is; as a member of an object, a quoted one."""
_TOKEN = re.compile(r"(?P<kind>\bwdl_|\b[Bb]earer )[A-Za-z0-9._~+/=-]{20,}")
_ASSIGNMENT = re.compile(
    r"""(?i)(?P<name>(?:passw(?:or)?d|passphrase|token|secret|authorization|credential|(?:api|access|private)[_-]?key|dsn)\w{0,20})"""
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


def hides(name: str, schema: Mapping[str, Any]) -> bool:
    """Return whether an argument of this name is hidden, for a handler with this schema of arguments."""
    return redact({name: 0}, schema)[name] == HIDDEN


def redact(value: Any, schema: Mapping[str, Any] | None = None) -> Any:
    """Replace secrets in plain JSON, found by their name or by the schema."""
    redaction = _Redaction(schema or {})
    return redaction.redact(value, redaction.start(schema or {}))


@overload
def redact_text(text: str) -> str: ...
@overload
def redact_text(text: str | None) -> str | None: ...
def redact_text(text: str | None) -> str | None:
    """Replace passwords in URLs, private keys, headers with secrets and values of secret names in any text."""
    if text is None:
        return None
    # What stands in for a secret may complete another one, as in `password=""token=`. Most texts have none.
    for _ in range(MAX_PASSES):
        before, text = text, _redact_once(text)
        if text == before:
            break
    return text


def _redact_once(text: str) -> str:
    text = _PEM.sub(HIDDEN, text)
    text = _URL.sub(rf"://\g<user>:{HIDDEN}@", text)
    text = _URL_TOKEN.sub(f"://{HIDDEN}@", text)
    text = _HEADER.sub(rf"\g<name>\g<colon>\g<quoted>{HIDDEN}", text)
    text = _TOKEN.sub(rf"\g<kind>{HIDDEN}", text)
    return _ASSIGNMENT.sub(rf"\g<name>\g<between>{HIDDEN}", text)


class _Redaction:
    """Walks a value together with its schemas. A value that no schema describes is judged by its name.

    Schemas come from workers, so nothing is assumed about their form, and the number of schemas that may apply to one
    value is limited: beyond it, the value is hidden.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._defined = _mapping(root.get("$defs"))
        self._found: dict[tuple[object, ...], Schemas] = {}
        """The schemas of members and items that were looked up before."""

    def start(self, root: Mapping[str, Any]) -> Schemas:
        """Return the schemas that may apply to the whole value."""
        return self._expand([root])

    def redact(self, value: Any, schemas: Schemas) -> Any:
        if any(each.get("x-secret") for each in schemas):
            return None if value is None else HIDDEN
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            return {name: self._member(name, member, schemas) for name, member in members.items()}
        if isinstance(value, list):
            items = cast("list[Any]", value)
            return [self.redact(item, self._item(schemas, index)) for index, item in enumerate(items)]
        return redact_text(value) if isinstance(value, str) else value

    def _member(self, name: str, value: Any, schemas: Schemas) -> Any:
        if is_secret(name) and value is not None:
            return HIDDEN
        if not schemas:
            return self.redact(value, schemas)
        key = (name, *map(id, schemas))
        if key not in self._found:
            self._found[key] = self._expand([_member_schema(each, name) for each in schemas])
        return self.redact(value, self._found[key])

    def _item(self, schemas: Schemas, index: int) -> Schemas:
        if not schemas:
            return schemas
        longest = max(len(_sequence(each.get("prefixItems"))) for each in schemas)
        key = (min(index, longest), *map(id, schemas))
        if key not in self._found:
            self._found[key] = self._expand([_item_schema(each, index) for each in schemas])
        return self._found[key]

    def _expand(self, schemas: Sequence[Any]) -> Schemas:
        """Return every schema that may apply. A value that is secret in one of them is hidden."""
        found: dict[int, Mapping[str, Any]] = {}
        waiting = [each for each in schemas if each]
        while waiting:
            schema = _mapping(waiting.pop())
            if not schema or id(schema) in found:
                continue
            found[id(schema)] = schema
            if len(found) > MAX_SCHEMAS:
                return (_SECRET,)
            waiting.append(self._defined.get(str(schema.get("$ref", "")).rpartition("/")[2]))
            for word in ("anyOf", "oneOf", "allOf"):
                waiting += _sequence(schema.get(word))[: MAX_SCHEMAS + 1]
        return tuple(found.values())


def _member_schema(schema: Mapping[str, Any], name: str) -> Any:
    """Return the schema of one member of an object."""
    return _mapping(schema.get("properties")).get(name, schema.get("additionalProperties"))


def _item_schema(schema: Mapping[str, Any], index: int) -> Any:
    """Return the schema of one item of a list."""
    first = _sequence(schema.get("prefixItems"))
    return first[index] if index < len(first) else schema.get("items")


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _sequence(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
