"""Set the events of workflows in the memory store."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.core.task import Wait
from windlass.core.waits import check_can_set, check_event, event_key, new_event
from windlass.stores.coordination import Entry, check_entries
from windlass.stores.memory.graph import resolve
from windlass.stores.memory.submit import MemorySubmit
from windlass.stores.memory.waits import complete_wait
from windlass.stores.operator import EventSet


class MemoryEvents(MemorySubmit):
    """Set the events of workflows."""

    def set_event(
        self,
        workflow: str,
        event: str,
        value: str | None = None,
        *,
        tenant: str = "default",
        entries: Sequence[Entry] = (),
    ) -> EventSet:
        check_event(workflow, event, tenant)
        checked, id = check_entries(entries), keyed_id(tenant, workflow, event_key(event))
        with self._lock:
            task, now = self._tables.tasks.get(id), self._clock.now()
            if task is None:
                wait = Wait(event=event, is_set=True, value=value)
                [receipt] = self.submit([new_event(workflow, event, tenant=tenant, wait=wait)], entries=entries)
                return EventSet(id, True, receipt.state)
            wait = task.wait or Wait(event=event)
            if not check_can_set(
                event, value, task=id, state=task.state, wait=wait, result=task.result, reason=task.reason
            ):
                return EventSet(id, False, task.state)
            if task.state is State.SCHEDULED:
                task = complete_wait(self._tables, id, value, now)
                resolve(self._tables, [id], now)
            else:
                task = self._tables.change(id, wait=replace(wait, is_set=True, value=value))
            self._tables.note(checked, now)
            self._work.notify_all()
            return EventSet(id, True, task.state)
