"""What happens, told to all who listen: one look at the store every second for everybody together.

A listener is told what has changed since it was told last: the counts of queues, the pools, and every new entry of the
audit log. What it does not take in time is kept for it up to a bound; one that falls behind is let go, and comes back
with the number of the last entry it has seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from windlass.errors import WindlassError
from windlass.operations.pools import PoolView, look_at, pools_in
from windlass.server.http.store_executor import StoreExecutor
from windlass.stores.coordination import EntrySeen
from windlass.stores.protocol import Count, Store
from windlass.wire.shapes import entry_shape

EVERY_SECONDS = 1.0
KEPT = 64
"""Messages that wait for one listener."""
MISSED = 1_000
"""Entries of the audit log that are made good for one who comes back."""
_POOL_FIELDS = ("name", "target", "live", "ready", "running", "starting", "draining", "asleep", "sentence", "alerts")
"""What is told of a pool: nothing that changes with the passing of time alone."""


class Message(Struct, frozen=True):
    """One event."""

    kind: str
    data: bytes
    number: int | None = None
    """Its place in the audit log, if it is of there."""


class Interest(Struct, frozen=True, kw_only=True):
    """What a listener wants to hear, and may."""

    tenant: str | None = None
    queue: str | None = None
    pool: str | None = None
    whole: bool = True
    """Whether it may hear of what concerns all tenants and queues: pools and the audit log."""

    def wants(self, entry: EntrySeen) -> bool:
        """Whether an entry of the audit log is for it: all of them, or those of its queue and pool."""
        named = {f"queue/{self.queue}", f"pool/{self.pool}"}
        return self.whole and (self.queue is self.pool is None or entry.subject in named)


class Seen(Struct, frozen=True, kw_only=True):
    """One look at the store."""

    counts: Sequence[Count]
    pools: Sequence[PoolView]
    entries: Sequence[EntrySeen] = ()
    """Those since the look before, the oldest first."""


class Subscriber:
    """Somebody who listens."""

    def __init__(self, interest: Interest, missed: Sequence[EntrySeen] = (), number: int = 0) -> None:
        self.interest = interest
        self.missed = [_entry(entry) for entry in missed if interest.wants(entry)]
        """To be told first."""
        self.messages: asyncio.Queue[Message | None] = asyncio.Queue()
        """None is the end."""
        self._number = max([number, *(entry.number for entry in missed)])
        self._told: dict[str, bytes] = {}

    def send(self, seen: Seen, written: dict[tuple[str, Interest], bytes]) -> bool:
        """Take what is new to it; False when it has fallen too far behind. `written` is shared by all listeners."""
        for kind in ("counts", "pools") if self.interest.whole else ("counts",):
            if (kind, self.interest) not in written:
                written[kind, self.interest] = _state(kind, seen, self.interest)
            data = written[kind, self.interest]
            if self._told.get(kind) != data:
                self._told[kind] = data
                self.messages.put_nowait(Message(kind, data))
        for entry in seen.entries:
            if entry.number > self._number:
                self._number = entry.number
                if self.interest.wants(entry):
                    self.messages.put_nowait(_entry(entry))
        return self.messages.qsize() <= KEPT

    def end(self) -> None:
        """No more: what one does not take is not worth keeping."""
        while not self.messages.empty():
            self.messages.get_nowait()
        self.messages.put_nowait(None)


class Broadcaster:
    """Looks, and tells. Used from the loop alone."""

    def __init__(self, store: Store, threads: StoreExecutor) -> None:
        self._store, self._threads = store, threads
        self._listeners: set[Subscriber] = set()
        self._watching: asyncio.Task[None] | None = None
        self._latest: Seen | None = None
        self._number: int | None = None
        self.closed = False

    @property
    def listeners(self) -> int:
        """How many listen."""
        return len(self._listeners)

    async def join(self, interest: Interest, since: int | None = None) -> Subscriber:
        """Begin to listen; whoever says what it has seen last is told what it has missed."""
        missed: list[EntrySeen] = []
        if since is not None:
            missed = await self._threads.run(lambda: entries_since(self._store, since))
        listener = Subscriber(interest, missed, since or 0)
        if self._number is None and since is not None:  # The first look goes on from there, so that nothing is lost.
            self._number = max([since, *(entry.number for entry in missed)])
        if self._latest is not None:
            listener.send(msgspec.structs.replace(self._latest, entries=()), {})
        self._listeners.add(listener)
        if self.closed:
            listener.end()
        elif self._watching is None or self._watching.done():
            self._watching = asyncio.ensure_future(self._watch())
        return listener

    def leave(self, listener: Subscriber) -> None:
        """It does not listen any more."""
        self._listeners.discard(listener)

    def close(self) -> None:
        """Let everybody go."""
        self.closed = True
        for listener in self._listeners:
            listener.end()

    def broadcast(self, seen: Seen) -> None:
        """Tell everybody what is new to them; what many want to hear is written out once."""
        self._latest = seen
        written: dict[tuple[str, Interest], bytes] = {}
        for listener in list(self._listeners):
            if not listener.send(seen, written):
                self.leave(listener)
                listener.end()

    async def _watch(self) -> None:
        while self._listeners and not self.closed:
            with suppress(WindlassError):  # The store is away: there is no news until it is back.
                self.broadcast(await self._threads.run(self._look))
            await asyncio.sleep(EVERY_SECONDS)
        self._latest = self._number = None

    def _look(self) -> Seen:
        counts, since = self._store.counts(), self._number
        entries = self._store.audit(limit=1) if since is None else entries_since(self._store, since)
        self._number = max([since or 0, *(entry.number for entry in entries)])
        found = pools_in(look_at(self._store, counts))
        return Seen(counts=counts, pools=found, entries=() if since is None else entries)


def entries_since(store: Store, number: int) -> list[EntrySeen]:
    """What the audit log has after this number, the oldest first; of very many, the newest."""
    found = [entry for entry in store.audit(limit=100) if entry.number > number]
    if len(found) == 100:
        found = [entry for entry in store.audit(limit=MISSED) if entry.number > number]
    return found[::-1]


def _state(kind: str, seen: Seen, interest: Interest) -> bytes:
    if kind == "pools":
        views = [view for view in seen.pools if interest.pool in (None, view.name)]
        return msgspec.json.encode({"pools": [_pool(view) for view in views]})
    queues: dict[str, dict[str, int]] = {}
    for count in seen.counts:
        if count.tasks > 0 and interest.tenant in (None, count.tenant) and interest.queue in (None, count.queue):
            states = queues.setdefault(count.queue, {})
            states[count.state.value] = states.get(count.state.value, 0) + count.tasks
    return msgspec.json.encode({"queues": queues}, order="deterministic")


def _pool(view: PoolView) -> dict[str, object]:
    return {**{field: getattr(view, field) for field in _POOL_FIELDS}, "paused": view.paused is not None}


def _entry(entry: EntrySeen) -> Message:
    return Message("audit", msgspec.json.encode(entry_shape(entry)), entry.number)
