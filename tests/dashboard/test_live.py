from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import Any

import pytest

from tests.support.builders import submit_one
from tests.support.tokens import create_token
from windlass.core.ordering import Queue
from windlass.dashboard import live
from windlass.dashboard.live import LiveViews, View
from windlass.dashboard.pages.table import MODULES
from windlass.dashboard.site import Site
from windlass.dashboard.visit import Looks, Place
from windlass.errors import StoreUnavailable
from windlass.operations.caller import LOCAL, Caller, Scope
from windlass.server.events import broadcaster
from windlass.server.http.service import Service
from windlass.server.settings import ServerSettings
from windlass.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio
Stream = AsyncGenerator[bytes]


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcaster, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(live, "EVERY", 0.01)
    monkeypatch.setattr(live, "CPU_SHARE", 1.0)
    monkeypatch.setattr(live, "WAIT_SHARE", 1.0)


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    store = MemoryStore()
    yield store
    store.close()


@pytest.fixture
async def site(store: MemoryStore) -> AsyncGenerator[Site]:
    service = Service(store, ServerSettings())
    yield Site(service)
    await service.close()


async def allowed() -> str:
    return ""


def follow(
    views: LiveViews,
    site: Site,
    path: str = "/",
    caller: Caller = LOCAL,
    csrf: str = "token",
    check: Callable[[], Awaitable[str]] = allowed,
) -> Stream:
    return views.follow(caller, Place(path=path), Looks(), site.find(path, []), csrf, check)


async def read(stream: Stream, until: Callable[[str, Any], bool]) -> tuple[str, Any]:
    """Read events until one fits."""
    async with asyncio.timeout(10):
        async for part in stream:
            for event in part.decode().strip().split("\n\n"):
                if match := re.fullmatch(r"event: (\w+)\ndata: (.*)", event):
                    name, data = match[1], json.loads(match[2])
                    if until(name, data):
                        return name, data
    raise AssertionError("the stream ended")


def has_region(text: str) -> Callable[[str, Any], bool]:
    return lambda name, data: name == "regions" and any(text in html for html in data["regions"].values())


async def test_a_tab_gets_the_whole_page_and_then_what_changes(site: Site, store: MemoryStore) -> None:
    async with aclosing(follow(LiveViews(site), site, "/tasks")) as stream:
        _, first = await read(stream, lambda name, _: name == "regions")
        assert {"live_banners", "live_tasks", "live_total", "live_facets"} <= first["regions"].keys()

        id = submit_one(store)
        _, news = await read(stream, has_region(f'data-id="{id}"'))

        assert "live_banners" not in news["regions"], "what has not changed is not sent again"


async def test_another_tab_gets_nothing_older_than_its_page(
    site: Site, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "EVERY", 1.0)
    views = LiveViews(site)
    async with aclosing(follow(views, site, "/queues")) as first:
        await read(first, lambda name, _: name == "regions")
        store.configure(Queue(name="bulk"))  # The first tab sees it a second later.
        async with aclosing(follow(views, site, "/queues")) as second:
            _, seen = await read(second, lambda name, _: name == "regions")

    assert "bulk" in json.dumps(seen)


PAGES = [page for module in MODULES for page in module.pages]


@pytest.mark.parametrize("path", [page.path for page in PAGES if page.nav is not None])
async def test_every_page_of_an_empty_store_is_live(site: Site, path: str) -> None:
    async with aclosing(follow(LiveViews(site), site, path)) as stream:
        _, first = await read(stream, lambda name, _: name in ("regions", "ended"))

    assert "live_banners" in first.get("regions", first)


async def test_tabs_with_equal_rights_share_one_view_and_have_their_own_form_tokens(
    site: Site, store: MemoryStore
) -> None:
    views = LiveViews(site)
    store.configure(Queue(name="bulk", paused=True, paused_by="ops"))
    other = Caller(name="bob", scopes=LOCAL.scopes)
    reader = Caller(name="eve", scopes=frozenset({Scope.READ}))

    async with (
        aclosing(follow(views, site, csrf="of-ann")) as one,
        aclosing(follow(views, site, csrf="of-bob", caller=other)) as two,
        aclosing(follow(views, site, csrf="of-eve", caller=reader)) as three,
    ):
        await read(one, has_region('value="of-ann"'))
        await read(two, has_region('value="of-bob"'))
        _, seen = await read(three, lambda name, _: name == "regions")

        assert len(views._views) == 2  # pyright: ignore[reportPrivateUsage]
        assert "of-eve" not in json.dumps(seen), "without the scope operate nobody gets a form"
    assert not views._views, "nobody looks any more"  # pyright: ignore[reportPrivateUsage]


async def test_a_page_that_shows_whose_session_it_is_is_drawn_for_each_caller(site: Site, store: MemoryStore) -> None:
    for name in ("alice", "bob"):
        create_token(store, name, [Scope.ADMIN])
    views = LiveViews(site)
    alice, bob = (Caller(name=name, scopes=frozenset({Scope.ADMIN})) for name in ("alice", "bob"))

    async with (
        aclosing(follow(views, site, "/settings", caller=alice)) as one,
        aclosing(follow(views, site, "/settings", caller=bob)) as two,
    ):
        for stream, name in ((one, "alice"), (two, "bob")):
            _, seen = await read(stream, lambda name, _: name == "regions")
            rows = seen["regions"]["live_tokens"].split("<tr ")
            assert [row.partition('"')[2].partition('"')[0] for row in rows if ">you<" in row] == [f"token-{name}"]


async def test_a_stream_ends_when_the_session_does(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "HEARTBEAT", 0.0)

    async def refused() -> str:
        return "unauthorized"

    async with aclosing(follow(LiveViews(site), site, check=refused)) as stream:
        assert (await read(stream, lambda name, _: name == "ended"))[1] == {"why": "unauthorized"}


async def test_a_page_says_that_the_store_does_not_answer_and_recovers(
    site: Site, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with aclosing(follow(LiveViews(site), site)) as stream:
        await read(stream, lambda name, _: name == "regions")

        render = View._render  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr(View, "_render", _unavailable)
        submit_one(store)
        await read(stream, lambda name, data: name == "regions" and data["stale"])
        monkeypatch.setattr(View, "_render", render)
        submit_one(store)
        await read(stream, lambda name, data: name == "regions" and not data["stale"])


async def test_the_page_of_a_task_that_is_deleted_ends(site: Site, store: MemoryStore) -> None:
    id = submit_one(store)
    store.cancel([id], reason="x")

    async with aclosing(follow(LiveViews(site), site, f"/tasks/{id}")) as stream:
        await read(stream, lambda name, _: name == "regions")
        store.purge([id])
        await read(stream, lambda name, _: name == "ended")


async def test_streams_end_with_the_server(site: Site) -> None:
    async with aclosing(follow(LiveViews(site), site)) as stream:
        await read(stream, lambda name, _: name == "regions")
        site.service.end_streams()
        assert (await read(stream, lambda name, _: name == "ended"))[1] == {"why": "closed"}


def _unavailable(_: View) -> Any:
    raise StoreUnavailable("gone")
