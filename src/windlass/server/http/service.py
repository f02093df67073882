"""The state that all requests of one server share."""

from __future__ import annotations

import asyncio

from windlass.clock import Clock, SystemClock
from windlass.operations.caller import Scope
from windlass.operations.cursor_seal import CursorKey
from windlass.operations.handler_catalog import HandlerCatalog
from windlass.operations.tokens import Keyring
from windlass.server.background import BackgroundThreads
from windlass.server.events.broadcaster import Broadcaster
from windlass.server.http.auth import Authenticator
from windlass.server.http.body_budget import BodyBudget
from windlass.server.http.rate_limit import ConcurrencyLimiter, RateLimiter
from windlass.server.http.readiness import Readiness
from windlass.server.http.routing import Route
from windlass.server.http.store_executor import StoreExecutor, StoreLanes
from windlass.server.settings import ServerSettings
from windlass.server.workers.http_workers import HttpWorkers
from windlass.stores.protocol import Store


class Service:
    """The store, its threads, and everything built on them once per server."""

    def __init__(self, store: Store, settings: ServerSettings, clock: Clock | None = None) -> None:
        self.store, self.settings, self.clock = store, settings, clock or SystemClock()
        self.lanes = StoreLanes(settings.threads, settings.backlog, settings.request_seconds)
        self.auth = Authenticator(Keyring(store, clock), settings, self.lanes.operators)
        self.rate_limiter = RateLimiter(settings.rate)
        self.concurrency = ConcurrencyLimiter(settings.requests_per_token)
        self.handlers = HandlerCatalog(store)
        self.cursor_key = CursorKey(store)
        self.readiness = Readiness()
        self.bodies = BodyBudget()
        self.workers = HttpWorkers(store)
        self.background = BackgroundThreads()
        self.broadcaster = Broadcaster(store, self.lanes.operators, self.handlers)

    def threads(self, route: Route) -> StoreExecutor:
        """Return the threads that serve a route."""
        match route.scope:
            case Scope.SUBMIT | Scope.WORK:
                return self.lanes.work
            case Scope.READ if not route.without_store:
                return self.lanes.reads
            case _:
                return self.lanes.operators

    def end_streams(self) -> None:
        """Answer waiting claims and end event streams, so that the server can stop. Call it in the event loop."""
        self.workers.close()
        self.broadcaster.close()

    async def close(self) -> None:
        """End streams and background threads."""
        self.end_streams()
        await asyncio.to_thread(self.workers.join)
        await asyncio.to_thread(self.background.close)
        self.lanes.close()
