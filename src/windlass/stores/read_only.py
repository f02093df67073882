"""A read-only view of a store: every call that would change something is refused.

It is used by `windlass top --read-only`, and by `windlass repro`, which runs handlers.
"""

from __future__ import annotations

from typing import Any, cast

from windlass.errors import NotAllowed
from windlass.stores.protocol import Store, TaskReader

READS = frozenset(name for name in dir(TaskReader) if not name.startswith("_")) | {"look", "close"}


def read_only(store: Store) -> Store:
    """Return a read-only view of a store."""
    return cast("Store", _ReadOnly(store))


class _ReadOnly:
    """A proxy of a store. Methods that are not known to be reads are refused."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        if name in READS:
            return getattr(self._store, name)
        if name.startswith("_"):
            raise AttributeError(name)

        def refuse(*_given: object, **_named: object) -> Any:
            raise NotAllowed(f"{name}: this store is open for reading only")

        return refuse
