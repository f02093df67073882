"""The page Tasks: a filter, a table of tasks, and the keys for the task under the cursor."""

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
from windlass.tui.drawing import number_text, plain, state_text
from windlass.tui.live_table import LiveTable
from windlass.tui.messages import OpenTask, Refresh
from windlass.tui.snapshot import MOST_TASKS, Snapshot
from windlass.tui.task import cancel_request, retry_request

HEADS = ("state", "handler", "queue", "tenant", "prio", "tries", "submitted", "id", "note")
NOTE_WIDTH = 60
EXAMPLE = 'filter: state:failed queue:mail -tenant:demo age>10m "free text"'


class TasksPage(Vertical):
    """A table of the newest tasks that match the filter."""

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
        self.query_filter = Query(())
        self._error: str | None = None
        """Why the text in the input is not a filter; the table still shows the tasks of the last valid one."""

    def compose(self) -> ComposeResult:
        yield Input(placeholder=EXAMPLE, id="filter", compact=True)
        yield Static(id="matched")
        yield LiveTable(HEADS, id="task-rows")

    @property
    def selected(self) -> TaskId | None:
        """Return the task under the cursor; None while the filter is invalid, so that no key acts on its tasks."""
        if self._error is not None:
            return None
        key = self.query_one(LiveTable).selected
        return None if key is None else TaskId(UUID(key))

    def show(self, snapshot: Snapshot, palette: Palette) -> None:
        """Draw a snapshot."""
        times = Times(now=snapshot.now)
        rows = [(str(task.id), task_row(task, times, palette)) for task in snapshot.tasks]
        self.query_one(LiveTable).show(rows)
        if self._error is not None:
            return
        if rows:
            matched = f"{len(rows)} shown" + (", there may be more" if snapshot.more_tasks else "")
        else:
            matched = "no task matches" + (" among those searched" if snapshot.more_tasks else "")
        self._show_matched(f"{matched}  ·  newest {MOST_TASKS} at most")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.search(event.value)

    def search(self, text: str) -> None:
        """Change the filter. Show an error and keep the old filter if the text is not a filter."""
        self.query_one(Input).value = text
        try:
            self.query_filter = parse(text)
        except InvalidFilter as error:
            self._error = str(error)
            self._show_matched(f"Keys do nothing until the filter is right. {error}")
            return
        self._error = None
        self.post_message(Refresh())
        self.query_one(LiveTable).focus()

    def on_data_table_row_selected(self) -> None:
        self.action_open()

    def action_filter(self) -> None:
        self.query_one(Input).focus()

    def action_leave_filter(self) -> None:
        self.query_one(LiveTable).focus()

    def action_open(self) -> None:
        if self.selected is not None:
            self.post_message(OpenTask(self.selected))

    def action_why(self) -> None:
        if self.selected is not None:
            self.post_message(OpenTask(self.selected, why=True))

    def action_retry(self) -> None:
        if self.selected is not None:
            self.post_message(retry_request(self.selected))

    def action_cancel(self) -> None:
        if self.selected is not None:
            self.post_message(cancel_request(self.selected))

    def _show_matched(self, text: str) -> None:
        self.query_one("#matched", Static).update(plain(text))


def task_row(task: Task, times: Times, palette: Palette) -> list[Text]:
    """Return the row of a task."""
    return [
        state_text(task.state, palette),
        plain(task.handler),
        plain(task.queue),
        plain(task.tenant),
        number_text(str(task.priority)),
        number_text(str(task.attempts)),
        Text(times.format_age(task.submitted)),
        Text(str(task.id)[-8:], palette.quiet),
        plain(_note(task), palette.quiet),
    ]


def _note(task: Task) -> str:
    note = (task.reason or "").replace("\n", " ")
    if task.cancel_requested and not task.state.final:
        note = "asked to stop"
    return note if len(note) <= NOTE_WIDTH else note[: NOTE_WIDTH - 1] + "…"
