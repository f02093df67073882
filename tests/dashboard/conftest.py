"""Fixtures: a dashboard over the memory store, called in this process as a browser would."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.support.tokens import create_token
from windlass.clock import ManualClock
from windlass.core.manifest import HandlerInfo, Manifest
from windlass.dashboard.app import dashboard_routes
from windlass.operations.caller import Scope
from windlass.server.app import create_app
from windlass.server.http.security_middleware import SecurityMiddleware
from windlass.server.settings import ServerSettings
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Store

BASE = "http://127.0.0.1:7878"
PARAMETERS = (
    '{"type": "object", "properties": {"to": {"type": "string"}, "n": {"type": "integer"}, '
    '"pin": {"type": "string", "x-secret": true}}}'
)
MANIFEST = Manifest(handlers=(HandlerInfo(name="mail", queue="post", parameters=PARAMETERS), HandlerInfo(name="work")))


class Browser:
    """A browser without scripts: follows redirects, keeps cookies, and sends the forms of the page it shows."""

    def __init__(self, app: SecurityMiddleware, base: str = BASE) -> None:
        self.app = app
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app),
            base_url=base,
            headers={"Accept": "text/html"},
            follow_redirects=True,
        )
        self.page = httpx.Response(200)

    @property
    def text(self) -> str:
        return self.page.text

    async def open(self, path: str) -> str:
        """Open a page, which must exist."""
        self.page = await self.client.get(path)
        assert self.page.status_code == 200, f"{path}: {self.page.status_code} {self.page.text[-600:]}"
        return self.page.text

    @property
    def csrf(self) -> str:
        found = re.search(r'name="csrf" value="([0-9a-f]+)"', self.page.text)
        assert found is not None, "the page has no form"
        return found[1]

    async def post(self, path: str, **fields: Any) -> httpx.Response:
        """Send a form with the token of the page."""
        self.page = await self.client.post(path, data={"csrf": self.csrf, **fields})
        return self.page

    async def log_in(self, token: str) -> httpx.Response:
        self.page = await self.client.post("login", data={"token": token})
        return self.page


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> Iterator[MemoryStore]:
    store = MemoryStore(clock=clock)
    store.publish(MANIFEST)
    yield store
    store.close()


@pytest.fixture
async def browse(store: Store, clock: ManualClock) -> AsyncGenerator[Callable[..., Browser]]:
    """Return a factory of browsers, each of a server with the given settings."""
    browsers: list[Browser] = []

    def make(**settings: Any) -> Browser:
        app = create_app(store, ServerSettings(**settings), clock, dashboard_routes)
        browsers.append(Browser(app))
        return browsers[-1]

    yield make
    for browser in browsers:
        browser.app.end_streams()
        await browser.client.aclose()


@pytest.fixture
def browser(browse: Callable[..., Browser]) -> Browser:
    """A browser on the same machine, while the store has no tokens."""
    return browse()


@pytest.fixture
def token(store: Store, clock: ManualClock) -> Callable[..., str]:
    """Return a factory of tokens."""

    def make(*scopes: Scope, name: str = "", **options: Any) -> str:
        return create_token(store, name or "-".join(scopes), scopes, clock=clock, **options)

    return make
