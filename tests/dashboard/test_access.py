from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.dashboard.conftest import Browser
from windlass.core.task import NewTask
from windlass.operations import queues
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.caller import Scope
from windlass.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio
Browse = Callable[..., Browser]
Token = Callable[..., str]


def is_paused(store: MemoryStore, name: str) -> bool:
    return any(queue.paused for queue in store.queues() if queue.name == name)


@pytest.fixture
def paused(store: MemoryStore) -> str:
    store.submit([NewTask(handler="work", queue="bulk")])
    queues.pause(Access(store), "bulk", Author("ops", "nightly import"))
    return "bulk"


async def test_a_local_server_without_tokens_opens_without_login_and_says_so(browser: Browser) -> None:
    assert "open, no login" in await browser.open("/")


async def test_a_server_with_tokens_asks_for_one_and_then_shows_the_page_that_was_wanted(
    browser: Browser, token: Token
) -> None:
    secret = token(Scope.READ)

    assert "Log in" in await browser.open("/?span=1h")
    assert (await browser.log_in("wdl_wrong")).status_code == 403
    browser.page = await browser.client.post("login", data={"token": secret, "next": "?span=1h"})

    assert str(browser.page.url).endswith("/?span=1h")
    assert "log out" in browser.text
    assert secret not in str(browser.client.cookies)


async def test_a_session_cookie_is_strict_http_only_and_secure_behind_tls(browse: Browse, token: Token) -> None:
    secret = token(Scope.READ)

    plain = await browse().client.post("login", data={"token": secret}, follow_redirects=False)
    proxied = await browse(behind_proxy=True).client.post("login", data={"token": secret}, follow_redirects=False)

    assert "HttpOnly" in plain.headers["set-cookie"]
    assert "SameSite=strict" in plain.headers["set-cookie"]
    assert "Secure" not in plain.headers["set-cookie"]
    assert "Secure" in proxied.headers["set-cookie"]


async def test_an_action_without_the_token_of_the_page_is_refused(
    browser: Browser, store: MemoryStore, paused: str
) -> None:
    await browser.open("/")

    without = await browser.client.post("queues/resume", data={"name": paused})
    wrong = await browser.client.post("queues/resume", data={"name": paused, "csrf": "0" * 40})
    assert (without.status_code, wrong.status_code) == (403, 403)
    assert is_paused(store, paused)

    await browser.post("queues/resume", name=paused)
    assert not is_paused(store, paused)
    assert "Resumed queue bulk." in browser.text
    assert "Resumed queue bulk." not in await browser.open("/")


async def test_without_the_scope_operate_there_are_no_buttons_and_actions_are_refused(
    browser: Browser, store: MemoryStore, token: Token, paused: str
) -> None:
    await browser.log_in(token(Scope.READ))

    assert "nightly import" in browser.text
    assert "Resume" not in browser.text
    assert (await browser.post("queues/resume", name=paused)).status_code == 403
    assert is_paused(store, paused)


async def test_a_read_only_server_has_no_buttons(browse: Browse, store: MemoryStore, paused: str) -> None:
    browser = browse(read_only=True)

    assert "Resume" not in await browser.open("/")
    assert (await browser.post("queues/resume", name=paused)).status_code == 403
    assert is_paused(store, paused)


async def test_an_unknown_page_is_an_error_page_for_browsers_and_a_problem_for_programs(browser: Browser) -> None:
    page = await browser.client.get("/nope/a/b")
    problem = await browser.client.get("/nope", headers={"Accept": "application/json"})

    assert page.status_code == 404
    assert 'href="../../"' in page.text
    assert problem.json()["code"] == "not_found"
