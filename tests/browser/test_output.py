"""The output of a running task on its page."""

from __future__ import annotations

import pytest

from tests.browser import shop
from tests.browser.conftest import Visit
from tests.browser.site import Site

pytestmark = pytest.mark.slow

PATIENCE = 30_000
OUTPUT = "#live_running pre[data-follow]"
IS_AT_END = "it => it.scrollHeight - it.scrollTop - it.clientHeight <= 4"


def test_a_line_that_a_running_task_prints_appears_without_a_reload(sqlite_site: Site, visit: Visit) -> None:
    visitor, plain = visit(sqlite_site), visit(sqlite_site, javascript=False)
    page = visitor.page
    task = shop.chat.enqueue()
    visitor.open(f"tasks/{task.id}")
    output = page.locator(OUTPUT)

    output.filter(has_text="line 59").wait_for(timeout=PATIENCE)
    assert output.evaluate(IS_AT_END), "the end is in view"
    sqlite_site.ask_chat("one")
    output.filter(has_text="asked for one <img").wait_for(timeout=PATIENCE)
    assert output.evaluate(IS_AT_END), "and stays in view"

    output.evaluate("it => { it.scrollTop = 0; }")
    sqlite_site.ask_chat("two")
    output.filter(has_text="asked for two").wait_for(timeout=PATIENCE)
    assert output.evaluate("it => it.scrollTop") == 0, "who has scrolled up can read on"
    output.evaluate("it => { it.scrollTop = it.scrollHeight; }")
    sqlite_site.ask_chat("three")
    output.filter(has_text="asked for three").wait_for(timeout=PATIENCE)
    assert output.evaluate(IS_AT_END), "who has scrolled back follows again"

    plain.open(f"tasks/{task.id}")
    assert "asked for three" in plain.page.inner_text(OUTPUT)
    sqlite_site.ask_chat("end")
    page.locator("#live_attempts pre.output").filter(has_text="asked for end").wait_for(timeout=PATIENCE)
    assert output.count() == 0
    assert visitor.take_problems("output") == []
