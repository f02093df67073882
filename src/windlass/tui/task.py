"""All about one task: what happened to it, and what holds it."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Static

from windlass.core.lifecycle import State
from windlass.core.task import Attempt, TaskId
from windlass.operations.presentation import Palette, Times, length, tame
from windlass.redaction import redact, redact_text
from windlass.tui import actions
from windlass.tui.drawing import facts_told, plain, section, state_text
from windlass.tui.messages import Change
from windlass.tui.snapshot import Details


class TaskScreen(Screen[None]):
    """Stands over the pages until it is left; it is read anew every second, as they are."""

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
        yield Static(id="task-trouble")
        with VerticalScroll():
            yield Static("reading …", id="task-text")
        yield Footer()

    def warn(self, trouble: str, palette: Palette) -> None:
        """Say that what is shown may be old; nothing when it is not."""
        line = self.query_one("#task-trouble", Static)
        line.display = bool(trouble)
        line.update(plain(f"✗ {trouble}", palette.states[State.FAILED]))

    def show(self, found: Details | None, palette: Palette) -> None:
        """Draw how it stands."""
        if found is None:
            text = Text(f"{self.task_id} is no longer in the store")
        else:
            text = plain(str(found.why)) if self._why else task_page(found, palette)
        self.query_one("#task-text", Static).update(text)

    def action_scroll(self, way: str) -> None:
        view = self.query_one(VerticalScroll)
        view.scroll_down() if way == "down" else view.scroll_up()

    def action_retry(self) -> None:
        self.post_message(Change(f"Retry {self.task_id}?", lambda _: actions.retry(self.task_id)))

    def action_cancel(self) -> None:
        question = f"Cancel {self.task_id}? If it runs it is asked to stop."
        self.post_message(Change(question, lambda _: actions.cancel(self.task_id)))


def task_page(found: Details, palette: Palette) -> Text:
    """What happened to it?"""
    task, times = found.task, Times(now=found.now)
    lines = [
        Text.assemble(state_text(task.state, palette), "  ", (tame(task.handler), "bold"), f"  {task.id}"),
        *facts_told(_task_facts(found, times), palette),
        *section("Why", [plain(line) for line in str(found.why).splitlines()[1:]], palette),
    ]
    for number, attempt in enumerate(found.attempts, 1):
        lines += _attempt(number, attempt, times, palette)
    for number, log in enumerate(found.logs, 1):
        title = f"Output {number} (fence {log.fence})"
        lines += section(title, [plain(line) for line in redact_text(log.text).splitlines()], palette)
    return Text("\n").join(lines)


def _attempt(number: int, attempt: Attempt, times: Times, palette: Palette) -> list[Text]:
    took = length(attempt.ended - attempt.started)
    told = [
        Text.assemble(state_text(attempt.state, palette), f" after {took}, {times.both(attempt.ended)}"),
    ]
    if attempt.error is not None:
        error = attempt.error
        told.append(plain(f"{error.kind}: {redact_text(error.message)}", palette.states[State.FAILED]))
        told += [plain(line, palette.quiet) for line in redact_text(error.traceback).splitlines()]
    return section(f"Attempt {number}", told, palette)


def _task_facts(found: Details, times: Times) -> list[tuple[str, str | None]]:
    task, seen = found.task, found.progress

    def at(instant: int | None) -> str | None:
        return None if instant is None else times.both(instant)

    share = "" if seen is None or seen.share is None else f"{seen.share:.0%} "
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
        ("attempts", f"{task.attempts} (+{task.crashes} crashes, {task.losses} losses)"),
        ("progress", None if seen is None else f"{share}{redact_text(seen.message or '')}"),
        ("reason", None if task.reason is None else redact_text(task.reason)),
        ("args", _json(redact(msgspec.json.decode(task.args), found.parameters))),
        ("result", None if task.result is None else _json(redact(msgspec.json.decode(task.result)))),
    ]


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
