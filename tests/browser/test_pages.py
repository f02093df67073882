"""Every page in a real browser: both stores, both themes, two widths, under a sub-path and at the root."""

from __future__ import annotations

import pytest

from tests.browser import shop
from tests.browser.addresses import find_addresses
from tests.browser.conftest import Visit
from tests.browser.site import OPS, Site
from tests.browser.visitor import ALL_LOOKS, SOME_LOOKS
from windlass.operations import queues

MOST_BYTES = 150_000
"""Of a first visit to any page, as sent: the page, style sheets and scripts."""
MOST_REQUESTS = 24
LOADED = """() => {
  const [page] = performance.getEntriesByType("navigation");
  const files = performance.getEntriesByType("resource").filter((file) => file.initiatorType !== "other");
  const blocking = files.filter((file) => file.renderBlockingStatus === "blocking").map((file) => file.name);
  const bytes = files.reduce((sum, file) => sum + file.encodedBodySize, 0);
  return { page: page.encodedBodySize, files: bytes, requests: files.length + 1, blocking };
}"""
"""What the browser loaded for the page, by its own account. The event stream, which never ends, is not in it."""
PATIENCE = 15_000
"""Milliseconds until a live update must be there, also on a busy machine."""


@pytest.fixture(params=["sqlite_site", "postgres_site"])
def site(request: pytest.FixtureRequest) -> Site:
    return request.getfixturevalue(request.param)


def test_every_page_is_sound(site: Site, sqlite_site: Site, visit: Visit) -> None:
    """No script error, no request elsewhere, no sideways scroll; names, roles, labels, contrast; texts stay texts."""
    visitor = visit(site)
    problems: list[str] = []
    texts: dict[str, str] = {}

    visitor.open()
    first = visitor.page.evaluate(LOADED)
    weights: dict[str, int] = {}
    for address in find_addresses(site):
        visitor.open(address)
        weights[address] = first["files"] + visitor.page.evaluate(LOADED)["page"]
        problems += visitor.check(address or "Now", ALL_LOOKS if site is sqlite_site else SOME_LOOKS)
        texts[address] = visitor.page.inner_text("main")

    assert problems == []
    assert first["files"] > 1_000
    assert {address: weight for address, weight in weights.items() if weight > MOST_BYTES} == {}
    assert first["requests"] <= MOST_REQUESTS
    assert {file.rpartition(".")[2] for file in first["blocking"]} == {"css"}, "the page is drawn without the scripts"
    group = site.group().id
    for address, text in (
        ("queues", shop.SCRIPT),
        ("queues", shop.IMAGE),
        ("cron", shop.IMAGE),
        ("dead", shop.SCRIPT),
        (f"dead/{group}", shop.IMAGE),
        ("audit", shop.IMAGE),
    ):
        assert text in texts[address], f"{address} shows the text as it is"
    assert "hunter2" not in "".join(texts.values())


def test_a_page_follows_the_store_without_a_reload(site: Site, visit: Visit) -> None:
    visitor = visit(site)
    visitor.open("queues")
    row = 'tr[data-id="queue-fair"]'
    visitor.page.click(f"{row} summary")
    visitor.page.fill(f"{row} input[name=why]", "typed")

    queues.pause(site.access, "mail", OPS)
    visitor.page.wait_for_selector("#live_banners >> text=mail", timeout=PATIENCE)
    queues.resume(site.access, "mail", OPS)
    visitor.page.wait_for_selector("#live_banners >> text=mail", state="detached", timeout=PATIENCE)

    assert visitor.page.get_attribute("#live-status", "data-state") == "on"
    assert visitor.page.input_value(f"{row} input[name=why]") == "typed", "what was typed stays"
    assert visitor.take_problems("live") == []


def test_nothing_moves_while_a_button_is_held_down(sqlite_site: Site, visit: Visit) -> None:
    """A click ends on what it began on, whatever arrives in between."""
    visitor = visit(sqlite_site)
    page = visitor.page
    visitor.open("queues")
    row, above = page.locator('tr[data-id="queue-fair"]'), page.locator("#above")
    page.evaluate("document.querySelector('main').insertAdjacentHTML('afterbegin', '<div id=above></div>')")
    row.locator("summary").hover()

    page.mouse.down()
    page.evaluate(
        """async () => {
          const live = await import(document.querySelector("script[type=module]").src.replace("main.js", "live.js"));
          live.swap({ above: "<p>first</p>" });
          live.swap({ above: "<p>second</p>".repeat(20) });
        }"""
    )
    assert above.inner_html() == ""
    page.mouse.up()

    above.get_by_text("second").nth(19).wait_for(timeout=PATIENCE)
    assert row.locator("details").first.evaluate("it => it.open"), "it was clicked"
    assert visitor.take_problems("held") == []


def test_a_press_holds_the_page_while_it_takes_the_focus_from_a_field(sqlite_site: Site, visit: Visit) -> None:
    visitor = visit(sqlite_site)
    page = visitor.page
    visitor.open("queues")
    page.evaluate(
        """document.querySelector('main').insertAdjacentHTML(
          'afterbegin', '<div id=above></div><input id=field><button id=pressed type=button>Press</button>')"""
    )
    page.locator("#field").focus()
    page.locator("#pressed").hover()

    page.mouse.down()
    page.evaluate(
        """async () => {
          const live = await import(document.querySelector("script[type=module]").src.replace("main.js", "live.js"));
          live.swap({ above: "<p>new</p>" });
        }"""
    )
    assert page.locator("#pressed").evaluate("it => it === document.activeElement")
    assert page.locator("#above").inner_html() == ""
    page.mouse.up()

    page.locator("#above").get_by_text("new").wait_for(timeout=PATIENCE)
    assert visitor.take_problems("pressed") == []


def test_every_page_and_its_forms_work_without_javascript(sqlite_site: Site, visit: Visit) -> None:
    visitor = visit(sqlite_site, javascript=False)

    for address in find_addresses(sqlite_site):
        visitor.open(address)
        assert visitor.page.inner_text("h1"), address
        assert visitor.page.inner_text("main"), address
    visitor.open("queues/mail")
    visitor.submit("form[action$='queues/pause']", why=shop.SCRIPT, lasts="2h")
    paused = queues.get(sqlite_site.access, "mail").settings
    assert (paused.paused, paused.paused_why) == (True, shop.SCRIPT)
    assert paused.paused_until is not None
    visitor.press("main button:has-text('Resume')")
    assert not queues.get(sqlite_site.access, "mail").settings.paused
    assert [entry.action for entry in sqlite_site.audit("queue/mail")][:2] == ["resumed", "paused"]
    assert visitor.take_problems("without JavaScript") == []


def test_the_theme_and_the_zone_can_be_chosen(sqlite_site: Site, visit: Visit) -> None:
    visitor = visit(sqlite_site)
    visitor.open("queues")
    before = visitor.page.evaluate("getComputedStyle(document.body.parentElement).backgroundColor")

    visitor.page.click("#theme")
    visitor.page.click("#theme")
    visitor.page.wait_for_function(
        "before => getComputedStyle(document.body.parentElement).backgroundColor !== before", arg=before
    )
    visitor.open("cron")
    assert visitor.page.get_attribute("html", "data-theme") == "dark"
    visitor.page.select_option("#zone", "UTC")
    visitor.page.wait_for_selector("text=Times are in UTC", timeout=PATIENCE)
    assert visitor.take_problems("preferences") == []


def test_keys_move_between_pages_and_rows(sqlite_site: Site, visit: Visit) -> None:
    visitor = visit(sqlite_site)
    visitor.open()

    visitor.page.keyboard.press("g")
    visitor.page.keyboard.press("q")
    visitor.page.wait_for_url("**/queues")
    visitor.page.keyboard.press("p")
    assert visitor.page.locator("details.ask[open]").count() == 0, "no row is chosen yet"
    visitor.page.keyboard.press("j")
    visitor.page.keyboard.press("j")
    assert visitor.page.get_attribute("tr.current", "data-id") == "queue-fair"
    focused = "document.activeElement.getAttribute('href') ?? document.activeElement.name"
    assert visitor.page.evaluate(focused) == "queues/fair", "screen readers follow"
    visitor.page.keyboard.press("p")
    assert visitor.page.is_visible('tr[data-id="queue-fair"] form[action$="queues/pause"]')
    assert visitor.page.evaluate(focused) == "lasts"
    visitor.page.evaluate("document.activeElement.blur()")
    visitor.page.keyboard.press("Enter")
    visitor.page.wait_for_url("**/queues/fair")
    visitor.page.keyboard.press("?")
    assert visitor.page.is_visible("#keys")
    visitor.page.keyboard.press("Escape")
    visitor.page.keyboard.press("Control+k")
    visitor.page.keyboard.type("cron")
    visitor.page.keyboard.press("Enter")
    visitor.page.wait_for_url("**/cron")
    assert visitor.take_problems("keys") == []
