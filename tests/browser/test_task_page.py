"""The page of a task that is watched while it fails."""

from __future__ import annotations

import pytest

from tests.browser import shop
from tests.browser.actions import form
from tests.browser.conftest import Visit
from tests.browser.site import Site
from windlass.core.lifecycle import State
from windlass.core.task import TaskId
from windlass.operations.tasks import parse_id

pytestmark = pytest.mark.slow

PATIENCE = 30_000


def test_arguments_can_be_edited_once_a_watched_task_has_ended(sqlite_site: Site, visit: Visit) -> None:
    site, visitor = sqlite_site, visit(sqlite_site)
    page, id = visitor.page, TaskId(shop.charge.using(queue="watched").enqueue(7).id)
    visitor.open(f"tasks/{id}")
    assert page.locator(form("edit")).count() == 0
    page.click("#live_priority summary")

    site.store.cancel([id], reason="test")
    page.wait_for_selector(form("edit"), timeout=PATIENCE)
    assert page.locator(form("priority")).count() == 0
    page.fill(f"{form('edit')} textarea", "8")
    page.fill(f"{form('edit')} [name=why]", "typed")
    site.store.note([site.author.entry(f"task/{id}", "changed", "the page is drawn again")])
    page.wait_for_selector("#live_audit >> text=the page is drawn again", timeout=PATIENCE)
    visitor.press(f"{form('edit')} button")

    [new] = site.store.get([parse_id(page.url.rpartition("/")[2])])
    assert new is not None
    assert (new.args, new.state) == ('{"order":8}', State.RUNNABLE)
    assert visitor.take_problems("task") == []
