"""Forms that a person has open while live updates change the page around them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.browser import shop
from tests.browser.conftest import Visit
from tests.browser.site import LONG, Site
from windlass.core.lifecycle import State
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


def test_a_stray_key_sends_nothing(sqlite_site: Site, visit: Visit) -> None:
    id = TaskId(shop.charge.using(queue=LONG).enqueue(78).id)
    visitor = visit(sqlite_site)
    page = visitor.page
    visitor.open(f"tasks/{id}")

    page.keyboard.press("c")
    assert page.evaluate("document.activeElement.name") == "why"
    assert tasks.get(sqlite_site.access, id).state is State.RUNNABLE
    page.keyboard.type("not needed")
    with page.expect_navigation():
        page.keyboard.press("Enter")

    assert tasks.get(sqlite_site.access, id).state is State.CANCELLED
    assert "not needed" in sqlite_site.audit(f"task/{id}")[0].text


def test_keys_move_between_bugs_and_between_crons(sqlite_site: Site, visit: Visit) -> None:
    visitor = visit(sqlite_site)
    page = visitor.page
    visitor.open("dead")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.closest('.current').id").startswith("bug-")
    page.keyboard.press("r")
    assert page.evaluate("document.activeElement.closest('form').action").endswith("/canary")
    visitor.open("cron")
    page.keyboard.press("j")
    page.keyboard.press("p")
    assert page.evaluate("document.activeElement.closest('section').className").startswith("card cron")


def test_what_was_typed_is_there_again_after_a_form_was_refused(sqlite_site: Site, visit: Visit) -> None:
    visitor = visit(sqlite_site)
    page = visitor.page
    visitor.open("settings")
    visitor.submit("form[action$='tokens/create']", name="typed by hand", expires="nonsense")
    assert "nonsense" in page.inner_text("main")

    visitor.press("text=Back to the page")

    assert page.url.endswith("/settings")
    assert page.input_value("form[action$='tokens/create'] input[name=name]") == "typed by hand"
    assert page.input_value("form[action$='tokens/create'] input[name=expires]") == "nonsense"
    visitor.open("settings")
    assert page.input_value("form[action$='tokens/create'] input[name=name]") == ""


def test_the_palette_reaches_the_actions_of_a_page(sqlite_site: Site, visit: Visit) -> None:
    visitor = visit(sqlite_site)
    page = visitor.page
    visitor.open("settings")

    page.keyboard.press("Control+k")
    page.keyboard.type("create a token")
    page.keyboard.press("Enter")

    assert page.evaluate("document.activeElement.name") == "name"
    assert visitor.take_problems("palette") == []
