"""The pages Workflow, Pool and Lab in a real browser: every button does what it says."""

from __future__ import annotations

from urllib.parse import urlencode

from tests.browser import shop
from tests.browser.conftest import Visit
from tests.browser.site import OPS, POOL, WORKFLOW, Site
from tests.browser.visitor import SOME_LOOKS
from tests.support.processes import until
from windlass.core.lifecycle import State
from windlass.core.task import TaskId
from windlass.operations import pools, workflows

PATIENCE = 15_000


def address(name: str, tenant: str, **more: str) -> str:
    return f"workflows/view?{urlencode({'name': name, 'tenant': tenant, **more})}"


def states(site: Site, name: str, tenant: str) -> dict[State, int]:
    return workflows.get(site.access, name, tenant=tenant).states


def test_a_workflow_is_followed_cancelled_and_retried(sqlite_site: Site, visit: Visit) -> None:
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

    visitor.open(address("to cancel", "beta", show="table"))
    visitor.press("a:has-text('Retry from here') >> nth=0")
    assert "2 tasks would run again" in visitor.page.inner_text("main")
    visitor.submit("form[action$='workflows/retry']", why=shop.SCRIPT)
    assert states(site, "to cancel", "beta") == {State.WAITING: 1, State.RUNNABLE: 1}
    [retried] = [entry for entry in site.audit("workflow/to cancel") if entry.action == "retried"]
    assert shop.SCRIPT in retried.text

    visitor.submit("form[action$='workflows/cancel']", why="not needed")
    assert states(site, "to cancel", "beta") == {State.CANCELLED: 2}
    assert "Cancelled" in visitor.page.inner_text(".message")
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


def test_a_pool_is_set_frozen_tuned_paused_and_resumed(sqlite_site: Site, visit: Visit) -> None:
    site, visitor = sqlite_site, visit(sqlite_site)
    visitor.open("pool")
    try:
        visitor.submit("form[action$='pool/set']", min="2", max="2", why=shop.IMAGE)
        override = pools.get(site.access, POOL).override
        assert override is not None
        assert (override.min, override.max, override.why) == (2, 2, shop.IMAGE)
        visitor.page.wait_for_selector(f"#live_ledger >> text={shop.IMAGE}", timeout=PATIENCE)
        visitor.submit("form[action$='pool/freeze']", why="steady")
        visitor.submit("form[action$='pool/tune']", wait="3s", max="3", why="more")
        assert pools.get(site.access, POOL).wait == 3
        visitor.submit("form[action$='pool/pause']", why="move")
        paused = pools.get(site.access, POOL).paused
        assert paused is not None
        assert paused.why == "move"
    finally:
        visitor.submit("form[action$='pool/resume']", why="done")
    view = pools.get(site.access, POOL)
    assert (view.paused, view.override) == (None, None)
    pools.tune(site.access, POOL, {"wait": 2.0, "max": None}, author=OPS)
    by_person = [entry.action for entry in site.audit(f"pool/{POOL}") if entry.by == "local"]
    assert by_person == ["resumed", "paused", "tuned", "set", "set"]
    until(lambda: pools.get(site.access, POOL).ready > 0, "a worker after the pause")
    assert visitor.take_problems("pool") == []


def test_the_lab_compares_two_runs(sqlite_site: Site, visit: Visit) -> None:
    visitor = visit(sqlite_site)

    visitor.open(f"lab?pool={POOL}")
    visitor.submit("form[action$='lab/run']", wait="1s", max="4")

    assert visitor.page.locator("table.trials tbody tr").count() == 7
    assert visitor.page.locator(".chart-svg").count() == 2
    assert visitor.page.input_value("[name=wait]") == "1s"
    assert visitor.check("lab", SOME_LOOKS) == []
