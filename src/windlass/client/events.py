"""Events of workflows in Python: `app.events`."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.client.app_store import AppStore, is_worker
from windlass.client.async_bridge import in_thread
from windlass.client.context import current_assignment
from windlass.client.handle import Handle
from windlass.core.ids import keyed_id
from windlass.core.payload import encode_result
from windlass.core.waits import check_event, event_key
from windlass.errors import InvalidPayload


class Events:
    """The events of workflows: set one, or get the step that waits for it."""

    def __init__(self, app_store: AppStore) -> None:
        self._app_store = app_store

    def set(
        self,
        workflow: str,
        event: str,
        value: Any = None,
        *,
        tenant: str | None = None,
        by: str = "",
        why: str = "",
    ) -> bool:
        """Set an event, so that the steps after `wf.wait_for(event)` run with this value. Return whether it is new.

        It may be set before the workflow exists. Setting it again to the same value returns False, to another value
        raises `EventConflict`, and after its step has expired or was cancelled raises `NotAllowed`. `by` and `why` go
        into the audit log; without `by`, the name of the user or of the running task.

        >>> app.events.set("order:7", "approved", {"by": "ada"}, why="checked the invoice")
        """
        store: Any = self._app_store.store
        plain = _plain(value)
        running = current_assignment()
        if tenant is None and running is not None:
            tenant = running.tenant
        if is_worker():  # The node writes the audit log.
            return store.set_event(
                workflow, event, encode_result(plain, name="value"), tenant=tenant, by=by, why=why
            ).changed
        from windlass.operations.access import Access  # Large imports that no other call needs.
        from windlass.operations.author import Author, user_name
        from windlass.operations.events import set_event

        author = Author(by or user_name(), why) if running is None else Author(f"task {running.task}", why, by)
        return set_event(Access(store), workflow, event, plain, author, tenant=tenant).changed

    async def aset(
        self,
        workflow: str,
        event: str,
        value: Any = None,
        *,
        tenant: str | None = None,
        by: str = "",
        why: str = "",
    ) -> bool:
        """Async version of `set`."""
        return await in_thread(lambda: self.set(workflow, event, value, tenant=tenant, by=by, why=why))

    def step(self, workflow: str, event: str, *, tenant: str = "default") -> Handle[Any]:
        """Return a handle for the step of an event, whether it exists or not. Its result is the value of the event."""
        check_event(workflow, event, tenant)
        return Handle(self._app_store, keyed_id(tenant, workflow, event_key(event)))


def _plain(value: Any) -> Any:
    try:
        return msgspec.to_builtins(value, str_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidPayload(f"value: a {type(value).__qualname__} cannot be encoded as JSON: {error}") from None
