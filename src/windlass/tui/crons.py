"""The page Crons: what runs on a schedule, when next, and why something does not."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from windlass.core.lifecycle import State
from windlass.core.schedule import explain
from windlass.core.times import to_instant
from windlass.operations.crons import CronView
from windlass.operations.presentation import Palette, Times
from windlass.tui import actions
from windlass.tui.drawing import format_pause, plain
from windlass.tui.live_table import LiveTable
from windlass.tui.messages import ChangeRequest
from windlass.tui.snapshot import Snapshot

HEADS = ("cron", "handler", "schedule", "in words", "zone", "from", "next", "last")


class CronsPage(Vertical):
    """A table of the crons in code and of those created at run time."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("p", "pause", "pause"), Binding("u", "resume", "resume")]

    def compose(self) -> ComposeResult:
        yield LiveTable(HEADS, id="cron-rows")

    def show(self, snapshot: Snapshot, palette: Palette) -> None:
        """Draw a snapshot."""
        times = Times(now=snapshot.now)
        self.query_one(LiveTable).show(
            [(view.state.info.name, cron_row(view, times, palette)) for view in snapshot.crons]
        )

    def action_pause(self) -> None:
        if name := self.query_one(LiveTable).selected:
            self.post_message(ChangeRequest.of(f"Pause cron {name}?", actions.pause_cron(name)))

    def action_resume(self) -> None:
        if name := self.query_one(LiveTable).selected:
            self.post_message(ChangeRequest.of(f"Resume cron {name}?", actions.resume_cron(name)))


def cron_row(view: CronView, times: Times, palette: Palette) -> list[Text]:
    """Return the row of a cron."""
    state, info = view.state, view.state.info
    return [
        plain(info.name),
        plain(info.handler),
        plain(info.schedule),
        plain(explain(info.schedule)),
        plain(info.timezone),
        Text("run time" if state.at_run_time else "code", palette.quiet),
        _next(view, times, palette),
        Text(times.format(state.fired)),
    ]


def _next(view: CronView, times: Times, palette: Palette) -> Text:
    if view.problem is not None:
        return plain(f"⚠ {view.problem}", palette.states[State.RETRYING])
    if view.next is None:
        pause = format_pause("cron", "", view.state.paused_by, view.state.paused_why)
        return plain(pause.replace("cron  ", ""), palette.brass)
    return Text(times.format(to_instant(view.next)))
