"""Charts in a browser: the values of a moment by pointer, keyboard and touch, and the list behind it."""

from __future__ import annotations

from playwright.sync_api import Locator

from tests.browser.conftest import Visit
from tests.browser.site import Site

CHART = "#live_chart figure"


def legend(chart: Locator) -> list[str]:
    return chart.locator(".chart-legend b").all_inner_texts()


def cells(chart: Locator, index: int) -> list[str]:
    here = chart.locator(f".chart-table tbody tr:nth-child({index + 1})")
    return [text.strip() for text in here.locator("th, td").all_text_contents()]


def test_the_pointer_shows_a_moment_in_the_legend_and_a_click_opens_its_tasks(sqlite_site: Site, visit: Visit) -> None:
    visitor = visit(sqlite_site)
    visitor.open()
    chart = visitor.page.locator(CHART)
    chart.scroll_into_view_if_needed()
    latest = chart.locator("b").evaluate_all("all => all.map(each => each.dataset.latest)")
    assert legend(chart) == latest

    chart.locator(".chart-hit").nth(5).hover()
    assert [chart.locator(".chart-when").inner_text(), *legend(chart)] == cells(chart, 5)
    visitor.page.evaluate("document.dispatchEvent(new CustomEvent('windlass:swapped', { detail: [] }))")
    assert legend(chart) == cells(chart, 5)[1:], "a live update does not take it away"
    visitor.page.mouse.move(1, 1)
    assert legend(chart) == chart.locator("b").evaluate_all("all => all.map(each => each.dataset.latest)")

    with visitor.page.expect_navigation():
        chart.locator(".chart-hit").nth(47).click()
    assert "/tasks?q=" in visitor.page.url
    assert visitor.take_problems("chart") == []


def test_arrow_keys_move_over_a_chart_and_enter_opens_the_tasks(sqlite_site: Site, visit: Visit) -> None:
    visitor = visit(sqlite_site)
    visitor.open()
    chart = visitor.page.locator(CHART)

    visitor.page.keyboard.press("Tab")
    for _ in range(60):
        if visitor.page.evaluate("document.activeElement.matches('.chart-hit')"):
            break
        visitor.page.keyboard.press("Tab")
    assert legend(chart) == cells(chart, 47)[1:]
    for key in ("ArrowLeft", "ArrowLeft", "ArrowRight"):
        visitor.page.keyboard.press(key)
    assert [chart.locator(".chart-when").inner_text(), *legend(chart)] == cells(chart, 46)
    visitor.page.keyboard.press("Tab")
    assert not visitor.page.evaluate("document.activeElement.matches('.chart-hit')"), "a chart is one stop"
    visitor.page.keyboard.press("Shift+Tab")
    visitor.page.keyboard.press("Home")
    assert legend(chart) == cells(chart, 0)[1:]
    with visitor.page.expect_navigation():
        visitor.page.keyboard.press("Enter")
    assert "/tasks?q=" in visitor.page.url
    assert visitor.take_problems("chart") == []


def test_the_first_touch_shows_a_moment_and_the_second_opens_its_tasks(sqlite_site: Site, visit: Visit) -> None:
    visitor = visit(sqlite_site, touch=True)
    visitor.open()
    chart = visitor.page.locator(CHART)
    hit = chart.locator(".chart-hit").nth(9)

    hit.tap()
    assert [chart.locator(".chart-when").inner_text(), *legend(chart)] == cells(chart, 9)
    with visitor.page.expect_navigation():
        hit.tap()
    assert "/tasks?q=" in visitor.page.url
    assert visitor.take_problems("chart") == []
