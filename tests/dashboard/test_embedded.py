"""The dashboard inside other programs, under a path of their choice."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from tests.dashboard.conftest import Browser
from tests.support.builders import submit_one
from tests.support.tokens import create_token
from windlass import App
from windlass.operations.caller import Scope
from windlass.server.settings import ServerSettings
from windlass.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


async def check_links(client: httpx.AsyncClient, page: str) -> None:
    """Check that everything a page refers to is there, below the same path."""
    answer = await client.get(page)
    assert answer.status_code == 200, answer.text[-500:]
    links = set(re.findall(r'(?:href|src)="([^"#]+)"', answer.text))
    assert any("static/" in link for link in links)
    for link in links:
        found = await client.get(str(answer.url.join(link.replace("&amp;", "&"))), follow_redirects=True)
        assert found.status_code == 200 or link.strip("./") in ("pool", "dead"), (page, link)
        assert found.url.path.startswith("/x/y/"), (page, link)


async def test_fastapi_serves_it_under_a_path_with_login_by_token(store: MemoryStore) -> None:
    api = FastAPI()
    api.mount("/x/y", App(store=store).dashboard())
    token = create_token(store, "ann", [Scope.OPERATE])
    id = submit_one(store)
    base = "http://shop.example.org/x/y/"
    transport = httpx.ASGITransport(app=api)

    async with httpx.AsyncClient(
        transport=transport, base_url=base, headers={"Accept": "text/html"}, follow_redirects=True
    ) as client:
        assert (await client.get("http://shop.example.org/x/y")).url.path == "/x/y/login"
        answer = await client.post("login", data={"token": token})
        assert answer.url.path == "/x/y/"
        assert "Path=/x/y" in answer.history[0].headers["set-cookie"]
        for page in ("", "tasks", f"tasks/{id}"):
            await check_links(client, page)


async def test_it_says_nothing_about_a_server_that_is_not_there(store: MemoryStore) -> None:
    token = create_token(store, "ann", [Scope.ADMIN])
    browser = Browser(App(store=store).dashboard())  # type: ignore[arg-type]
    await browser.log_in(token)

    text = await browser.open("/settings")
    assert "0.0.0.0" not in text
    assert "the program around it" in text
    missing = await browser.client.get("/nothing")
    assert (missing.status_code, "openapi.json" in missing.text) == (404, False)
    await browser.client.aclose()


async def test_a_program_can_name_its_own_users(store: MemoryStore) -> None:
    def find_user(scope: Any) -> str | None:
        return dict(scope["headers"]).get(b"x-user", b"").decode() or None

    app = App(store=store).dashboard(user=find_user)
    id = submit_one(store)

    async def application(scope: Any, receive: Any, send: Any) -> None:
        """Mount it as the documentation says for Django, which has no mounts."""
        await app({**scope, "root_path": "/x/y"}, receive, send)

    transport = httpx.ASGITransport(app=application)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://shop/x/y/", headers={"Accept": "text/html"}, follow_redirects=True
    ) as client:
        assert (await client.get("http://shop/x/y/")).status_code == 403
        client.headers["x-user"] = "ann"
        page = await client.get("http://shop/x/y")
        assert page.url.path == "/x/y/"
        await check_links(client, "tasks")
        csrf = re.search(r'name="csrf" value="(\w+)"', page.text)
        assert csrf is not None
        await client.post(f"tasks/{id}/cancel", data={"csrf": csrf[1]})
        client.headers["x-user"] = "bob"
        assert (await client.post(f"tasks/{id}/retry", data={"csrf": csrf[1]})).status_code == 403

    [entry] = store.audit(limit=1)
    assert (entry.action, entry.by) == ("cancelled", "ann")


async def test_a_program_that_lets_nobody_in_is_not_opened_by_the_lack_of_tokens(store: MemoryStore) -> None:
    transport = httpx.ASGITransport(app=App(store=store).dashboard())

    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/") as client:
        answer = await client.get("/tasks", headers={"Accept": "text/html"})

    assert answer.headers["location"] == "./login?next=tasks"


async def test_a_server_behind_a_proxy_with_a_path_of_its_own_serves_it_there(store: MemoryStore) -> None:
    from windlass.dashboard.app import dashboard_routes
    from windlass.server.app import create_app

    app = create_app(store, ServerSettings(root_path="/x/y"), pages=dashboard_routes)
    browser = Browser(app, "http://127.0.0.1:7878/x/y/")
    stripped = Browser(app, "http://127.0.0.1:7878/")

    await check_links(browser.client, "tasks")
    assert (await browser.client.get("http://127.0.0.1:7878/x/y")).url.path == "/x/y/"
    assert 'href="static/' in await stripped.open("/"), "relative, so right behind a proxy that removes the path"
    for each in (browser, stripped):
        await each.client.aclose()
