"""Verbs for many tasks at once, chosen by a filter: counted first, then done.

A cancel or a retry is one operation of the store: tasks wait for each other, so one page of them must not be changed
before the next is known. A purge goes in short batches, with word of each, and stops when whoever asked goes away. What
a filter finds is what a reader could have found by eye, so no verb is a way to learn what is secret.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from windlass.core.lifecycle import FINAL, UNFINISHED, State
from windlass.core.query import parse
from windlass.core.task import TaskId
from windlass.errors import Refused
from windlass.operations.caller import Scope
from windlass.operations.find_tasks import find_shown, is_plain
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.server.http.streaming import Live
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Cursor, Filter, Page, Selection
from windlass.wire.schemas import Reason

route = Routes("tasks")

TOGETHER = 500
"""How many tasks are taken in one batch."""
ERRORS = ("invalid_filter", "invalid_task")


class ByFilter(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tasks."""

    q: Annotated[str, Meta(min_length=1, max_length=4_000)]
    """The filter language, as in `state:failed handler:mail`; one that means everything is refused."""
    dry_run: bool = False
    """Only count."""


class Done(Struct, frozen=True, kw_only=True):
    """How far it has come: `done` of the `total` tasks that matched when it began."""

    done: int
    total: int


@route("POST", "/tasks:cancel", Scope.OPERATE, errors=ERRORS)
async def cancel_tasks(call: Call, live: Live, body: ByFilter) -> AsyncGenerator[Sequence[Done]]:
    """Cancel the unfinished tasks that match. Running ones are asked to stop, and made to after ten seconds."""
    why = body.why or f"cancelled by {body.by or call.caller.name}"
    async for part in _BulkAction(call, body, "cancelled", UNFINISHED).at_once(
        live, partial(call.store.cancel, reason=why)
    ):
        yield part


@route("POST", "/tasks:retry", Scope.OPERATE, errors=ERRORS)
async def retry_tasks(call: Call, live: Live, body: ByFilter) -> AsyncGenerator[Sequence[Done]]:
    """Bring back the failed, cancelled and expired tasks that match, with fresh counters."""
    states = [state for state in FINAL if state.ended_badly]
    async for part in _BulkAction(call, body, "retried", states).at_once(live, call.store.retry):
        yield part


@route("POST", "/tasks:purge", Scope.OPERATE, errors=ERRORS)
async def purge_tasks(call: Call, live: Live, body: ByFilter) -> AsyncGenerator[Sequence[Done]]:
    """Remove the finished tasks that match, dead letters too, for good."""
    async for part in _BulkAction(call, body, "purged", FINAL).in_batches(live, call.store.purge):
        yield part


class _Verb(Protocol):
    """What is done to some tasks; to how many it was."""

    def __call__(self, which: Selection, *, entries: Sequence[Entry]) -> int: ...


class _BulkAction:
    """One verb, on its way through what matches."""

    def __init__(self, call: Call, body: ByFilter, done: str, states: Sequence[State] | frozenset[State]) -> None:
        query = parse(body.q)
        if not query.conditions:
            raise Refused("invalid_filter", "q means every task; name at least one condition", field="q")
        self._call, self._body, self._word = call, body, done
        who = call.caller
        self._filter = Filter(states=frozenset(states), queue=who.queue, tenant=who.tenant, query=query)
        # The store cannot judge by what is shown: then the tasks are named one by one.
        self._ids: list[TaskId] | None = None if is_plain(query) else []

    async def at_once(self, live: Live, do: _Verb) -> AsyncGenerator[Sequence[Done]]:
        """Count, and do it in one operation of the store."""
        total = await self._count(live)
        yield [Done(done=0, total=total)]
        if self._body.dry_run or not total:
            return
        which = self._filter if self._ids is None else self._ids
        done = await live.run(lambda: do(which, entries=[self._entry(total)]))
        yield [Done(done=done, total=total)]

    async def in_batches(self, live: Live, do: _Verb) -> AsyncGenerator[Sequence[Done]]:
        """Count, and do it; the first batch that changes anything is written down with what was asked."""
        total = await self._count(live)
        yield [Done(done=0, total=total)]
        if self._body.dry_run or not total:
            return
        entries, done, after = [self._entry(total)], 0, None
        while True:
            page = await live.run(lambda after=after: self._page(after))
            ids = [task.id for task in page.tasks]
            number = await live.run(lambda ids=ids, entries=entries: do(ids, entries=entries)) if ids else 0
            entries = [] if number else entries
            done += number
            yield [Done(done=done, total=total)]
            after = page.after
            if after is None:
                return

    async def _count(self, live: Live) -> int:
        """How many tasks match; and which, if the store cannot tell."""
        total, after = 0, None
        while True:
            page = await live.run(lambda after=after: self._page(after))
            total, after = total + len(page.tasks), page.after
            if self._ids is not None:
                self._ids += [task.id for task in page.tasks]
            if after is None:
                return total

    def _page(self, after: Cursor | None) -> Page:
        return find_shown(self._call.store, self._call.handlers, self._filter, TOGETHER, after)

    def _entry(self, total: int) -> Entry:
        why = f": {self._body.why}" if self._body.why else ""
        text = f"{self._word} what matches {self._body.q!r}, {total:,} task{'s' * (total != 1)}{why}"
        return self._call.entry("tasks", self._word, text[:2_000], q=self._body.q, total=total, by=self._body.by)
