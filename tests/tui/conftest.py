"""The terminal pages over a memory store, driven by keys, and the text on the screen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot

from windlass.autoscale.observe import NodeReport, PoolReport
from windlass.clock import ManualClock, monotonic
from windlass.core.manifest import HandlerInfo, Manifest
from windlass.core.task import SessionId
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Store
from windlass.tui.app import Top
from windlass.tui.messages import Refresh

NOON = 1_800_014_400_000_000
"""2027-01-15 12:00:00 UTC."""
TIMEOUT_SECONDS = 30.0
NEVER = 3_600.0

Open = Callable[..., Top]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
def store(clock: ManualClock) -> Iterator[MemoryStore]:
    store = MemoryStore(clock=clock)
    store.publish(Manifest(handlers=(HandlerInfo(name="work"),)))
    yield store
    store.close()


@pytest.fixture
def top(store: Store) -> Open:
    """Makes the app over the store. It reads the store after keys, not every second."""

    def make(opened: Callable[[], Store] | None = None, **options: Any) -> Top:
        given: dict[str, Any] = {"by": "ann", "every": NEVER, **options}
        return Top(opened or (lambda: store), **given)

    return make


def screen_text(pilot: Pilot[None]) -> str:
    """Return the text on the screen."""
    strips = pilot.app.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage] - no public way to text
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


async def until(pilot: Pilot[None], text: str, *, gone: bool = False) -> str:
    """Wait until a pattern matches the screen, or with `gone` no longer matches. Return the text on the screen."""
    give_up_at = monotonic() + TIMEOUT_SECONDS
    while bool(re.search(text, screen_text(pilot))) is gone:
        assert monotonic() < give_up_at, f"{'still' if gone else 'not'} on the screen: {text}\n{screen_text(pilot)}"
        await pilot.pause(0.01)
    return screen_text(pilot)


async def read_again(pilot: Pilot[None], text: str, *, gone: bool = False) -> str:
    """Read the store again, as every second, and wait for a pattern on the screen."""
    pilot.app.post_message(Refresh())
    return await until(pilot, text, gone=gone)


def add_pool(store: Store) -> SessionId:
    """Add a running node with a pool `mail`."""
    session = store.open_session("node-a", about='{"pools": {"mail": {"queues": ["mail"]}}}')
    pool = PoolReport(queues=("mail",), target=3, ready=2, running=1, min=1, max=8, override_max=8, deaths=1)
    store.report(session, msgspec.json.encode(NodeReport(pools={"mail": pool})).decode())
    return session
