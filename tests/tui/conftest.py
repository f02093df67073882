"""The terminal pages over a memory store, driven by keys, and their text as a person sees it."""

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
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Store
from windlass.tui.app import Top
from windlass.tui.messages import Again

NOON = 1_800_014_400_000_000
"""2027-01-15 12:00:00 UTC."""
PATIENCE_SECONDS = 30.0
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
    """Makes the pages over the store; they are read when something is pressed, not by the clock."""

    def make(opened: Callable[[], Store] | None = None, **options: Any) -> Top:
        given: dict[str, Any] = {"by": "ann", "every": NEVER, **options}
        return Top(opened or (lambda: store), **given)

    return make


def seen(pilot: Pilot[None]) -> str:
    """What stands on the screen."""
    strips = pilot.app.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage] - no public way to text
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


async def until(pilot: Pilot[None], text: str, *, gone: bool = False) -> str:
    """Wait until a text, given as a pattern, stands on the screen, or is gone from it; all that stands there then."""
    give_up_at = monotonic() + PATIENCE_SECONDS
    while bool(re.search(text, seen(pilot))) is gone:
        assert monotonic() < give_up_at, f"{'still' if gone else 'not'} seen: {text}\n{seen(pilot)}"
        await pilot.pause(0.01)
    return seen(pilot)


async def read_again(pilot: Pilot[None], text: str, *, gone: bool = False) -> str:
    """Have the store read once more, as the passing second would, and wait for what comes of it."""
    pilot.app.post_message(Again())
    return await until(pilot, text, gone=gone)


def with_pool(store: Store) -> None:
    """A node that is alive, with a pool called `mail`."""
    session = store.open_session("node-a", about="{}")
    pool = PoolReport(queues=("mail",), target=3, ready=2, running=1, floor=1, ceiling=8, most=8, deaths=1)
    store.report(session, msgspec.json.encode(NodeReport(pools={"mail": pool})).decode())
