from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.dashboard.conftest import Browser
from tests.support.tokens import revoke_token
from windlass.clock import ManualClock
from windlass.dashboard import live
from windlass.operations import tokens
from windlass.operations.caller import Scope
from windlass.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio
Browse = Callable[..., Browser]
Token = Callable[..., str]


def is_logged_in(text: str) -> bool:
    return "log out" in text


async def test_a_session_ends_when_its_token_is_revoked_even_if_another_gets_its_name(
    browser: Browser, store: MemoryStore, token: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "REMEMBERED", 0.0)
    await browser.log_in(token(Scope.READ, name="ann"))
    assert is_logged_in(browser.text)

    revoke_token(store, "ann")
    assert not is_logged_in(await browser.open("/"))
    token(Scope.READ, name="ann")
    assert not is_logged_in(await browser.open("/"))


async def test_a_session_lasts_a_day_and_longer_while_it_is_used(
    browser: Browser, token: Token, clock: ManualClock
) -> None:
    await browser.log_in(token(Scope.OPERATE))
    old_form = browser.csrf

    for _ in range(4):
        clock.advance(timedelta(hours=13))
        assert is_logged_in(await browser.open("/"))
    assert browser.csrf == old_form, "a form that was opened before stays valid"
    clock.advance(timedelta(hours=25))
    assert not is_logged_in(await browser.open("/"))


async def test_a_tab_that_stays_open_keeps_its_session(
    browser: Browser, token: Token, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream renews the cookie when it opens, and ends when the cookie must be renewed again."""
    monkeypatch.setattr(live, "HEARTBEAT", 0.0)
    await browser.log_in(token(Scope.READ))

    for _ in range(4):
        opened = asyncio.ensure_future(browser.client.get("live?page="))
        await asyncio.sleep(0.1)
        clock.advance(timedelta(hours=13))
        async with asyncio.timeout(10):
            stream = await opened
        assert stream.text.endswith('event: ended\ndata: {"why":"closed"}\n\n')
    assert is_logged_in(await browser.open("/"))


async def test_a_stream_without_a_session_is_refused(browser: Browser, token: Token) -> None:
    token(Scope.READ)

    assert (await browser.client.get("live?page=")).status_code == 401


async def test_the_page_of_a_new_token_is_not_live(browser: Browser) -> None:
    assert "data-live=" in await browser.open("/settings")

    await browser.post("settings/tokens/create", name="ann", scope="admin", expires="never")

    assert "wdl_" in browser.text
    assert "data-live=" not in browser.text, "a stream that ends would reload it, and the secret is gone"


async def test_a_changed_cookie_is_worth_nothing(browser: Browser, token: Token) -> None:
    await browser.log_in(token(Scope.READ, name="ann"))
    token(Scope.ADMIN, name="root")
    [(name, value)] = browser.client.cookies.items()

    for forged in (
        value[:-1],
        value[:-1] + ("0" if value[-1] != "0" else "1"),
        "x.y",
        "",
        f"{value.partition('.')[0]}.",
    ):
        browser.client.cookies.clear()
        browser.client.cookies.set(name, forged)
        assert not is_logged_in(await browser.open("/")), forged


async def test_logging_out_removes_the_cookie(browser: Browser, token: Token) -> None:
    await browser.log_in(token(Scope.READ))

    assert (await browser.client.post("logout", data={"csrf": ""})).status_code == 403, (
        "another site cannot log somebody out"
    )
    await browser.post("logout")

    assert "Log in" in browser.text
    assert not is_logged_in(await browser.open("/"))


async def test_a_token_that_cannot_read_does_not_log_in(browser: Browser, token: Token) -> None:
    answer = await browser.log_in(token(Scope.SUBMIT))

    assert (answer.status_code, "lacks the scope read" in answer.text) == (403, True)


@pytest.mark.parametrize(
    "next", ["//evil.example", "https://evil.example", "\\\\evil.example", "/tasks", "javascript:x"]
)
async def test_the_login_leads_to_no_other_site(browser: Browser, token: Token, next: str) -> None:
    answer = await browser.client.post("login", data={"token": token(Scope.READ), "next": next}, follow_redirects=False)

    assert answer.headers["location"] == "./"


async def test_without_tokens_the_secret_of_the_start_logs_in(browse: Browse) -> None:
    browser = browse(secret="wdl_of-this-start")

    assert "printed when it started" in await browser.open("/")
    assert (await browser.log_in("wdl_other")).status_code == 403
    assert is_logged_in((await browser.log_in("wdl_of-this-start")).text)


async def test_a_link_from_another_site_is_followed_once_more_so_that_the_cookie_is_sent(
    browser: Browser, token: Token
) -> None:
    token(Scope.READ)
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}

    answer = await browser.client.get("/tasks", headers=headers)

    assert (answer.status_code, 'http-equiv="refresh"' in answer.text) == (200, True)


async def test_a_form_from_another_site_is_refused(browser: Browser) -> None:
    await browser.open("/")

    answer = await browser.client.post(
        "preferences", data={"csrf": browser.csrf, "theme": "dark"}, headers={"Origin": "https://evil.example"}
    )

    assert answer.status_code == 403


async def test_the_zone_and_the_theme_are_kept(browser: Browser, store: MemoryStore, clock: ManualClock) -> None:
    await browser.open("/tasks")

    await browser.post("preferences", zone="Asia/Tokyo", theme="dark", back="tasks")
    assert str(browser.page.url).endswith("/tasks")
    assert 'data-theme="dark"' in browser.text
    assert '<option value="Asia/Tokyo" selected>' in browser.text
    await browser.post("preferences", zone="../../etc/passwd", theme="<b>")
    assert '<option value="Asia/Tokyo" selected>' in browser.text


async def test_every_response_has_strict_headers_and_nothing_inline(browser: Browser) -> None:
    for path in ("/", "/tasks", "/login?next=x", "/nope"):
        page = await browser.client.get(path, follow_redirects=False)
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy or page.status_code == 303, path
        assert "unsafe" not in policy
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["cache-control"] == "no-store"
        assert "<style" not in page.text
        assert "style=" not in page.text
    static = await browser.client.get(browser_static(await browser.open("/")))
    assert "immutable" in static.headers["cache-control"]


def browser_static(text: str) -> str:
    return "/" + text.partition('href="')[2].partition('"')[0]
