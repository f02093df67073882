"""A store that can only be looked at: every call that would change something is refused.

For those who must not write even by mistake: `windlass top --read-only`, and `windlass repro`, which runs handlers.
"""

from __future__ import annotations

from typing import Any, cast

from windlass.errors import NotAllowed
from windlass.stores.protocol import Store, TaskReader

READS = frozenset(name for name in dir(TaskReader) if not name.startswith("_")) | {"look", "close"}


def read_only(store: Store) -> Store:
    """The same store, for looking only."""
    return cast("Store", _ReadOnly(store))


class _ReadOnly:
    """Stands in for a store. What is not known to be a read counts as a write."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        if name in READS:
            return getattr(self._store, name)
        if name.startswith("_"):
            raise AttributeError(name)

        def refuse(*_given: object, **_named: object) -> Any:
            raise NotAllowed(f"{name}: nothing is written to this store here; it is open for reading only")

        return refuse
