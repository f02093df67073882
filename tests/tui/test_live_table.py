from __future__ import annotations

import pytest
from rich.text import Text
from textual.app import App, ComposeResult

from tests.tui.conftest import screen_text, until
from windlass.tui.live_table import LiveTable

pytestmark = pytest.mark.anyio


class Page(App[None]):
    def compose(self) -> ComposeResult:
        yield LiveTable(("state", "note"), id="rows")


async def test_a_wider_cell_is_not_clipped() -> None:
    async with Page().run_test(size=(60, 6)) as pilot:
        rows = pilot.app.query_one(LiveTable)
        rows.show([("a", (Text("failed"), Text("x")))])
        await until(pilot, "failed")

        rows.show([("a", (Text("runnable again"), Text("y")))])
        drawn_at_once = "".join(segment.text for segment in rows.render_line(1))
        rows.show([("b", (Text("completed with a long note"), Text("z")))])
        drawn_after = "".join(segment.text for segment in rows.render_line(1))
        page = await until(pilot, "z")

    assert "runnable again  y" in drawn_at_once
    assert "completed with a long note  z" in drawn_after
    assert "completed with a long note  z" in page


async def test_a_column_shrinks_to_its_head() -> None:
    async with Page().run_test(size=(60, 6)) as pilot:
        rows = pilot.app.query_one(LiveTable)
        rows.show([("a", (Text("completed with a long note"), Text("x")))])
        await until(pilot, "x")
        rows.show([("a", (Text("ok"), Text("y")))])
        page = await until(pilot, "y")
        rows.show([])
        await until(pilot, "ok", gone=True)

        assert "state  note" in screen_text(pilot)
    assert "ok     y" in page
