"""What people set of a queue: a pause, its end, other settings; what they do not name stays as it is.

Each is written with its line in the audit log, in the same transaction. Of two who set different things of one queue at
the same moment both get what they want. One place for the command line, the HTTP API and the terminal pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from windlass.core.ordering import Queue
from windlass.errors import ChangedMeanwhile, Conflict
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Store, TaskReader

TRIES = 5
RESUMED: Mapping[str, Any] = {"paused": False, "paused_by": None, "paused_why": None}


def paused(by: str, why: str) -> Mapping[str, Any]:
    """The settings of a pause: everybody sees whose it is."""
    return {"paused": True, "paused_by": by, "paused_why": why or None}


def change_queue(store: Store, name: str, settings: Mapping[str, Any], entry: Entry) -> bool:
    """Set these of a queue's settings; whether that has changed anything. Only then there is an entry."""
    for _ in range(TRIES):
        before = queue_of(store, name)
        wanted = replace(before, **settings)
        try:
            store.configure(wanted, expect=before, entries=[entry])
        except Conflict:
            continue
        return wanted != before
    raise ChangedMeanwhile(f"the queue {name}")


def queue_of(store: TaskReader, name: str) -> Queue:
    """A queue as it is set now; one that nobody has configured has the defaults."""
    return next((queue for queue in store.queues() if queue.name == name), Queue(name=name))
