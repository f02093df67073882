"""The messages that pages send to the app."""

from __future__ import annotations

from collections.abc import Callable

from textual.message import Message

from windlass.core.task import TaskId
from windlass.tui.actions import Action


class ChangeRequest(Message):
    """A request to change something after a question.

    `prompt` describes what to type, by default the reason. `parse` returns the action and the reason of what was typed.
    """

    def __init__(
        self, question: str, parse: Callable[[str], tuple[Action, str]], prompt: str = "reason (optional)"
    ) -> None:
        super().__init__()
        self.question, self.parse, self.prompt = question, parse, prompt

    @classmethod
    def of(cls, question: str, action: Action) -> ChangeRequest:
        """Return a request for an action whose question asks only for the reason."""
        return cls(question, lambda why: (action, why))


class OpenTask(Message):
    """A request to show one task, or only why it is not running."""

    def __init__(self, id: TaskId, *, why: bool = False) -> None:
        super().__init__()
        self.id, self.why = id, why


class Refresh(Message):
    """A request to read the store now instead of at the next tick."""
