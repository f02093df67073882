"""The call object: what a route's handler knows about its request.

Scoping lives here. A token may be limited to one tenant or one queue; handlers read tasks, filters and queues through
the call, so a resource outside of the token's scope looks exactly like one that does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.clock import Clock
from windlass.core.task import Task, TaskId
from windlass.core.times import Micros
from windlass.errors import Refused, UnknownTask
from windlass.operations.caller import Caller
from windlass.operations.handler_catalog import HandlerCatalog
from windlass.redaction import redact_text
from windlass.server.workers.http_workers import HttpWorkers
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Store


class Call:
    """One request: the store, the caller, and the headers and status of the response."""

    def __init__(
        self,
        *,
        store: Store,
        handlers: HandlerCatalog,
        workers: HttpWorkers,
        caller: Caller,
        headers: Mapping[str, str],
        clock: Clock,
    ) -> None:
        self.store, self.handlers, self.workers = store, handlers, workers
        self.caller, self.headers = caller, headers
        self._clock = clock
        self.status: int | None = None
        """A successful status other than the route's own."""
        self.response_headers: dict[str, str] = {}

    @property
    def now(self) -> Micros:
        """Return the time by the server's clock. Leases are judged by the store's clock."""
        return self._clock.now()

    def task(self, id: TaskId) -> Task:
        """Return a task the caller may see, or raise `UnknownTask`."""
        [task] = self.store.get([id])
        if task is None or not self.caller.can_see(task):
            raise UnknownTask(id)
        return task

    def check_queue(self, name: str) -> None:
        """Refuse a queue that the caller may not see, and any queue if the token is limited to a tenant."""
        if self.caller.queue not in (None, name):
            raise Refused("unknown_queue", f"Unknown queue: {name}")
        if self.caller.tenant is not None:
            raise Refused("forbidden", "All tenants share a queue, and this token is limited to one tenant.")

    def entry(self, subject: str, action: str, text: str, **data: Any) -> Entry:
        """Return an audit entry by this caller, to be written in the same transaction as the action."""
        given = msgspec.json.encode(data).decode() if data else ""
        return Entry(subject=subject, action=action, text=redact_text(text), by=self.caller.name, data=given)

    def note(self, subject: str, action: str, text: str, **data: Any) -> None:
        """Write an audit entry for an action that cannot write its own."""
        self.store.note([self.entry(subject, action, text, **data)])
