"""The memory store: one class per group of methods, each in the file of that name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from windlass.stores.memory.claim import MemoryClaim
from windlass.stores.memory.coordination import MemoryCoordination
from windlass.stores.memory.dead_letters import MemoryDeadLetters
from windlass.stores.memory.events import MemoryEvents
from windlass.stores.memory.manifest import MemoryManifest
from windlass.stores.memory.operate import MemoryOperate
from windlass.stores.memory.read import MemoryRead
from windlass.stores.memory.series import MemorySeries
from windlass.stores.memory.sessions import MemorySessions
from windlass.stores.memory.settle import MemorySettle
from windlass.stores.memory.sweep import MemorySweep
from windlass.stores.memory.update import MemoryUpdate
from windlass.stores.memory.workflows import MemoryWorkflows


class MemoryStore(
    MemoryWorkflows,
    MemoryEvents,
    MemorySessions,
    MemoryClaim,
    MemorySettle,
    MemorySweep,
    MemoryOperate,
    MemoryUpdate,
    MemoryManifest,
    MemoryCoordination,
    MemoryRead,
    MemoryDeadLetters,
    MemorySeries,
):
    """A store in memory: the specification of all stores, and a fast one for tests.

    >>> store = MemoryStore()
    >>> [receipt] = store.submit([NewTask(handler="hello")])
    >>> session = store.open_session("here")
    >>> [claim] = store.claim(session, ["default"], limit=10)
    >>> store.settle([(claim.lease, COMPLETED)])
    """

    def wait_for_work(self, queues: Sequence[str], timeout: timedelta) -> bool:
        with self._work:
            token, now = self._tables.next_token, self._clock.now()
            if token is not None:
                timeout = min(timeout, timedelta(microseconds=max(0, token - now)))
            return self._work.wait(timeout.total_seconds()) or token is not None

    def close(self) -> None:
        with self._work:
            self._work.notify_all()
