"""Server-sent events: what changes, as it changes, for dashboards and scripts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated

from msgspec import Meta, Struct

from windlass.clock import monotonic
from windlass.errors import Refused
from windlass.operations.caller import Scope
from windlass.server.events.broadcaster import Interest, Message, Subscriber
from windlass.server.http.call import Call
from windlass.server.http.routing import Mode, Routes
from windlass.server.http.streaming import Live
from windlass.wire.schemas import Name

route = Routes("events")

HEARTBEAT_SECONDS = 15.0
BACK_IN_MS = 2_000
"""After how long a browser that was cut off tries again."""


class Listen(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to hear of."""

    queue: Name | None = None
    pool: Name | None = None
    seconds: Annotated[float, Meta(ge=0, le=86_400)] | None = None
    """End after so long; without it, when you leave."""


@route(
    "GET",
    "/events",
    Scope.READ,
    headers=["Last-Event-ID"],
    errors=["unknown_queue"],
    mode=Mode.EVENTS,
    media_type="text/event-stream",
)
async def listen(call: Call, live: Live, query: Listen) -> AsyncGenerator[bytes]:
    """Counts of queues, pools and entries of the audit log as they change, as server-sent events.

    `counts` and `pools` tell a whole state, at most once a second and only when it has changed; `audit` tells one
    entry, whose number is the event's id: come back with `Last-Event-ID`, and you are told what you have missed (the
    newest 1,000). Who falls behind is cut off. A token that is limited hears the counts of its own tasks alone.
    """
    who = call.caller
    if who.queue not in (None, query.queue or who.queue):
        raise Refused("unknown_queue", f"unknown queue: {query.queue}")
    interest = Interest(tenant=who.tenant, queue=query.queue or who.queue, pool=query.pool, whole=not who.limited)
    listener = await live.broadcaster.join(interest, _number(call.headers.get("last-event-id")))
    try:
        yield f"retry: {BACK_IN_MS}\n\n".encode() + b"".join(map(written, listener.missed))
        async for part in _messages(live, listener, query.seconds):
            yield part
    finally:
        live.broadcaster.leave(listener)


def written(message: Message) -> bytes:
    """One event on the wire. JSON has no line ends of its own, so its data is one line."""
    id = b"" if message.number is None else b"id: %d\n" % message.number
    return b"event: %b\n%bdata: %b\n\n" % (message.kind.encode(), id, message.data)


async def _messages(live: Live, listener: Subscriber, seconds: float | None) -> AsyncGenerator[bytes]:
    end = float("inf") if seconds is None else monotonic() + seconds
    beat = monotonic() + HEARTBEAT_SECONDS
    while (now := monotonic()) < end:
        if now >= beat:
            if not await _is_allowed(live):
                return
            beat = now + HEARTBEAT_SECONDS
            yield b": still here\n\n"
        try:
            async with asyncio.timeout(min(beat, end) - now):
                message = await listener.messages.get()
        except TimeoutError:
            continue
        if message is None:
            return
        yield written(message)


async def _is_allowed(live: Live) -> bool:
    """Whether the token is still worth something."""
    try:
        await live.check()
    except Refused:
        return False
    return True


def _number(text: str | None) -> int | None:
    """The last that the listener has seen; what is no number was not ours."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else None
