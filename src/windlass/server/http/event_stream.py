"""Server-sent events: the same resume rules, heartbeats and token checks for every event stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from windlass.clock import monotonic
from windlass.errors import Refused, StoreError
from windlass.server.events.broadcaster import Subscriber
from windlass.server.events.topics import Topic
from windlass.server.http.streaming import Live
from windlass.wire.events import AuditEvent, Event

EVENT_STREAM = "text/event-stream"
HEARTBEAT_SECONDS = 15.0
RECONNECT_MS = 2_000
"""How long a browser waits before it reconnects."""

Events = TypeVar("Events")


class EventStream(Struct, Generic[Events], frozen=True, kw_only=True):
    """What a handler returns to start an event stream. `Events` are the types of its events, for the document."""

    topic: Topic
    seconds: float | None = None
    """When to end the stream; None if only the client ends it."""


async def send_events(live: Live, stream: EventStream[Event], last_id: str | None) -> AsyncGenerator[bytes]:
    """Yield the events of a stream: first the audit entries missed since `last_id`, then changes as they happen."""
    subscriber = await live.broadcaster.join(stream.topic, _entry_number(last_id))
    try:
        yield f"retry: {RECONNECT_MS}\n\n".encode() + b"".join(map(encode_event, subscriber.missed))
        async for part in _follow(live, subscriber, stream.seconds):
            yield part
    finally:
        live.broadcaster.leave(subscriber)


def encode_event(event: Event) -> bytes:
    """Encode an event. Its JSON has no line breaks, so the data is one line."""
    kind = event.__struct_config__.tag
    id = f"id: {event.id}\n" if isinstance(event, AuditEvent) else ""
    return f"event: {kind}\n{id}data: ".encode() + msgspec.json.encode(event.data, order="deterministic") + b"\n\n"


async def _follow(live: Live, subscriber: Subscriber, seconds: float | None) -> AsyncGenerator[bytes]:
    end = float("inf") if seconds is None else monotonic() + seconds
    heartbeat = monotonic() + HEARTBEAT_SECONDS
    while (now := monotonic()) < end:
        if now >= heartbeat:
            if not await _is_allowed(live):
                return
            heartbeat = now + HEARTBEAT_SECONDS
            yield b": heartbeat\n\n"
        try:
            async with asyncio.timeout(min(heartbeat, end) - now):
                event = await subscriber.events.get()
        except TimeoutError:
            continue
        if event is None:
            return
        yield encode_event(event)


async def _is_allowed(live: Live) -> bool:
    """Return False once the token is revoked or expired. While the store does not answer, the stream stays open."""
    try:
        await live.check()
    except StoreError:
        return True
    except Refused as error:
        return error.code in ("overloaded", "timed_out")
    return True


def _entry_number(text: str | None) -> int | None:
    """Return the number of the last audit entry that the client has seen. Other ids did not come from here."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else None
