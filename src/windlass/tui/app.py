"""The app over the pages: reads the store once a second, draws, and does what was asked for and agreed to.

Nothing here waits for the store: `Desk` does, in its own thread. While the store is away the pages show what was known
last, under a banner that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Footer, Static

from windlass.clock import monotonic
from windlass.core.lifecycle import State
from windlass.errors import WindlassError
from windlass.operations.presentation import DARK, LIGHT, Palette, Times, tame
from windlass.stores.protocol import Store
from windlass.stores.read_only import read_only
from windlass.tui.dialogs import Go, Keys, Question
from windlass.tui.drawing import banners, plain
from windlass.tui.live_table import LiveTable
from windlass.tui.messages import Change, OpenTask
from windlass.tui.nodes import NodesPage
from windlass.tui.now import NowPage, Pace
from windlass.tui.pool import PoolPage
from windlass.tui.queues import QueuesPage
from windlass.tui.snapshot import Details, Name, Snapshot, details, read
from windlass.tui.store_thread import StoreThread
from windlass.tui.task import TaskScreen
from windlass.tui.tasks import TasksPage
from windlass.tui.themes import DARK_THEME, LIGHT_THEME, STYLE, THEMES

T = TypeVar("T")
W = TypeVar("W", bound=Widget)

PAGES: Mapping[Name, type[TasksPage | QueuesPage | PoolPage | NodesPage]] = {
    Name.TASKS: TasksPage,
    Name.QUEUES: QueuesPage,
    Name.POOL: PoolPage,
    Name.NODES: NodesPage,
}
SLOW_SECONDS = 3.0
"""After which time without an answer the banner says so."""


class Answer(Message):
    """The desk has an answer, and what is to be done with it in the thread that draws."""

    def __init__(self, then: Callable[[Any], None], found: Any) -> None:
        super().__init__()
        self.then, self.found = then, found


class Top(App[None]):
    """`windlass top`."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "windlass"
    CSS = STYLE
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(number), f"page('{name}')", name.value.capitalize(), show=False)
            for number, name in enumerate(Name, 1)
        ),
        Binding("g", "go", "go", show=False),
        Binding("colon", "command", "command", show=False),
        Binding("d", "dark", "dark/light", show=False),
        Binding("question_mark", "keys", "keys", key_display="?"),
        Binding("q", "quit", "quit"),
    ]

    def __init__(
        self,
        open_store: Callable[[], Store],
        *,
        by: str,
        writable: bool = True,
        light: bool = False,
        every: float = 1.0,
    ) -> None:
        super().__init__()
        self._desk = StoreThread(open_store if writable else lambda: read_only(open_store()))
        self._by, self._writable, self._light, self._every = by, writable, light, every
        self._pace = Pace()
        self._reading: Snapshot | None = None
        self._trouble = ""
        self._asked: float | None = None
        self._again = False

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield Static(id="banners")
        with ContentSwitcher(initial=Name.NOW):
            yield NowPage(id=Name.NOW)
            yield TasksPage(id=Name.TASKS)
            yield QueuesPage(id=Name.QUEUES)
            yield PoolPage(id=Name.POOL)
            yield NodesPage(id=Name.NODES)
        yield Static(id="said")
        yield Footer()

    def on_mount(self) -> None:
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = LIGHT_THEME if self._light else DARK_THEME
        self._desk.start()
        self.set_interval(self._every, self._tick)
        self._tick()
        self._draw_head()
        self.query_one(NowPage).focus()

    def on_unmount(self) -> None:
        self._desk.close()

    # Reading

    def _tick(self) -> None:
        """Ask for what is shown, unless the last question is still open."""
        if self._asked is None:
            self._read()
        elif monotonic() - self._asked > SLOW_SECONDS:
            self._trouble = f"the store has not answered for {monotonic() - self._asked:.0f} s"
            self._draw_banners()

    def _read(self) -> None:
        self._asked, self._again = monotonic(), False
        page, query = self.page, self._main(TasksPage).wanted
        self._ask(lambda store: read(store, page, query), self._have_read)
        if isinstance(self.screen, TaskScreen):
            id = self.screen.task_id
            self._ask(lambda store: details(store, id), self._have_details)

    def _have_read(self, found: Snapshot | Exception) -> None:
        self._asked = None
        if isinstance(found, Exception):
            self._trouble = f"no answer from the store: {_told(found)}; trying again"
            self._draw_banners()
            return
        self._trouble, self._reading = "", found
        self._pace.add(found)
        self._draw()
        if self._again:
            self._read()

    def _have_details(self, found: Details | Exception | None) -> None:
        screen = self.screen
        if isinstance(screen, TaskScreen) and not isinstance(found, Exception):
            screen.show(found, self.palette)

    def _ask(self, question: Callable[[Store], T], then: Callable[[T | Exception], None]) -> None:
        def hand_over(found: T | Exception) -> None:
            self.post_message(Answer(then, found))

        self._desk.submit(question, hand_over)

    def on_answer(self, event: Answer) -> None:
        event.then(event.found)

    def on_again(self) -> None:
        """Read at once; if a question is open, right after its answer."""
        self._again = True
        if self._asked is None:
            self._read()

    # Drawing

    @property
    def page(self) -> Name:
        """Which page is shown."""
        return Name(self._main(ContentSwitcher).current or Name.NOW)

    @property
    def palette(self) -> Palette:
        """The colours in use."""
        return DARK if self.current_theme.dark else LIGHT

    def _main(self, kind: type[W]) -> W:
        """A widget of the pages, whatever stands over them."""
        return self.screen_stack[0].query_one(kind)

    def _draw(self) -> None:
        """Draw the page that was read; what was read for another one before the page was changed is old."""
        self._draw_head()
        self._draw_banners()
        reading = self._reading
        if reading is None or reading.name != self.page:
            return
        if reading.name is Name.NOW:
            self._main(NowPage).show(reading, self._pace, self.palette)
        else:
            self._main(PAGES[reading.name]).show(reading, self.palette)

    def _draw_head(self) -> None:
        head = Text("windlass  ", "bold")
        for number, name in enumerate(Name, 1):
            style = f"bold reverse {self.palette.brass}" if name == self.page else ""
            head.append(f" {number} {name.value.capitalize()} ", style)
        if self._reading is not None:
            head.append(f"   {Times(now=self._reading.now).at(self._reading.now)}", self.palette.quiet)
        if not self._writable:
            head.append("   read-only", self.palette.brass)
        self._line("#head", head)

    def _draw_banners(self) -> None:
        lines = [] if self._reading is None else banners(self._reading, self.palette)
        if self._trouble:
            lines.insert(0, plain(f"✗ {self._trouble}", self.palette.states[State.FAILED]))
        self._line("#banners", Text("\n").join(lines))
        if isinstance(self.screen, TaskScreen):
            self.screen.warn(self._trouble, self.palette)

    def _line(self, selector: str, text: Text) -> None:
        line = self.screen_stack[0].query_one(selector, Static)
        line.display = bool(text.plain)
        line.update(text)

    def say(self, text: str) -> None:
        """One line about what was done or refused."""
        self._line("#said", plain(text))
        if len(self.screen_stack) > 1:
            self.notify(tame(text), markup=False)

    # Doing

    def on_change(self, event: Change) -> None:
        """Ask, and if the answer is yes do it."""
        if not self._writable:
            self.say("read-only: nothing is changed from here")
            return

        def answered(typed: str | None) -> None:
            if typed is None:
                self.say("nothing was changed")
                return
            try:
                deed = event.deed(typed)
            except WindlassError as error:
                self.say(str(error))
                return
            self._ask(lambda store: deed(store, self._by), self._have_done)

        self.push_screen(Question(event.question, event.typed), answered)

    def _have_done(self, said: str | Exception) -> None:
        self.say(_told(said) if isinstance(said, Exception) else said)
        self.on_again()

    def on_open_task(self, event: OpenTask) -> None:
        self.push_screen(TaskScreen(event.id, why=event.why))
        self._ask(lambda store: details(store, event.id), self._have_details)

    # Keys

    def action_page(self, name: str) -> None:
        while len(self.screen_stack) > 1:
            self.pop_screen()
        switcher = self._main(ContentSwitcher)
        switcher.current = name
        page = switcher.query_one(f"#{name}")
        (page if name == Name.NOW else page.query_one(LiveTable)).focus()
        self._draw_head()
        self.on_again()

    def action_go(self) -> None:
        self.push_screen(Go(), lambda name: None if name is None else self.action_page(name))

    def action_command(self) -> None:
        self.push_screen(Question("A page, and for tasks a filter:", "tasks state:failed"), self._command)

    def _command(self, typed: str | None) -> None:
        word, _, rest = (typed or "").strip().partition(" ")
        name = next((name for name in Name if name.value.startswith(word.lower())), None)
        if name is None:
            self.say(f"{word} is no page; give one of {', '.join(Name)}")
        elif word:
            self.action_page(name)
            if name is Name.TASKS:
                self._main(TasksPage).look_for(rest)

    def action_keys(self) -> None:
        self.push_screen(Keys())

    def action_dark(self) -> None:
        self.theme = LIGHT_THEME if self.current_theme.dark else DARK_THEME
        for rows in self.screen_stack[0].query(LiveTable):
            rows.forget()
        self._draw()


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, WindlassError) else f"{type(error).__name__}: {error}"
