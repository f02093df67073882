"""What the app's nodes offer, as they have published it: which handlers there are, and what they take.

A task of a handler that nobody knows, or with arguments that it does not have, is refused where it is submitted and not
found out in the night. What was read is gone by for a moment only; an unknown name is always looked up again.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Any

from msgspec import Struct

from windlass.clock import monotonic
from windlass.core.manifest import HandlerInfo, HandlerSeen
from windlass.core.payload import json_object
from windlass.errors import InvalidTask
from windlass.stores.protocol import TaskReader

REMEMBERED = 2.0
AT_LEAST = 0.1
"""How long a name stays unknown, in seconds, before the store is asked again."""


class UnknownHandler(InvalidTask):
    """No node has ever offered a handler of this name."""

    code = "unknown_handler"


class CatalogEntry(Struct, frozen=True, kw_only=True):
    """One handler, and the schema of its arguments."""

    info: HandlerSeen
    parameters: Mapping[str, Any]


class HandlerCatalog:
    """The handlers that a store knows."""

    def __init__(self, store: TaskReader) -> None:
        self._store = store
        self._lock = Lock()
        self._offers: dict[str, CatalogEntry] = {}
        self._read: float | None = None

    def info(self, name: str) -> HandlerSeen:
        """A handler by its name."""
        offer = self._find(name)
        if offer is None:
            names = ", ".join(sorted(self._offers)[:20]) or "none yet: start a worker once, or say unchecked"
            raise UnknownHandler(f"handler={name!r} is not known to any node; published are: {names}")
        return offer.info

    def parameters(self, name: str) -> Mapping[str, Any]:
        """The schema of a handler's arguments; empty if it is not known."""
        offer = self._find(name)
        return {} if offer is None else offer.parameters

    def check(self, name: str, given: Mapping[str, Any]) -> None:
        """Refuse names that the handler does not have, and say which are missing."""
        check_arguments(name, self.parameters(name), given)

    def _find(self, name: str) -> CatalogEntry | None:
        with self._lock:
            age = None if self._read is None else monotonic() - self._read
            if age is None or age > (REMEMBERED if name in self._offers else AT_LEAST):
                found = self._store.handlers()
                self._offers = {
                    each.name: CatalogEntry(info=each, parameters=json_object(each.parameters)) for each in found
                }
                self._read = monotonic()
            return self._offers.get(name)


def check_arguments(handler: str, schema: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Hold the names of arguments against a handler's schema."""
    known: Mapping[str, Any] = schema.get("properties", {})
    required: list[str] = schema.get("required", [])
    is_closed = schema.get("additionalProperties", not known) is False
    wrong = sorted(given.keys() - known.keys()) if is_closed else []
    missing = [name for name in required if name not in given]
    if wrong or missing:
        takes = ", ".join(known) or "no arguments"
        raise InvalidTask(
            f"args: {handler} takes {takes}"
            + (f"; unknown: {', '.join(wrong)}" if wrong else "")
            + (f"; missing: {', '.join(missing)}" if missing else "")
        )


def unchecked_handler(name: str) -> HandlerInfo:
    """A handler that nobody has published, taken on trust."""
    return HandlerInfo(name=name)
