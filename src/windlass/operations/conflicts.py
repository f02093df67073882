"""Change what others may change at the same moment: read, decide, write if nothing has changed, else read again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from windlass.errors import ChangedMeanwhile, Conflict
from windlass.stores.coordination import Control, Entry
from windlass.stores.protocol import Store, TaskReader

T = TypeVar("T")

TRIES = 5


def retry_on_conflict(subject: str, attempt: Callable[[], T]) -> T:
    """Call `attempt` until it raises no `Conflict`. Raise `ChangedMeanwhile` after `TRIES` calls."""
    for _ in range(TRIES):
        try:
            return attempt()
        except Conflict:
            continue
    raise ChangedMeanwhile(subject)


def find_control(store: TaskReader, kind: str, name: str) -> Control | None:
    """Return a control, or None if there is none of this name."""
    return next((control for control in store.controls(kind) if control.name == name), None)


def write_control(
    store: Store, kind: str, name: str, value: str | None, *, version: int, entries: Sequence[Entry]
) -> None:
    """Write a control together with its audit entries. Raise `Conflict` if its version has changed."""
    if not store.put_control(kind, name, value, expect=version, entries=entries):
        raise Conflict(f"{kind} {name}")
