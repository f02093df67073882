from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.dashboard.conftest import Browser
from tests.support.builders import a_session, a_task, claim_all, complete, report, submit
from windlass.clock import ManualClock
from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.core.retry import Error
from windlass.core.settlement import Raised
from windlass.operations import workflows
from windlass.operations.caller import Scope
from windlass.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio
Browse = Callable[..., Browser]
Token = Callable[..., str]
HOSTILE = "<script>alert(1)</script>\" 'x' /../%2e"


def shop(store: MemoryStore, name: str = "order-7", tenant: str = "acme", **options: object) -> None:
    """Submit reserve, then charge and pack, then ship."""
    steps = {"reserve": [], "charge": ["reserve"], "pack": ["reserve"], "ship": ["charge", "pack"]}
    submit(
        store,
        *(
            a_task(key=key, handler=f"shop.{key}", workflow=name, tenant=tenant, prerequisites=before, **options)
            for key, before in steps.items()
        ),
    )


def fail_the_charge(store: MemoryStore, clock: ManualClock) -> None:
    """Run the shop: reserve and pack complete, charge fails for good, so ship is cancelled."""
    session = a_session(store)
    complete(store, *claim_all(store, session))
    clock.advance(timedelta(seconds=1))
    store.sweep()
    for claim in claim_all(store, session):
        clock.advance(timedelta(seconds=2))
        if claim.handler == "shop.charge":
            report(store, claim, Raised(Error(kind="CardDeclined", message="no money"), give_up=True))
        else:
            complete(store, claim)


def state(store: MemoryStore, key: str, name: str = "order-7", tenant: str = "acme") -> State:
    [task] = store.get([keyed_id(tenant, name, key)])
    assert task is not None
    return task.state


async def test_the_list_shows_progress_and_is_filtered_by_name_stage_and_tenant(
    browser: Browser, store: MemoryStore, clock: ManualClock
) -> None:
    shop(store)
    fail_the_charge(store, clock)
    clock.advance(timedelta(seconds=1))
    shop(store, "nightly", "beta")

    everything = await browser.open("/workflows")
    failing = await browser.open("/workflows?stage=failing")
    named = await browser.open("/workflows?name=NIGHT")
    nothing = await browser.open("/workflows?tenant=coda")

    assert everything.index("nightly") < everything.index("order-7")
    assert "2 completed, 1 failed, 1 cancelled" in everything
    assert "100%" in everything
    assert "nightly" not in failing
    assert "order-7" in failing
    assert "nightly" in named
    assert "order-7" not in named
    assert "No workflow matches." in nothing


async def test_the_list_has_pages(browser: Browser, store: MemoryStore, clock: ManualClock) -> None:
    for number in range(60):
        clock.advance(timedelta(seconds=1))
        submit(store, a_task(workflow=f"run-{number:02}"))

    first = await browser.open("/workflows")
    older = re.search(r'rel="next" href="([^"]+)"', first)
    assert older is not None
    second = await browser.open("/" + older[1].replace("&amp;", "&"))

    assert "run-59" in first
    assert "run-09" not in first
    assert "run-09" in second
    assert "run-10" not in second
    assert 'rel="next"' not in second


async def test_a_search_looks_at_a_bounded_number_of_workflows(
    browser: Browser, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflows, "MAX_SEARCHED", 10)
    for number in range(30):
        clock.advance(timedelta(seconds=1))
        submit(store, a_task(workflow=f"run-{number:02}"))

    page = await browser.open("/workflows?name=run-05")
    seen = 1
    while older := re.search(r'rel="next" href="([^"]+)"', page):
        assert "No workflow matches among those that were searched." in page
        page = await browser.open("/" + older[1].replace("&amp;", "&"))
        seen += 1

    assert "run-05" in page
    assert seen == 3


async def test_the_graph_shows_states_the_critical_path_and_what_failed(
    browser: Browser, store: MemoryStore, clock: ManualClock
) -> None:
    shop(store)
    fail_the_charge(store, clock)

    page = await browser.open("/workflows/view?name=order-7")

    assert "acme" in page
    assert 'class="graph"' in page
    assert "charge: failed" in page
    assert "CardDeclined: no money" in page
    assert "Critical path" in page
    for word in ("style=", "onclick", "javascript:"):
        assert word not in page


async def test_the_gantt_chart_and_the_table_show_every_step(
    browser: Browser, store: MemoryStore, clock: ManualClock
) -> None:
    shop(store, deadline=timedelta(seconds=8))
    fail_the_charge(store, clock)

    gantt = await browser.open("/workflows/view?name=order-7&tenant=acme&show=gantt")
    table = await browser.open("/workflows/view?name=order-7&tenant=acme&show=table")
    failed = await browser.open("/workflows/view?name=order-7&tenant=acme&show=table&state=failed")

    assert "gantt-waited" in gantt
    assert "gantt-deadline" in gantt
    assert table.count('data-id="step-') == 4
    assert table.count("Retry from here") == 3  # charge and ship in the table, and charge in what failed
    assert failed.count('data-id="step-') == 1


async def test_a_retry_from_a_step_shows_its_effect_first_and_is_audited(
    browser: Browser, store: MemoryStore, clock: ManualClock
) -> None:
    shop(store)
    fail_the_charge(store, clock)
    id = keyed_id("acme", "order-7", "charge")

    page = await browser.open(f"/workflows/view?name=order-7&tenant=acme&retry={id}")
    assert "2 tasks would run again" in page
    assert state(store, "charge") is State.FAILED
    done = await browser.post("/workflows/retry", name="order-7", tenant="acme", step=str(id), why="card renewed")

    assert "Retried 2 tasks of order-7." in done.text
    assert (state(store, "charge"), state(store, "ship")) == (State.RUNNABLE, State.WAITING)
    [entry] = store.audit("workflow/order-7")
    assert (entry.action, entry.by) == ("retried", "local")
    assert "card renewed" in entry.text
    again = await browser.open(f"/workflows/view?name=order-7&tenant=acme&retry={id}")
    assert "Only a failed, cancelled or expired step can be retried." in again


async def test_a_workflow_is_cancelled_with_a_reason(browser: Browser, store: MemoryStore) -> None:
    shop(store)
    claim_all(store)

    page = await browser.open("/workflows/view?name=order-7")
    assert "Cancels 4 unfinished steps; the 1 running one is asked to stop." in page
    done = await browser.post("/workflows/cancel", name="order-7", tenant="acme", why="wrong prices")

    assert "of order-7. Running tasks are asked to stop." in done.text
    assert state(store, "pack") is State.CANCELLED
    [entry] = store.audit("tasks")
    assert "wrong prices" in entry.text


async def test_a_large_workflow_is_drawn_as_a_few_boxes(browser: Browser, store: MemoryStore) -> None:
    parts = [a_task(key=f"part-{n}", handler="part", workflow="big", prerequisites=["first"]) for n in range(1_998)]
    submit(store, a_task(key="first", workflow="big"), *parts)
    submit(store, a_task(key="last", workflow="big", prerequisites=[f"part-{n}" for n in range(0, 1_998, 100)]))

    graph = await browser.open("/workflows/view?name=big")
    gantt = await browser.open("/workflows/view?name=big&show=gantt")
    table = await browser.open("/workflows/view?name=big&show=table")

    assert "2,000 steps in 3 boxes" in graph
    assert len(graph) < 40_000
    assert len(gantt) < 80_000
    assert table.count('data-id="step-') == 100
    following = re.search(r'rel="next" href="([^"]+)"', table)
    assert following is not None
    assert "part-" in await browser.open(
        "/workflows/" + following[1].replace("&amp;", "&").removeprefix("../workflows/")
    )


async def test_a_workflow_too_large_for_a_graph_is_counted_and_listed(
    browser: Browser, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflows, "MAX_STEPS", 3)
    shop(store)

    page = await browser.open("/workflows/view?name=order-7")

    assert "4 steps are too many for a graph" in page
    assert page.count('data-id="step-') == 4


async def test_names_from_outside_are_shown_as_text(browser: Browser, store: MemoryStore) -> None:
    submit(store, a_task(handler="x", key=HOSTILE, workflow=HOSTILE))

    listed = await browser.open("/workflows")
    link = re.search(r'href="(workflows/view[^"]+)"', listed)
    assert link is not None
    for show in ("graph", "gantt", "table"):
        page = await browser.open(f"/{link[1].replace('&amp;', '&')}&show={show}")
        assert "<script>alert" not in page
        assert "&lt;script&gt;" in page


async def test_limited_tokens_see_only_their_workflows_and_read_only_ones_have_no_buttons(
    browse: Browse, store: MemoryStore, token: Token
) -> None:
    shop(store)
    shop(store, "nightly", "beta", queue="bulk")
    acme, bulk = browse(), browse()
    await acme.log_in(token(Scope.READ, tenant="acme"))
    await bulk.log_in(token(Scope.OPERATE, queue="bulk"))

    assert "nightly" not in await acme.open("/workflows")
    assert (await acme.client.get("/workflows/view?name=nightly")).status_code == 404
    page = await acme.open("/workflows/view?name=order-7")
    assert "Cancel" not in page
    assert (await acme.post("/workflows/cancel", name="order-7", tenant="acme")).status_code == 403
    assert "order-7" not in await bulk.open("/workflows")
    assert "Cancel…" not in await bulk.open("/workflows/view?name=nightly")
    assert state(store, "reserve") is State.RUNNABLE


async def test_an_unknown_workflow_is_a_page_that_says_so(browser: Browser) -> None:
    answer = await browser.client.get("/workflows/view?name=nothing")

    assert answer.status_code == 404
    assert "Unknown workflow" in answer.text
