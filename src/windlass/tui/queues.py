"""The page Queues: task counts, the oldest wait and pauses."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from windlass.core.lifecycle import State
from windlass.operations.presentation import Palette, format_span
from windlass.operations.queues import QueueView
from windlass.tui import actions
from windlass.tui.drawing import STATES, format_pause, number_text, plain
from windlass.tui.live_table import LiveTable
from windlass.tui.messages import ChangeRequest
from windlass.tui.snapshot import Snapshot

SHOWN = (*STATES[:5], State.FAILED)


class QueuesPage(Vertical):
    """A table of the queues that were configured or have tasks."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("p", "pause", "pause"), Binding("u", "resume", "resume")]

    def compose(self) -> ComposeResult:
        heads = ("queue", *(state.value for state in SHOWN), "oldest wait", "strategy", "status")
        yield LiveTable(heads, id="queue-rows")

    def show(self, snapshot: Snapshot, palette: Palette) -> None:
        """Draw a snapshot."""
        rows = [(queue.name, queue_row(queue, snapshot, palette)) for queue in snapshot.queues]
        self.query_one(LiveTable).show(rows)

    def action_pause(self) -> None:
        if name := self.query_one(LiveTable).selected:
            question = f"Pause queue {name}? Running tasks continue, no other task starts."
            self.post_message(ChangeRequest.of(question, actions.pause_queue(name)))

    def action_resume(self) -> None:
        if name := self.query_one(LiveTable).selected:
            self.post_message(ChangeRequest.of(f"Resume queue {name}?", actions.resume_queue(name)))


def queue_row(queue: QueueView, snapshot: Snapshot, palette: Palette) -> list[Text]:
    """Return the row of a queue."""
    settings = queue.settings
    pause = format_pause("queue", "", settings.paused_by, settings.paused_why).replace("queue  ", "")
    return [
        plain(queue.name),
        *(number_text(f"{queue.tasks.get(state, 0):,}") for state in SHOWN),
        number_text("–" if queue.oldest is None else format_span(max(0, snapshot.now - queue.oldest))),
        Text(settings.strategy.value),
        plain(pause, palette.brass) if settings.paused else Text("open", palette.quiet),
    ]
