"""The handlers that nodes have published, and the arguments that they take.

A submit with an unknown handler or with wrong arguments is refused at once, instead of failing later in a worker. The
catalog is read again every two seconds, and sooner for an unknown name.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from threading import Lock
from typing import Any, cast

from msgspec import Struct

from windlass.clock import monotonic
from windlass.core.argument_types import find_type_error
from windlass.core.limit_keys import refuse_secrets
from windlass.core.manifest import HandlerInfo, HandlerSeen
from windlass.core.payload import json_object
from windlass.errors import InvalidTask
from windlass.redaction import hides
from windlass.stores.protocol import TaskReader

REMEMBERED = 2.0
"""For how many seconds the catalog is used after it was read."""
UNKNOWN_SECONDS = 0.1
"""After how many seconds an unknown name is looked up again."""


class UnknownHandler(InvalidTask):
    """No node has published a handler of this name."""

    code = "unknown_handler"


class CatalogEntry(Struct, frozen=True, kw_only=True):
    """A handler and the schemas of its arguments and its result."""

    info: HandlerSeen
    parameters: Mapping[str, Any]
    returns: Mapping[str, Any]


class HandlerCatalog:
    """The published handlers of a store."""

    def __init__(self, store: TaskReader) -> None:
        self._store = store
        self._lock = Lock()
        self._entries: dict[str, CatalogEntry] = {}
        self._read: float | None = None

    def info(self, name: str) -> HandlerSeen:
        """Return a handler. Raise `UnknownHandler` if none was published under this name."""
        entry = self._find(name)
        if entry is None:
            raise UnknownHandler(f"handler={name!r} is unknown. {self._hint(name)}")
        return entry.info

    def _hint(self, name: str) -> str:
        known = sorted(self._entries)
        if not known:
            unchecked = "skip this check with `--unchecked`, over HTTP with `?unchecked=true`"
            return f"No node has published a handler yet. Start a worker, or {unchecked}."
        close = get_close_matches(name, known, 3, cutoff=0.5)
        if close:
            return f"Did you mean {' or '.join(close)}?"
        return f"Published handlers: {', '.join(known[:20])}."

    def parameters(self, name: str) -> Mapping[str, Any]:
        """Return the schema of a handler's arguments; empty if it is unknown."""
        entry = self._find(name)
        return {} if entry is None else entry.parameters

    def returns(self, name: str) -> Mapping[str, Any]:
        """Return the schema of a handler's result; empty if it is unknown."""
        entry = self._find(name)
        return {} if entry is None else entry.returns

    def key_template(self, name: str) -> str | None:
        """Return the key of the limit that a handler declares; None if it is unknown or has none."""
        entry = self._find(name)
        return None if entry is None else entry.info.new_task_template().limit

    def check(self, name: str, given: Mapping[str, Any]) -> None:
        """Refuse unknown and missing arguments, and arguments of a wrong type."""
        check_arguments(name, self.parameters(name), given)

    def check_key(self, name: str, template: object) -> None:
        """Refuse the key of a limit with a secret argument in it."""
        schema: Mapping[str, Any] = {} if template is None else self.parameters(name)
        refuse_secrets(template, lambda argument: hides(argument, schema))

    def _find(self, name: str) -> CatalogEntry | None:
        with self._lock:
            age = None if self._read is None else monotonic() - self._read
            if age is None or age > (REMEMBERED if name in self._entries else UNKNOWN_SECONDS):
                found = self._store.handlers()
                self._entries = {
                    each.name: CatalogEntry(
                        info=each, parameters=json_object(each.parameters), returns=json_object(each.returns)
                    )
                    for each in found
                }
                self._read = monotonic()
            return self._entries.get(name)


def check_arguments(handler: str, schema: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Check the names and the types of arguments against a handler's schema."""
    known, required = _names(schema.get("properties")), _names(schema.get("required"))
    is_closed = schema.get("additionalProperties", not known) is False
    wrong = sorted(given.keys() - set(known)) if is_closed else []
    missing = [name for name in required if name not in given]
    if wrong or missing:
        takes = ", ".join(known) or "no arguments"
        raise InvalidTask(
            f"args: {handler} takes {takes}."
            + (f" Unknown: {', '.join(wrong)}." if wrong else "")
            + (f" Missing: {', '.join(missing)}." if missing else "")
        )
    types = schema.get("properties")
    described = cast("dict[str, Any]", types) if isinstance(types, dict) else {}
    wrong = [error for name in given if (error := find_type_error(name, given[name], described.get(name)))]
    if wrong:
        raise InvalidTask(f"args: {'; '.join(wrong)}. On the command line, name=text is text and name:=JSON is JSON.")


def _names(value: object) -> list[str]:
    """Return the names in a part of a schema. Schemas come from workers, so it may be anything."""
    found = cast("list[Any]", value) if isinstance(value, dict | list) else []
    return [each for each in found if isinstance(each, str)]


def unchecked_handler(name: str) -> HandlerInfo:
    """Return a handler that was not published, without checks."""
    return HandlerInfo(name=name)
