from __future__ import annotations

import re
from collections.abc import Callable
from uuid import UUID

import pytest

from tests.dashboard.conftest import Browser
from windlass.core.lifecycle import State
from windlass.core.task import NewTask, TaskId
from windlass.operations import tasks
from windlass.operations.caller import Scope
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Cursor, Filter, Page

pytestmark = pytest.mark.anyio


@pytest.fixture
def shop(store: MemoryStore) -> MemoryStore:
    """A store with 60 tasks of two queues and two tenants."""
    store.submit(
        [
            NewTask(handler="mail", queue=("post", "bulk")[n % 2], tenant=("acme", "beta")[n % 3 == 0], args={"n": n})
            for n in range(60)
        ]
    )
    return store


def counts(store: MemoryStore) -> dict[State, int]:
    found: dict[State, int] = {}
    for each in store.counts():
        found[each.state] = found.get(each.state, 0) + each.tasks
    return {state: number for state, number in found.items() if number}


async def test_the_list_is_filtered_by_the_url_and_has_facets_with_counts(browser: Browser, shop: MemoryStore) -> None:
    text = await browser.open("/tasks?q=queue:bulk tenant:beta")

    assert "10 tasks" in text
    assert len(re.findall(r'<tr data-id="', text)) == 10
    assert re.search(r'aria-current="true"[^>]*><span class="name">bulk</span> <span class="quiet">10<', text)
    assert re.search(r'<span class="name">post</span> <span class="quiet">10<', text), "what another queue would match"
    assert 'href="tasks?q=tenant%3Abeta+queue%3Apost"' in text


async def test_a_filter_on_arguments_has_facets_of_what_was_found(browser: Browser, shop: MemoryStore) -> None:
    text = await browser.open("/tasks?q=args.n>=50")

    assert "10 tasks" in text
    assert "of the newest" not in text


async def test_a_wrong_filter_is_explained_on_the_page(browser: Browser) -> None:
    text = await browser.open("/tasks?q=stat:failed")

    assert "did you mean state?" in text
    assert 'value="stat:failed"' in text


async def test_a_search_that_has_not_seen_all_tasks_does_not_say_that_none_matches(
    browser: Browser, shop: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = Page([], Cursor(0, TaskId(UUID(int=0))))
    monkeypatch.setattr(tasks, "find", lambda *_, **__: more)

    text = await browser.open("/tasks?q=state%3Acompleted")

    assert "No task matches among the newest that were searched." in text
    assert ">Older</a>" in text


async def test_pages_follow_each_other_by_cursor(browser: Browser, shop: MemoryStore) -> None:
    first = await browser.open("/tasks")
    older = re.search(r'href="(tasks\?after=[^"]+)" rel="next"', first)
    assert older is not None
    second = await browser.open("/" + older[1])

    ids = re.findall(r'<tr data-id="([^"]+)"', first) + re.findall(r'<tr data-id="([^"]+)"', second)
    assert len(set(ids)) == 60
    assert (await browser.client.get("/tasks?after=forged")).status_code == 400


async def test_a_bulk_action_over_a_filter_shows_its_effect_first_and_then_does_it(
    browser: Browser, shop: MemoryStore
) -> None:
    text = await browser.open("/tasks/bulk?verb=cancel&q=queue:bulk&all=1")
    assert "Cancel 30 tasks?" in text
    assert counts(shop) == {State.RUNNABLE: 60}

    await browser.post("tasks/bulk", verb="cancel", q="queue:bulk", all="1", why="wrong import")

    assert "Cancelled 30 tasks." in browser.text
    assert counts(shop) == {State.RUNNABLE: 30, State.CANCELLED: 30}
    [entry] = shop.audit(limit=1)
    assert (entry.action, entry.by) == ("cancelled", "local")
    assert "wrong import" in entry.text


async def test_picked_tasks_can_be_cancelled_retried_reprioritized_and_purged(
    browser: Browser, shop: MemoryStore
) -> None:
    ids = [task.id for task in shop.find(Filter(), limit=3).tasks]
    await browser.open("/tasks")

    await browser.post("tasks/bulk", verb="priority", id=[str(id) for id in ids], priority="7")
    assert [task.priority for task in shop.get(ids) if task] == [7, 7, 7]
    await browser.post("tasks/bulk", verb="cancel", id=[str(id) for id in ids])
    assert counts(shop)[State.CANCELLED] == 3
    await browser.post("tasks/bulk", verb="retry", id=[str(ids[0])])
    assert counts(shop)[State.CANCELLED] == 2
    await browser.post("tasks/bulk", verb="purge", id=[str(id) for id in ids])
    assert [task is None for task in shop.get(ids)] == [False, True, True]


async def test_nothing_is_done_to_all_tasks_of_the_store_at_once(browser: Browser, shop: MemoryStore) -> None:
    await browser.open("/tasks")

    assert (await browser.post("tasks/bulk", verb="cancel", all="1")).status_code == 400
    assert counts(shop) == {State.RUNNABLE: 60}


async def test_a_token_for_one_tenant_sees_and_changes_only_its_tasks(
    browser: Browser, shop: MemoryStore, token: Callable[..., str]
) -> None:
    foreign = next(task for task in shop.find(Filter(), limit=60).tasks if task.tenant == "acme")
    await browser.log_in(token(Scope.OPERATE, tenant="beta"))

    assert "20 tasks" in await browser.open("/tasks")
    assert "acme" not in browser.text
    await browser.post("tasks/bulk", verb="cancel", id=str(foreign.id))
    await browser.open("/tasks")
    await browser.post("tasks/bulk", verb="cancel", q="handler:mail", all="1")
    assert counts(shop) == {State.RUNNABLE: 40, State.CANCELLED: 20}
