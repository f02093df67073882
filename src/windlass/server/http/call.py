"""The call object: what a route's handler knows about its request.

Handlers see and change things through `access`, which limits a token to its tenant and queue.
"""

from __future__ import annotations

from collections.abc import Mapping

from windlass.clock import Clock
from windlass.core.times import Micros
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.caller import Caller
from windlass.operations.handler_catalog import HandlerCatalog
from windlass.server.workers.http_workers import HttpWorkers
from windlass.stores.protocol import Store
from windlass.wire.fields import NO_REASON, Reason


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
        self.access = Access(store, caller, catalog=handlers, clock=clock)
        self._clock = clock
        self.status: int | None = None
        """A successful status other than the route's own."""
        self.response_headers: dict[str, str] = {}

    @property
    def now(self) -> Micros:
        """Return the time by the server's clock. Leases are judged by the store's clock."""
        return self._clock.now()

    def author(self, reason: Reason = NO_REASON) -> Author:
        """Return the author of a change that this caller makes."""
        return Author(self.caller.name, reason.why, reason.by)
