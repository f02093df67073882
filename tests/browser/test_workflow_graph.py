"""The graph of a workflow in a real browser: it follows the steps, and its boxes are links."""

from __future__ import annotations

from urllib.parse import urlencode

from tests.browser import shop
from tests.browser.conftest import Visit
from tests.browser.site import WORKFLOW, Site
from windlass.core.task import TaskId

PATIENCE = 15_000


def address(name: str, tenant: str, **more: str) -> str:
    return f"workflows/view?{urlencode({'name': name, 'tenant': tenant, **more})}"


def test_the_colors_of_a_graph_follow_the_steps_without_a_reload(sqlite_site: Site, visit: Visit) -> None:
    site, visitor = sqlite_site, visit(sqlite_site)
    with shop.app.workflow("to cancel", tenant="beta") as flow:
        first = flow.add(shop.charge.using(queue="paused"), 1)
        flow.add(shop.charge.using(queue="paused"), 2, after=[first])

    # Another person cancels it; the open page follows without a reload.
    visitor.open(address("to cancel", "beta"))
    assert visitor.page.locator(".graph-glyph.state-waiting").count() == 1
    site.store.cancel([TaskId(first.id)], reason="not needed")
    visitor.page.wait_for_selector(".graph-glyph.state-cancelled", timeout=PATIENCE)
    assert visitor.page.locator(".graph-glyph.state-waiting").count() == 0
    assert visitor.take_problems("workflow") == []


def test_a_box_of_the_graph_leads_to_its_task(sqlite_site: Site, visit: Visit) -> None:
    visitor = visit(sqlite_site)

    visitor.open(address(WORKFLOW, "acme"))
    assert visitor.page.inner_text("h1") == WORKFLOW
    visitor.press("a.graph-node >> nth=0")
    assert "charge" in visitor.page.inner_text("h1")
    visitor.press("main a[href*='workflows/view']")
    assert visitor.page.inner_text("h1") == WORKFLOW
    assert visitor.take_problems("graph") == []
