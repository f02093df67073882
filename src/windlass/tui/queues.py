"""The page Queues: task counts, waits, order, weight and pauses."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from windlass.core.lifecycle import State
from windlass.core.ordering import Queue
from windlass.operations.presentation import Palette, format_span
from windlass.operations.queues import QueueView
from windlass.tui import actions
from windlass.tui.actions import Action
from windlass.tui.drawing import STATES, format_pause, number_text, plain
from windlass.tui.live_table import LiveTable
from windlass.tui.messages import ChangeRequest
from windlass.tui.snapshot import Snapshot

SHOWN = (*STATES[:5], State.FAILED)


class QueuesPage(Vertical):
    """A table of the queues that were configured or have tasks."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "pause", "pause"),
        Binding("u", "resume", "resume"),
        Binding("w", "weight", "weight"),
        Binding("f", "fair", "fair"),
    ]

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._fair: set[str] = set()

    def compose(self) -> ComposeResult:
        heads = ("queue", *(state.value for state in SHOWN), "oldest wait", "p95 wait", "order", "status")
        yield LiveTable(heads, id="queue-rows")

    def show(self, snapshot: Snapshot, palette: Palette) -> None:
        """Draw a snapshot."""
        self._fair = {queue.name for queue in snapshot.queues if queue.settings.fair}
        rows = [(queue.name, queue_row(queue, snapshot, palette)) for queue in snapshot.queues]
        self.query_one(LiveTable).show(rows)

    def action_pause(self) -> None:
        if name := self.query_one(LiveTable).selected:
            question = f"Pause queue {name}? Running tasks continue, no other task starts."
            self.post_message(ChangeRequest.of(question, actions.pause_queue(name)))

    def action_resume(self) -> None:
        if name := self.query_one(LiveTable).selected:
            self.post_message(ChangeRequest.of(f"Resume queue {name}?", actions.resume_queue(name)))

    def action_weight(self) -> None:
        if name := self.query_one(LiveTable).selected:
            question = f"Set the weight of queue {name}: a number from 1 to 1000, then a reason."
            self.post_message(ChangeRequest(question, lambda typed: _parse_weight(name, typed), "weight and reason"))

    def action_fair(self) -> None:
        if name := self.query_one(LiveTable).selected:
            fair = name not in self._fair
            does = "Make tenants take turns in" if fair else "Let tenants no longer take turns in"
            self.post_message(ChangeRequest.of(f"{does} queue {name}?", actions.make_queue_fair(name, fair)))


def _parse_weight(name: str, typed: str) -> tuple[Action, str]:
    weight, _, why = typed.strip().partition(" ")
    return actions.weigh_queue(name, actions.parse_weight(weight)), why.strip()


def queue_row(queue: QueueView, snapshot: Snapshot, palette: Palette) -> list[Text]:
    """Return the row of a queue."""
    settings = queue.settings
    pause = format_pause("queue", "", settings.paused_by, settings.paused_why, settings.paused_until).replace(
        "queue  ", ""
    )
    return [
        plain(queue.name),
        *(number_text(f"{queue.tasks.get(state, 0):,}") for state in SHOWN),
        number_text("–" if queue.oldest is None else format_span(max(0, snapshot.now - queue.oldest))),
        number_text("–" if queue.waits is None else format_span(queue.waits.p95)),
        Text(_order(settings)),
        plain(pause.replace("queue  ", ""), palette.brass) if settings.paused else Text("open", palette.quiet),
    ]


def _order(settings: Queue) -> str:
    fair = ", fair" if settings.fair else ""
    return settings.strategy.value + fair + (f", weight {settings.weight}" if settings.weight != 1 else "")
