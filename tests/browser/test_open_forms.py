"""Forms that a person has open while live updates change the page around them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.browser import shop
from tests.browser.conftest import Visit
from tests.browser.site import LONG, Site
from windlass.core.task import Change, TaskId
from windlass.operations import tasks

pytestmark = pytest.mark.slow

PATIENCE = 30_000


def test_a_form_whose_action_disappears_never_becomes_that_of_another_action(sqlite_site: Site, visit: Visit) -> None:
    id = TaskId(shop.charge.using(queue=LONG, delay="3h").enqueue(77).id)
    visitor = visit(sqlite_site)
    page = visitor.page
    visitor.open(f"tasks/{id}")
    page.locator("#live-status[data-state=on]").wait_for(timeout=PATIENCE)
    page.fill("#live_head form[action$=cancel] input[name=why]", "half a reason")
    page.focus("#live_head form[action$=run-now] button")

    tasks.change(sqlite_site.access, id, Change(at=timedelta(0)), sqlite_site.author)
    page.locator("#live_head form[action$=run-now]").wait_for(state="detached", timeout=PATIENCE)

    assert page.evaluate("document.activeElement === document.body"), "what had the focus is gone"
    assert page.input_value("#live_head form[action$=cancel] input[name=why]") == "half a reason"
    assert visitor.take_problems("a task") == []
