"""What the pages ask of the app: to change something, to open a task, to read again."""

from __future__ import annotations

from collections.abc import Callable

from textual.message import Message

from windlass.core.task import TaskId
from windlass.tui.actions import Action


class Change(Message):
    """Somebody wants to change something. With `typed` there is a line to write on, and `deed` gets what is there."""

    def __init__(self, question: str, deed: Callable[[str], Action], typed: str | None = None) -> None:
        super().__init__()
        self.question, self.deed, self.typed = question, deed, typed


class OpenTask(Message):
    """Somebody wants to see all about a task, or only what holds it."""

    def __init__(self, id: TaskId, *, why: bool = False) -> None:
        super().__init__()
        self.id, self.why = id, why


class Again(Message):
    """What is to be read has changed: the pages should not wait for the next second."""
