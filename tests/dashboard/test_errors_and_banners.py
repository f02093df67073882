"""What surrounds the pages: errors with a way back, banners, and what Settings says about this server."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.dashboard.conftest import BASE, Browser
from windlass.clock import ManualClock
from windlass.core.task import NewTask
from windlass.dashboard.pages.audit import find_page
from windlass.dashboard.site import Site
from windlass.dashboard.visit import Looks, Place
from windlass.operations import tenants
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.caller import LOCAL
from windlass.server.http.service import Service
from windlass.server.settings import ServerSettings
from windlass.stores.coordination import EntrySeen
from windlass.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio
OPS = Author("ops", "flood")


async def send_wrong_form(browser: Browser, referer: str) -> str:
    await browser.open("/settings")
    data = {"csrf": browser.csrf, "name": "ann", "expires": "nonsense", "scope": "read"}
    answer = await browser.client.post("settings/tokens/create", data=data, headers={"Referer": referer})
    assert answer.status_code == 422
    return answer.text


async def test_a_form_that_is_refused_leads_back_to_its_page(browser: Browser) -> None:
    text = await send_wrong_form(browser, f"{BASE}/settings?x=1")

    assert "nonsense" in text, "the problem"
    assert '<a class="button primary" href="/settings?x=1#again">Back to the page</a>' in text


@pytest.mark.parametrize("referer", ["https://evil.example/x", f"{BASE}//evil.example", "http://[x", "nonsense", ""])
async def test_an_error_leads_to_no_other_site(browser: Browser, referer: str) -> None:
    assert "Back to the page" not in await send_wrong_form(browser, referer)


async def test_the_banner_of_a_paused_tenant_says_until_when_and_resumes_it(
    browser: Browser, store: MemoryStore, clock: ManualClock
) -> None:
    store.submit([NewTask(handler="work", tenant="acme", args={})])
    access = Access(store, clock=clock)
    tenants.pause(access, "acme", OPS, lasts=timedelta(hours=2))
    text = await browser.open("/tasks")
    banner = text.partition('id="paused-tenant-acme"')[2].partition("</div>")[0]
    assert " until " in banner

    await browser.post("tenants/resume", name="acme", back="tasks")

    assert "Tenant acme is resumed." in browser.text
    assert str(browser.page.url).endswith("/tasks")
    assert not tenants.get_paused(access)


@pytest.mark.parametrize(
    ("subject", "data", "href"),
    [
        ("pool/shop & co", "", "pool?name=shop+%26+co"),
        ("workflow/order 7", '{"tenant": "acme", "x": 1}', "workflows/view?name=order+7&tenant=acme"),
        ("cron/every day", "", "cron#cron-every%20day"),
        ("queue/mail", "", "queues/mail"),
        ("manifest", "", ""),
    ],
)
async def test_the_subject_of_an_audit_entry_links_to_its_page(
    store: MemoryStore, subject: str, data: str, href: str
) -> None:
    visit = Site(Service(store, ServerSettings())).visit(LOCAL, Place(path="/audit"), Looks())
    entry = EntrySeen(subject=subject, action="set", by="ops", text="x", data=data, number=1, at=0)

    assert find_page(visit, entry) == href


async def test_settings_names_the_secret_of_windlass_up(browse: Callable[..., Browser]) -> None:
    open_server, secret_server = browse(), browse(secret="wdl_of-this-start")
    assert "this machine only, no login" in await open_server.open("/settings")
    await secret_server.log_in("wdl_of-this-start")

    text = await secret_server.open("/settings")

    assert "no login" not in text
    assert "everybody on this machine" not in text
    assert "with the secret that <code>windlass up</code> printed" in text
