"""The page of queues: what waits where, and who has stopped it?"""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from windlass.core.lifecycle import State
from windlass.operations.presentation import Palette, length
from windlass.tui import actions
from windlass.tui.drawing import STATES, paused, plain
from windlass.tui.live_table import LiveTable
from windlass.tui.messages import Change
from windlass.tui.snapshot import Snapshot
from windlass.wire.schemas import QueueShape

SHOWN = (*STATES[:5], State.FAILED)


class QueuesPage(Vertical):
    """Every queue that was configured or has tasks."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("p", "pause", "pause"), Binding("u", "resume", "resume")]

    def compose(self) -> ComposeResult:
        heads = ("queue", *(state.value for state in SHOWN), "oldest wait", "strategy", "open")
        yield LiveTable(heads, id="queue-rows")

    def show(self, reading: Snapshot, palette: Palette) -> None:
        """Draw how things stand."""
        rows = [(queue.name, queue_row(queue, reading, palette)) for queue in reading.queues]
        self.query_one(LiveTable).show(rows)

    def action_pause(self) -> None:
        name = self.query_one(LiveTable).chosen
        if name is not None:
            question = f"Pause the queue {name}? What runs goes on, nothing new is claimed."
            self.post_message(Change(question, lambda why: actions.pause_queue(name, why), "why"))

    def action_resume(self) -> None:
        name = self.query_one(LiveTable).chosen
        if name is not None:
            question = f"Let the tasks of {name} be claimed again?"
            self.post_message(Change(question, lambda why: actions.resume_queue(name, why), "why"))


def queue_row(queue: QueueShape, reading: Snapshot, palette: Palette) -> list[Text]:
    """A line of the page of queues."""
    look = reading.looks.get(queue.name)
    wait = "–" if look is None or look.oldest is None else length(max(0, reading.now - look.oldest))
    pause = plain(paused("queue", "", queue.paused_by, queue.paused_why).replace("queue  ", ""), palette.brass)
    return [
        plain(queue.name),
        *(Text(f"{queue.tasks.get(state.value, 0):,}", justify="right") for state in (*STATES[:5], State.FAILED)),
        Text(wait, justify="right"),
        Text(queue.strategy.value),
        pause if queue.paused else Text("open", palette.quiet),
    ]
