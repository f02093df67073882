"""Small screens over the pages: a question before anything is changed, where to go, and what the keys mean."""

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
from windlass.tui.snapshot import Name

GO: Mapping[str, Name] = {"n": Name.NOW, "t": Name.TASKS, "q": Name.QUEUES, "p": Name.POOL, "o": Name.NODES}

KEYS = """\
1 2 3 4 5      Now, Tasks, Queues, Pool, Nodes
g n t q p o    the same by letter: go to Now, Tasks, Queues, Pool, nOdes
:              a page and a filter in words, as in tasks state:failed
j k  ↓ ↑       move
/              filter the tasks (docs/reference/filters.md); Esc leaves it
Enter          all about a task: attempts, errors, output, why
w              why a task does not run
r  c           retry, cancel a task
p  u           pause, resume a queue or a pool
s  f           set the size of a pool, freeze it
d              dark or light
?              these keys
q              quit"""


class Question(ModalScreen[str | None]):
    """Asks before something is changed: None for no, else what was typed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n", "no", "no"),
        Binding("y", "yes", "yes"),
    ]

    def __init__(self, question: str, typed: str | None) -> None:
        super().__init__()
        self._question, self._typed = question, typed

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(plain(self._question))
            if self._typed is None:
                yield Static("y yes · n no")
            else:
                yield Input(placeholder=self._typed, id="typed")
                yield Static("Enter does it · Esc leaves all as it is")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value)

    def action_yes(self) -> None:
        self.dismiss("")

    def action_no(self) -> None:
        self.dismiss(None)


class Go(ModalScreen[Name | None]):
    """After `g`: the letter of a page."""

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static("go to: n Now · t Tasks · q Queues · p Pool · o nOdes")

    def on_key(self, event: Key) -> None:
        event.stop()
        self.dismiss(GO.get(event.key))


class Keys(ModalScreen[None]):
    """What the keys mean, until the next one."""

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(KEYS)

    def on_key(self, event: Key) -> None:
        event.stop()
        self.dismiss(None)
