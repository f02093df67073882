"""Dialogs over the pages: a question before a change, a list of pages, and the keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from windlass.tui.drawing import plain
from windlass.tui.snapshot import Page

PAGE_KEYS: Mapping[str, Page] = {
    "n": Page.NOW,
    "t": Page.TASKS,
    "q": Page.QUEUES,
    "p": Page.POOL,
    "o": Page.NODES,
    "e": Page.TENANTS,
    "c": Page.CRONS,
}

KEYS = """\
1 2 3 4 5 6 7    Now, Tasks, Queues, Pool, Nodes, Tenants, Crons
g n t q p o e c  the same by letter: go to Now, Tasks, Queues, Pool, nOdes, tEnants, Crons
:                type a page and a filter, such as tasks state:failed
j k  ↓ ↑         move the cursor
/                filter the tasks (docs/reference/filters.md); Esc leaves the filter
Enter            show a task: attempts, errors, output, why
w                show why a task is not running; set the weight of a queue or a tenant
r  c             retry, cancel a task
p  u             pause, resume a queue, a pool, a tenant or a cron
s  f             set the size of a pool, freeze it; f makes a queue fair or not
x  X             drain, stop the worker or the node under the cursor
d                switch between dark and light
?                show these keys
q                quit"""


class InputDialog(ModalScreen[str | None]):
    """Asks for a line of text. The result is the text, or None after Esc."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "cancel")]

    def __init__(self, question: str, prompt: str) -> None:
        super().__init__()
        self._question, self._prompt = question, prompt

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(plain(self._question))
            yield Input(placeholder=self._prompt, id="typed")
            yield Static("Enter confirms · Esc cancels")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value)

    def action_cancel(self) -> None:
        self.dismiss(None)


class PageDialog(ModalScreen[Page | None]):
    """Asks for the letter of a page, after the key g."""

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static("go to: n Now · t Tasks · q Queues · p Pool · o nOdes · e tEnants · c Crons")

    def on_key(self, event: Key) -> None:
        event.stop()
        self.dismiss(PAGE_KEYS.get(event.key))


class KeysDialog(ModalScreen[None]):
    """Shows the keys until the next key."""

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(KEYS)

    def on_key(self, event: Key) -> None:
        event.stop()
        self.dismiss(None)
