"""What a route's handler is given: the store, who asks, and where to put what the answer's headers say."""

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
from windlass.redaction import redacted_text
from windlass.server.http_workers import HttpWorkers
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Store


class Call:
    """One request, as far as a handler needs to know it."""

    def __init__(
        self,
        store: Store,
        offers: HandlerCatalog,
        workforce: HttpWorkers,
        who: Caller,
        headers: Mapping[str, str],
        clock: Clock,
    ) -> None:
        self.store, self.offers, self.workforce, self.who, self.headers = store, offers, workforce, who, headers
        self._clock = clock
        self.status: int | None = None
        """Another good status than the route's own."""
        self.said: dict[str, str] = {}
        """Headers of the answer."""

    @property
    def now(self) -> Micros:
        """By the server's clock; what concerns leases is judged by the store's own."""
        return self._clock.now()

    def task(self, id: TaskId) -> Task:
        """A task that this caller sees. Another tenant's is answered exactly as one that does not exist."""
        [task] = self.store.get([id])
        if task is None or not self.who.can_see(task):
            raise UnknownTask(id)
        return task

    def check_queue(self, name: str) -> None:
        """Refuse a queue that does not exist for this caller, and one that is shared with other tenants."""
        if self.who.queue not in (None, name):
            raise Refused("unknown_queue", f"unknown queue: {name}")
        if self.who.tenant is not None:
            raise Refused("forbidden", "a queue is shared by all tenants, and this token is limited to one of them")

    def entry(self, subject: str, action: str, text: str, **data: Any) -> Entry:
        """What this caller does, for the audit log: to be written with the deed itself."""
        given = msgspec.json.encode(data).decode() if data else ""
        return Entry(subject=subject, action=action, text=redacted_text(text), by=self.who.name, data=given)

    def note(self, subject: str, action: str, text: str, **data: Any) -> None:
        """Write down what this caller did, where the deed itself takes no entry."""
        self.store.note([self.entry(subject, action, text, **data)])
