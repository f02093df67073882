"""The screen of one task: its fields, attempts, output, and why it is not running."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Static

from windlass.core.lifecycle import State
from windlass.core.task import Attempt, TaskId
from windlass.operations.presentation import Palette, Times, format_attempts, format_span, replace_controls
from windlass.tui import actions
from windlass.tui.drawing import fact_lines, plain, section, state_text
from windlass.tui.messages import ChangeRequest
from windlass.tui.snapshot import TaskSnapshot


class TaskScreen(Screen[None]):
    """One task, over the pages. It is read again every second, like the pages."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.pop_screen", "back"),
        Binding("r", "retry", "retry"),
        Binding("c", "cancel", "cancel"),
        Binding("j", "scroll('down')", "down", show=False),
        Binding("k", "scroll('up')", "up", show=False),
    ]

    def __init__(self, task: TaskId, *, why: bool) -> None:
        super().__init__()
        self.task_id, self._why = task, why

    def compose(self) -> ComposeResult:
        yield Static(id="task-warning")
        with VerticalScroll():
            yield Static("reading …", id="task-text")
        yield Footer()

    def warn(self, warning: str, palette: Palette) -> None:
        """Show a warning that the screen may be out of date; remove it if the text is empty."""
        line = self.query_one("#task-warning", Static)
        line.display = bool(warning)
        line.update(plain(f"✗ {warning}", palette.states[State.FAILED]))

    def show(self, snapshot: TaskSnapshot | None, palette: Palette) -> None:
        """Draw a snapshot."""
        if snapshot is None:
            text = Text(f"Task {self.task_id} no longer exists.")
        else:
            text = plain(str(snapshot.details.why)) if self._why else task_page(snapshot, palette)
        self.query_one("#task-text", Static).update(text)

    def action_scroll(self, direction: str) -> None:
        view = self.query_one(VerticalScroll)
        view.scroll_down() if direction == "down" else view.scroll_up()

    def action_retry(self) -> None:
        self.post_message(retry_request(self.task_id))

    def action_cancel(self) -> None:
        self.post_message(cancel_request(self.task_id))


def retry_request(id: TaskId) -> ChangeRequest:
    """Return the request to retry a task."""
    return ChangeRequest.of(f"Retry task {id}?", actions.retry(id))


def cancel_request(id: TaskId) -> ChangeRequest:
    """Return the request to cancel a task."""
    return ChangeRequest.of(f"Cancel task {id}? A running task is asked to stop.", actions.cancel(id))


def task_page(snapshot: TaskSnapshot, palette: Palette) -> Text:
    """Return all about one task."""
    found, times = snapshot.details, Times(now=snapshot.now)
    task = found.task
    lines = [
        Text.assemble(state_text(task.state, palette), "  ", (replace_controls(task.handler), "bold"), f"  {task.id}"),
        *fact_lines(_task_facts(snapshot, times), palette),
        *section("Why", [plain(line) for line in str(found.why).splitlines()[1:]], palette),
    ]
    for number, attempt in enumerate(found.attempts, 1):
        lines += _attempt_section(number, attempt, times, palette)
    for number, log in enumerate(found.logs, 1):
        title = f"Output {number} (fence {log.fence}{', still running' if log.running else ''})"
        lines += section(title, [plain(line) for line in log.text.splitlines()], palette)
    return Text("\n").join(lines)


def _attempt_section(number: int, attempt: Attempt, times: Times, palette: Palette) -> list[Text]:
    took = format_span(attempt.ended - attempt.started)
    lines = [Text.assemble(state_text(attempt.state, palette), f" after {took}, {times.format(attempt.ended)}")]
    if attempt.error is not None:
        error = attempt.error
        lines.append(plain(f"{error.kind}: {error.message}", palette.states[State.FAILED]))
        lines += [plain(line, palette.quiet) for line in error.traceback.splitlines()]
    return section(f"Attempt {number}", lines, palette)


def _task_facts(snapshot: TaskSnapshot, times: Times) -> list[tuple[str, str | None]]:
    task, progress = snapshot.details.task, snapshot.details.progress

    def at(instant: int | None) -> str | None:
        return None if instant is None else times.format(instant)

    share = "" if progress is None or progress.share is None else f"{progress.share:.0%} "
    return [
        ("queue", f"{task.queue}, tenant {task.tenant}, priority {task.priority}"),
        ("workflow", task.workflow),
        ("key", task.key),
        ("submitted", at(task.submitted)),
        ("due", at(task.due) if task.state in (State.SCHEDULED, State.RETRYING) else None),
        ("deadline", at(task.deadline)),
        ("expires", at(task.expires)),
        ("claimed", at(task.claimed)),
        ("finished", at(task.finished)),
        ("attempts", format_attempts(task)),
        ("progress", None if progress is None else f"{share}{progress.message or ''}"),
        ("reason", task.reason),
        ("args", task.args),
        ("result", task.result),
    ]
