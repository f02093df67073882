"""A store as one caller may see and change it: the first argument of every operation."""

from __future__ import annotations

from msgspec.structs import replace

from windlass.clock import Clock, SystemClock
from windlass.core.task import Task, TaskId
from windlass.core.times import Micros
from windlass.errors import Refused, UnknownQueue, UnknownTask
from windlass.operations.caller import LOCAL, Caller
from windlass.operations.cursor_seal import CursorKey, CursorSeal
from windlass.operations.handler_catalog import HandlerCatalog
from windlass.stores.protocol import Count, Filter, Store


class Access:
    """The store, the caller, and what both need: the handlers' schemas and a clock. Opened per request or command."""

    def __init__(
        self,
        store: Store,
        caller: Caller = LOCAL,
        *,
        catalog: HandlerCatalog | None = None,
        clock: Clock | None = None,
        cursor_key: CursorKey | None = None,
    ) -> None:
        self.store, self.caller = store, caller
        self._key = cursor_key or CursorKey(store)
        self.seal = CursorSeal(self._key, caller)
        """Seals where pages end, so that a cursor shows nothing and serves only callers with the same limits."""
        self.catalog = catalog or HandlerCatalog(store)
        self._clock = clock or SystemClock()

    @property
    def now(self) -> Micros:
        """Return the time of this process. Leases are judged by the store's own clock."""
        return self._clock.now()

    def fingerprint(self, text: str) -> str:
        """Return a keyed hash of text that may be secret, as the audit log keeps it."""
        return self._key.fingerprint(text)

    @property
    def whole_store(self) -> Store:
        """Return the store, for what concerns all tenants and queues. Refuse a caller who is limited to one."""
        self.check_unlimited()
        return self.store

    def check_unlimited(self) -> None:
        """Refuse a caller who is limited to a tenant or a queue."""
        if self.caller.limited:
            name = self.caller.name
            raise Refused("forbidden", f"This covers all tenants and queues. Token {name!r} is limited to one of them.")

    def narrow(self, filter: Filter) -> Filter | None:
        """Limit a filter to the caller's tenant and queue. Return None if nothing is left."""
        tenant, queue = self.caller.tenant, self.caller.queue
        if tenant not in (None, filter.tenant or tenant) or queue not in (None, filter.queue or queue):
            return None
        return replace(filter, tenant=filter.tenant or tenant, queue=filter.queue or queue)

    def task(self, id: TaskId) -> Task:
        """Return a stored task, with its secrets. Refuse the id of a task that the caller may not see as unknown."""
        [task] = self.store.get([id])
        if task is None or not self.caller.can_see(task):
            raise UnknownTask(id)
        return task

    def counts(self) -> list[Count]:
        """Return the numbers of tasks that the caller may see, by queue, tenant and state."""
        tenant, queue = self.caller.tenant, self.caller.queue
        found = self.store.counts()
        return [each for each in found if tenant in (None, each.tenant) and queue in (None, each.queue)]

    def check_queue(self, name: str) -> None:
        """Refuse to change a queue that the caller may not see, or that is shared with other tenants."""
        if self.caller.queue not in (None, name):
            raise UnknownQueue(name)
        if self.caller.tenant is not None:
            raise Refused("forbidden", "All tenants share a queue, and this token is limited to one tenant.")
