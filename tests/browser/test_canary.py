"""A canary that finds the bug fixed, watched on the page of the bug."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser import shop
from tests.browser.actions import form
from tests.browser.conftest import Visit
from tests.browser.site import FAILED, Site
from tests.support.processes import until
from windlass.operations import dead_letters

pytestmark = pytest.mark.slow

PATIENCE = 30_000


@pytest.fixture
def site(sqlite_site: Site) -> Iterator[Site]:
    """The site, whose bug is back after the test with as many failed tasks as before."""
    yield sqlite_site
    sqlite_site.break_again()
    fail(sqlite_site, FAILED - count_failed(sqlite_site))


def count_failed(site: Site) -> int:
    groups = dead_letters.get_all(site.access)
    return sum(group.count for group in groups if "render_invoice" in group.handlers)


def fail(site: Site, more: int) -> None:
    """Let more invoices fail."""
    wanted = count_failed(site) + more
    for number in range(more):
        shop.render_invoice.enqueue(number, shop.SCRIPT, token="hunter2")
    until(lambda: count_failed(site) == wanted, f"{wanted} invoices have failed")


@pytest.mark.parametrize("number", [12, 1])
def test_a_fixed_bug_is_shown_as_fixed_without_a_reload(site: Site, visit: Visit, number: int) -> None:
    visitor = visit(site)
    fail(site, max(0, number - count_failed(site)))
    if number == 1:
        dead_letters.drop(site.access, site.group(), site.author)
        fail(site, 1)
    group = site.group()
    site.fix_bug()
    visitor.open(f"dead/{group.id}")

    visitor.submit(form("canary"), patience="20s")

    visitor.page.wait_for_selector(f"#live_canary >> text=Fixed: {number} of {number} completed", timeout=PATIENCE)
    assert visitor.page.url.endswith(f"/dead/{group.id}")
    assert "No task fails with this bug any more" in visitor.page.inner_text("#live_numbers")
    assert visitor.page.locator(form("canary")).count() == 0
    assert visitor.page.locator("#retried-tasks a").count() == number
    assert visitor.check("fixed") == []
