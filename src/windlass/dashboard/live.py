"""Live updates: each open tab has one event stream, which carries the regions of its page that changed.

Tabs that show the same page to people with the same rights share one view, which is drawn once for all of them: when
what the page follows has changed or another tab has joined, at most once a second, and never so often that drawing
takes more than a small share of a core. A tab that is slow gets the latest state, not a backlog.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import msgspec
from msgspec import Struct

from windlass.clock import monotonic
from windlass.dashboard.rendering import context_of, render_regions
from windlass.dashboard.site import Found, Site
from windlass.dashboard.visit import Looks, Place
from windlass.errors import Refused, StoreError, WindlassError
from windlass.operations.caller import Caller
from windlass.server.events.broadcaster import Subscriber
from windlass.server.events.topics import Topic

T = TypeVar("T")

EVERY = 1.0
"""The shortest time in seconds between two drawings of a view."""
CPU_SHARE = 0.02
"""The share of a core that drawing one view may take."""
WAIT_SHARE = 0.1
"""The share of time that drawing one view may take, including the time in which the store works."""
HEARTBEAT = 15.0
RECONNECT_MS = 2_000
OVERLOADED = ("overloaded", "timed_out")
UNAUTHORIZED, CLOSED = "unauthorized", "closed"
"""Why a stream ends: its session has ended, or the browser should open it again."""

Check = Callable[[], Awaitable[str]]
"""Returns why a stream must end; empty if it may go on. It is called at every heartbeat."""


class ViewKey(Struct, frozen=True, kw_only=True):
    """What decides how a page looks."""

    place: Place
    zone: str
    tenant: str | None
    queue: str | None
    scopes: frozenset[str]
    name: str = ""
    """Of the caller, on a page that shows it; empty on other pages, which people with the same rights share."""


class Regions(Struct, frozen=True):
    """The regions that a tab has not seen, and the version of the page that they are from."""

    number: int
    html: dict[str, str]


class View:
    """One page as some people see it."""

    def __init__(self, site: Site, key: ViewKey, caller: Caller, found: Found) -> None:
        self._site, self._key, self._caller, self._found = site, key, caller, found
        self._regions: dict[str, tuple[int, str]] = {}
        self._number = 0
        self._begun = 0
        self._changed, self._joined = asyncio.Event(), asyncio.Event()
        self.drawn = 0
        """How many drawings there were."""
        self.followers = 0
        self.ended = ""
        """Why no more drawings come; empty while they do."""
        self.stale = False
        """True while the store does not answer."""
        self.running = asyncio.ensure_future(self._run())

    def join(self) -> int:
        """Add a tab. Return the number of the next drawing: earlier ones can be older than the page the tab shows."""
        self.followers += 1
        self._joined.set()
        return self._begun + 1

    def since(self, number: int) -> Regions:
        """Return the regions that changed after a version of the page."""
        return Regions(self._number, {id: html for id, (at, html) in self._regions.items() if at > number})

    async def wait(self, seconds: float) -> None:
        """Wait until something changes, for some time."""
        changed = self._changed
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await changed.wait()

    async def _run(self) -> None:
        broadcaster = self._site.service.broadcaster
        subscriber: Subscriber | None = None
        try:
            topic = await self._call(self._topic)
            subscriber = await broadcaster.join(topic)
            while not self.ended:
                pause = await self._draw()
                await asyncio.sleep(pause)
                if self.followers == 0:
                    return
                if await self._is_over(subscriber):
                    return
        except WindlassError as error:
            self.ended = error.code
        finally:
            if subscriber is not None:
                broadcaster.leave(subscriber)
            self.ended = self.ended or CLOSED
            self._notify()

    async def _draw(self) -> float:
        """Draw the regions. Return how long to wait before the next drawing."""
        started = monotonic()
        self._joined.clear()
        self._begun += 1
        try:
            regions, cpu = await self._call(self._render)
        except (StoreError, Refused) as error:
            if isinstance(error, Refused) and error.code not in OVERLOADED:
                raise
            self.stale = True
            self._notify()
            return EVERY
        was_stale, self.stale = self.stale, False
        known = {id: html for id, (_, html) in self._regions.items()}
        changed = {id: html for id, html in regions.items() if known.get(id) != html}
        self.drawn = self._begun
        if changed or was_stale:
            self._number += 1
            self._regions.update({id: (self._number, html) for id, html in changed.items()})
        self._notify()
        return max(EVERY, cpu / CPU_SHARE, (monotonic() - started) / WAIT_SHARE)

    def _render(self) -> tuple[dict[str, str], float]:
        began = time.thread_time()
        page = self._found.page
        visit = self._site.visit(self._caller, self._key.place, Looks(zone=self._key.zone))
        content = page.function(visit, **self._found.arguments)
        regions = render_regions(page.template, context_of(visit, content, self._site))
        return regions, time.thread_time() - began

    def _topic(self) -> Topic:
        visit = self._site.visit(self._caller, self._key.place, Looks())
        return self._found.page.follows(visit, **self._found.arguments)

    async def _call(self, action: Callable[[], T]) -> T:
        return await self._site.service.lanes.reads.run(action, reads=True)

    async def _is_over(self, subscriber: Subscriber) -> bool:
        """Wait for an event or a new tab, for some time, and drop all events: each only says that something changed.

        Return True if the last one has come.
        """
        event, tab = asyncio.ensure_future(subscriber.events.get()), asyncio.ensure_future(self._joined.wait())
        try:
            await asyncio.wait({event, tab}, timeout=self._found.page.every, return_when=asyncio.FIRST_COMPLETED)
            found = [event.result()] if event.done() else []
        finally:
            event.cancel()
            tab.cancel()
        while not subscriber.events.empty():
            found.append(subscriber.events.get_nowait())
        return None in found

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class LiveViews:
    """The views that are open in a tab. Use it in the event loop only."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._views: dict[ViewKey, View] = {}

    async def follow(
        self,
        caller: Caller,
        place: Place,
        looks: Looks,
        found: Found,
        csrf: str,
        check: Check,
    ) -> AsyncGenerator[bytes]:
        """Yield the events of one tab: first the whole page, then what changes."""
        scopes = frozenset(map(str, caller.scopes))
        key = ViewKey(
            place=place,
            zone=looks.zone,
            tenant=caller.tenant,
            queue=caller.queue,
            scopes=scopes,
            name=caller.name if found.page.personal else "",
        )
        view = self._view(key, caller, found)
        first = view.join()
        try:
            yield f"retry: {RECONNECT_MS}\n\n".encode() + _event("hello", {"version": self._site.version})
            async for name, data in _events(view, first, check, self._site.stream_seconds):
                yield _event(name, data).replace(self._site.csrf_mark.encode(), csrf.encode())
        finally:
            view.followers -= 1
            if view.followers == 0 and self._views.get(key) is view:
                del self._views[key]

    def _view(self, key: ViewKey, caller: Caller, found: Found) -> View:
        view = self._views.get(key)
        if view is None or view.ended:
            view = self._views[key] = View(self._site, key, caller, found)
        return view


async def _events(view: View, first: int, check: Check, seconds: float | None) -> AsyncGenerator[tuple[str, object]]:
    """Yield the events of a tab that shows no drawing before the first one."""
    number, stale, heartbeat = 0, False, monotonic() + HEARTBEAT
    end = float("inf") if seconds is None else monotonic() + seconds
    while True:
        if view.ended or monotonic() >= end:
            yield "ended", {"why": view.ended or CLOSED}
            return
        news = view.since(number) if view.drawn >= first else Regions(number, {})
        if news.html or stale != view.stale:
            number, stale = news.number, view.stale
            yield "regions", {"regions": news.html, "stale": stale}
        if monotonic() >= heartbeat:
            if why := await check():
                yield "ended", {"why": why}
                return
            heartbeat = monotonic() + HEARTBEAT
            yield "heartbeat", {}
        await view.wait(max(0.0, min(heartbeat, end) - monotonic()))


def _event(name: str, data: object) -> bytes:
    """Encode an event. Its JSON has no line breaks, so the data is one line."""
    return f"event: {name}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"
