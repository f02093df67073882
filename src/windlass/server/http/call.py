"""The call object: what a route's handler knows about its request.

Handlers read and change the store through `access`, which limits a token to its tenant and queue. A resource outside of
that scope looks exactly like one that does not exist. Only routes that refuse limited tokens use `store` directly.
"""

from __future__ import annotations

from collections.abc import Mapping

from windlass.core.times import Micros
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.caller import Caller
from windlass.server.http.readiness import Readiness
from windlass.server.workers.http_workers import HttpWorkers
from windlass.stores.protocol import Store
from windlass.wire.fields import NO_REASON, Reason


class Call:
    """One request: what its caller may see, its headers, and the headers and status of the response."""

    def __init__(self, access: Access, headers: Mapping[str, str], workers: HttpWorkers, readiness: Readiness) -> None:
        self.access, self.headers, self.workers, self.readiness = access, headers, workers, readiness
        self.status: int | None = None
        """A successful status other than the route's own."""
        self.response_headers: dict[str, str] = {}

    @property
    def caller(self) -> Caller:
        """Return the caller."""
        return self.access.caller

    @property
    def store(self) -> Store:
        """Return the whole store."""
        return self.access.store

    @property
    def now(self) -> Micros:
        """Return the time by the server's clock. Leases are judged by the store's clock."""
        return self.access.now

    def author(self, reason: Reason = NO_REASON) -> Author:
        """Return the author of a change that this caller makes."""
        return Author(self.caller.name, reason.why, reason.by)
