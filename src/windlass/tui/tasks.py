"""The page of tasks: where is mine? One filter, one line a task, and the verbs for the one under the cursor."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from windlass.core.query import Query, parse
from windlass.core.task import Task, TaskId
from windlass.errors import InvalidFilter
from windlass.operations.presentation import Palette, Times
from windlass.redaction import redact_text
from windlass.tui import actions
from windlass.tui.drawing import plain, state_text
from windlass.tui.live_table import LiveTable
from windlass.tui.messages import Again, Change, OpenTask
from windlass.tui.snapshot import SHOWN, Snapshot

HEADS = ("state", "handler", "queue", "tenant", "prio", "tries", "submitted", "id", "note")
NOTE = 60
EXAMPLE = 'filter: state:failed queue:mail -tenant:demo age>10m "free text"'


class TasksPage(Vertical):
    """The newest tasks that the filter matches."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("enter", "open", "details", show=False),
        Binding("w", "why", "why"),
        Binding("r", "retry", "retry"),
        Binding("c", "cancel", "cancel"),
        Binding("escape", "leave_filter", "leave the filter", show=False),
    ]

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.wanted = Query(())

    def compose(self) -> ComposeResult:
        yield Input(
            placeholder='filter: state:failed queue:mail -tenant:demo age>10m "free text"', id="filter", compact=True
        )
        yield Static(id="matched")
        yield LiveTable(HEADS, id="task-rows")

    @property
    def chosen(self) -> TaskId | None:
        """The task under the cursor."""
        key = self.query_one(LiveTable).chosen
        return None if key is None else TaskId(UUID(key))

    def show(self, reading: Snapshot, palette: Palette) -> None:
        """Draw how things stand, if this reading has tasks."""
        page, times = reading.page, Times(now=reading.now)
        if page is None:
            return
        rows = [(str(task.id), task_row(task, times, palette)) for task in page.tasks]
        self.query_one(LiveTable).show(rows)
        more = ", and there may be more" if page.after is not None else ""
        said = f"{len(rows)} shown{more}" if rows else f"no task matches{', of those looked at' if more else ''}"
        self._say(f"{said}  ·  the newest {SHOWN} at the most")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.look_for(event.value)

    def look_for(self, text: str) -> None:
        """Look for something else; what cannot be understood is said, and the old filter stays."""
        self.query_one(Input).value = text
        try:
            self.wanted = parse(text)
        except InvalidFilter as error:
            self._say(str(error))
            return
        self.post_message(Again())
        self.query_one(LiveTable).focus()

    def on_data_table_row_selected(self) -> None:
        self.action_open()

    def action_filter(self) -> None:
        self.query_one(Input).focus()

    def action_leave_filter(self) -> None:
        self.query_one(LiveTable).focus()

    def action_open(self) -> None:
        if self.chosen is not None:
            self.post_message(OpenTask(self.chosen))

    def action_why(self) -> None:
        if self.chosen is not None:
            self.post_message(OpenTask(self.chosen, why=True))

    def action_retry(self) -> None:
        id = self.chosen
        if id is not None:
            self.post_message(Change(f"Retry {id}?", lambda _: actions.retry(id)))

    def action_cancel(self) -> None:
        id = self.chosen
        if id is not None:
            self.post_message(Change(f"Cancel {id}? If it runs it is asked to stop.", lambda _: actions.cancel(id)))

    def _say(self, text: str) -> None:
        self.query_one("#matched", Static).update(plain(text))


def task_row(task: Task, times: Times, palette: Palette) -> list[Text]:
    """A line of the page of tasks."""
    return [
        state_text(task.state, palette),
        plain(task.handler),
        plain(task.queue),
        plain(task.tenant),
        Text(str(task.priority), justify="right"),
        Text(str(task.attempts), justify="right"),
        Text(times.ago(task.submitted)),
        Text(str(task.id)[-8:], palette.quiet),
        plain(_note(task), palette.quiet),
    ]


def _note(task: Task) -> str:
    said = redact_text(task.reason or "").replace("\n", " ")
    if task.cancel_requested and not task.state.final:
        said = "asked to stop"
    return said if len(said) <= NOTE else said[: NOTE - 1] + "…"
