"""Sends changes to all subscribers, with one read of the store per second for all of them together.

A subscriber receives the whole state of its topic when it joins and whenever that state changes, and every new audit
entry of the topic. Messages wait for a slow subscriber up to a limit; beyond it the stream ends, and the client can
resume after the last audit entry it has seen.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial

from msgspec import Struct

from windlass.clock import monotonic
from windlass.errors import WindlassError
from windlass.operations.handler_catalog import HandlerCatalog
from windlass.operations.redact import redact_entry
from windlass.server.events.topics import States, Topic, WorkflowTopic, read_states
from windlass.server.http.store_executor import StoreExecutor
from windlass.stores.coordination import EntrySeen
from windlass.stores.protocol import Store
from windlass.wire.audit import entry_shape
from windlass.wire.events import AuditEvent, Event

logger = logging.getLogger("windlass.server")

POLL_SECONDS = 1.0
JOIN_SECONDS = 0.1
"""The shortest time between two reads, even if subscribers join all the time."""
MAX_WAITING = 64
"""How many events may wait for one subscriber when new ones arrive."""
MAX_MISSED = 1_000
"""How many missed audit entries a subscriber gets when it resumes."""
MAX_PAUSE = 30.0
"""The longest pause in seconds after reads that failed unexpectedly."""
MAX_COST = 0.05
"""The share of time that reading one workflow may take. A large workflow is read less often than once per second."""


class Snapshot(Struct, frozen=True, kw_only=True):
    """One read of the store."""

    states: States
    entries: Sequence[EntrySeen] = ()
    """The audit entries since the previous read, oldest first."""
    since: int | None = None
    """The audit entry after which `entries` start; None for a first read, which takes none."""
    number: int = 0
    """The number of the newest audit entry."""
    due: Mapping[Topic, float] = {}
    """When to read each workflow again."""


class Subscriber:
    """One open event stream."""

    def __init__(self, topic: Topic, missed: Sequence[EntrySeen] = (), number: int = 0) -> None:
        self.topic = topic
        self.missed: list[Event] = [audit_event(entry) for entry in missed if topic.includes(entry)]
        """Audit entries to send first."""
        self.events: asyncio.Queue[Event | None] = asyncio.Queue()
        """Events to send. None ends the stream."""
        self._number = max([number, *(entry.number for entry in missed)])
        self._sent: dict[type[Event], Event] = {}

    def update(self, snapshot: Snapshot) -> bool:
        """Queue what is new to this subscriber. Return False if its stream must end.

        A subscriber that has left earlier events unread does not keep up. One that gets many at once, as when a person
        changes a thousand things in a loop, has the time until the next read for them.
        """
        keeps_up = self.events.qsize() <= MAX_WAITING
        states = snapshot.states.get(self.topic)
        for event in states or ():
            if self._sent.get(type(event)) != event:
                self._sent[type(event)] = event
                self.events.put_nowait(event)
        for entry in snapshot.entries:
            if entry.number > self._number:
                self._number = entry.number
                if self.topic.includes(entry):
                    self.events.put_nowait(audit_event(entry))
        exists = states is None or len(states) > 0
        return exists and keeps_up

    def end(self) -> None:
        """Drop the waiting events and end the stream."""
        while not self.events.empty():
            self.events.get_nowait()
        self.events.put_nowait(None)


class Broadcaster:
    """Reads the store and updates the subscribers. Use it in the event loop only."""

    def __init__(self, store: Store, threads: StoreExecutor, catalog: HandlerCatalog | None = None) -> None:
        self._store, self._threads, self._catalog = store, threads, catalog or HandlerCatalog(store)
        self._subscribers: set[Subscriber] = set()
        self._watching: asyncio.Task[None] | None = None
        self._joined = asyncio.Event()
        self._states: States = {}
        self._due: Mapping[Topic, float] = {}
        self._number: int | None = None
        self.closed = False

    @property
    def subscribers(self) -> int:
        """Return the number of open streams."""
        return len(self._subscribers)

    async def join(self, topic: Topic, since: int | None = None) -> Subscriber:
        """Subscribe to a topic. With `since`, resume after that audit entry."""
        missed: list[EntrySeen] = []
        if since is not None:
            since, missed = await self._threads.run(partial(resume, self._store, since))
        subscriber = Subscriber(topic, missed, since or 0)
        if self._number is None and since is not None:  # The first read continues there, so that no entry is lost.
            self._number = max([since, *(entry.number for entry in missed)])
        if topic in self._states:
            subscriber.update(Snapshot(states=self._states))
        self._subscribers.add(subscriber)
        if self.closed:
            subscriber.end()
        elif self._watching is None or self._watching.done():
            self._watching = asyncio.ensure_future(self._watch())
        elif topic not in self._states:
            self._joined.set()
        return subscriber

    def leave(self, subscriber: Subscriber) -> None:
        """Unsubscribe."""
        self._subscribers.discard(subscriber)

    def close(self) -> None:
        """End all streams."""
        self.closed = True
        for subscriber in self._subscribers:
            subscriber.end()

    async def _watch(self) -> None:
        pause = 0.0
        while self._subscribers and not self.closed:
            self._joined.clear()
            topics = {subscriber.topic for subscriber in self._subscribers}
            try:
                self._apply(await self._threads.run(partial(self._read, topics)))
                pause = 0.0
            except WindlassError:
                pause = 0.0  # The store is unavailable. The next read finds what has changed.
            except Exception:
                pause = min(MAX_PAUSE, 2 * pause or POLL_SECONDS)
                logger.exception("cannot read the events, trying again in %g s", pause)
            await asyncio.sleep(pause or min(JOIN_SECONDS, POLL_SECONDS))
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, POLL_SECONDS - JOIN_SECONDS)):
                    await self._joined.wait()
        self._states, self._due, self._number = {}, {}, None

    def _read(self, topics: Collection[Topic]) -> Snapshot:
        """Read the topics that are due, and the new audit entries. Runs in a thread."""
        now = monotonic()
        states: dict[Topic, Sequence[Event]] = {}
        due: dict[Topic, float] = {}
        for topic in topics:
            if isinstance(topic, WorkflowTopic):
                if self._due.get(topic, now) > now:
                    states[topic], due[topic] = self._states[topic], self._due[topic]
                    continue
                started = monotonic()
                states |= read_states(self._store, self._catalog, [topic])
                due[topic] = started + (monotonic() - started) / MAX_COST
        others = [topic for topic in topics if not isinstance(topic, WorkflowTopic)]
        states |= read_states(self._store, self._catalog, others)
        since = self._number
        if since is None:
            newest = self._store.audit(limit=1)
            return Snapshot(states=states, due=due, number=newest[0].number if newest else 0)
        entries = entries_since(self._store, since)
        number = max([since, *(entry.number for entry in entries)])
        return Snapshot(states=states, due=due, entries=entries, since=since, number=number)

    def _apply(self, snapshot: Snapshot) -> None:
        self._states, self._due = snapshot.states, snapshot.due
        # If a subscriber resumed during the first read, the next read must start where its missed entries end.
        if snapshot.since is not None or self._number is None:
            self._number = snapshot.number
        for subscriber in list(self._subscribers):
            if not subscriber.update(snapshot):
                self.leave(subscriber)
                subscriber.end()


def resume(store: Store, number: int) -> tuple[int, list[EntrySeen]]:
    """Return where to resume, and the entries after it. A number that is not in use yet counts as the newest entry."""
    newest = store.audit(limit=1)
    number = min(number, newest[0].number if newest else 0)
    return number, entries_since(store, number)


def entries_since(store: Store, number: int) -> list[EntrySeen]:
    """Return the audit entries after this number, oldest first; if there are too many, the newest of them."""
    found = [entry for entry in store.audit(limit=100) if entry.number > number]
    if len(found) == 100:
        found = [entry for entry in store.audit(limit=MAX_MISSED) if entry.number > number]
    return found[::-1]


def audit_event(entry: EntrySeen) -> AuditEvent:
    """Return the event for an audit entry. Its id is the number of the entry."""
    return AuditEvent(id=str(entry.number), data=entry_shape(redact_entry(entry)))
