"""The app of the pages: reads the store once a second, draws, and makes confirmed changes.

Only `StoreThread` waits for the store. While the store is unavailable, the pages show the last snapshot under a banner.
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
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.presentation import DARK, LIGHT, Palette, Times, replace_controls
from windlass.stores.protocol import Store
from windlass.stores.read_only import read_only
from windlass.tui.crons import CronsPage
from windlass.tui.dialogs import InputDialog, KeysDialog, PageDialog
from windlass.tui.drawing import banners, plain
from windlass.tui.live_table import LiveTable
from windlass.tui.messages import ChangeRequest, OpenTask
from windlass.tui.nodes import NodesPage
from windlass.tui.now import CompletionRates, NowPage
from windlass.tui.pool import PoolPage
from windlass.tui.queues import QueuesPage
from windlass.tui.snapshot import Page, Snapshot, TaskSnapshot, read_snapshot, read_task
from windlass.tui.store_thread import StoreThread
from windlass.tui.task import TaskScreen
from windlass.tui.tasks import TasksPage
from windlass.tui.tenants import TenantsPage
from windlass.tui.themes import DARK_THEME, LIGHT_THEME, STYLE, THEMES

T = TypeVar("T")
W = TypeVar("W", bound=Widget)

PAGES: Mapping[Page, type[TasksPage | QueuesPage | PoolPage | NodesPage | TenantsPage | CronsPage]] = {
    Page.TASKS: TasksPage,
    Page.QUEUES: QueuesPage,
    Page.POOL: PoolPage,
    Page.NODES: NodesPage,
    Page.TENANTS: TenantsPage,
    Page.CRONS: CronsPage,
}
SLOW_SECONDS = 3.0
"""After this time without an answer, a banner says so."""


class StoreResult(Message):
    """A result of the store thread, and the function that handles it in the thread of the app."""

    def __init__(self, then: Callable[[Any], None], result: Any) -> None:
        super().__init__()
        self.then, self.result = then, result


class Top(App[None]):
    """The app of `windlass top`."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "windlass"
    CSS = STYLE
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(number), f"page('{page}')", page.value.capitalize(), show=False)
            for number, page in enumerate(Page, 1)
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
        self._store_thread = StoreThread(open_store if writable else lambda: read_only(open_store()))
        self._by, self._writable, self._light, self._every = by, writable, light, every
        self._rates = CompletionRates()
        self._snapshot: Snapshot | None = None
        self._problem = ""
        self._requested_at: float | None = None
        self._refresh = False

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield Static(id="banners")
        with ContentSwitcher(initial=Page.NOW):
            yield NowPage(id=Page.NOW)
            yield TasksPage(id=Page.TASKS)
            yield QueuesPage(id=Page.QUEUES)
            yield PoolPage(id=Page.POOL)
            yield NodesPage(id=Page.NODES)
            yield TenantsPage(id=Page.TENANTS)
            yield CronsPage(id=Page.CRONS)
        yield Static(id="message")
        yield Footer()

    def on_mount(self) -> None:
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = LIGHT_THEME if self._light else DARK_THEME
        self._store_thread.start()
        self.set_interval(self._every, self._tick)
        self._tick()
        self._draw_head()
        self.query_one(NowPage).focus()

    def on_unmount(self) -> None:
        self._store_thread.close()

    # Reading

    def _tick(self) -> None:
        """Read the store, unless the last read is still running."""
        if not self._can_draw:
            return
        if self._requested_at is None:
            self._read()
        elif monotonic() - self._requested_at > SLOW_SECONDS:
            self._problem = f"The store has not answered for {monotonic() - self._requested_at:.0f} s."
            self._draw_banners()

    def _read(self) -> None:
        self._requested_at, self._refresh = monotonic(), False
        page, query = self.page, self._main(TasksPage).query_filter
        self._request(lambda access: read_snapshot(access, page, query), self._show_snapshot)
        if isinstance(self.screen, TaskScreen):
            id = self.screen.task_id
            self._request(lambda access: read_task(access, id), self._show_task)

    def _show_snapshot(self, found: Snapshot | Exception) -> None:
        self._requested_at = None
        if isinstance(found, Exception):
            self._problem = f"The store is unavailable: {_format_error(found)}. Retrying."
            self._draw_banners()
            return
        self._problem, self._snapshot = "", found
        self._rates.add(found)
        self._draw()
        if self._refresh:
            self._read()

    def _show_task(self, found: TaskSnapshot | Exception | None) -> None:
        screen = self.screen
        if isinstance(screen, TaskScreen) and not isinstance(found, Exception):
            screen.show(found, self.palette)

    def _request(self, request: Callable[[Access], T], then: Callable[[T | Exception], None]) -> None:
        def post(result: T | Exception) -> None:
            self.post_message(StoreResult(then, result))

        self._store_thread.submit(request, post)

    def on_store_result(self, event: StoreResult) -> None:
        if self._can_draw:
            event.then(event.result)

    def on_refresh(self) -> None:
        """Read the store now, or right after the read that is running."""
        self._refresh = True
        if self._requested_at is None:
            self._read()

    # Drawing

    @property
    def page(self) -> Page:
        """Return the page that is shown."""
        return Page(self._main(ContentSwitcher).current or Page.NOW)

    @property
    def palette(self) -> Palette:
        """Return the colors in use."""
        return DARK if self.current_theme.dark else LIGHT

    @property
    def _can_draw(self) -> bool:
        """Return False once the widgets are being removed, because the app is closing."""
        return bool(self.screen_stack) and bool(self.screen_stack[0].query("#head"))

    def _main(self, kind: type[W]) -> W:
        """Return a widget of the pages, also while a dialog is open."""
        return self.screen_stack[0].query_one(kind)

    def _draw(self) -> None:
        """Draw the current page. Ignore a snapshot that was read for another page."""
        self._draw_head()
        self._draw_banners()
        snapshot = self._snapshot
        if snapshot is None or snapshot.page != self.page:
            return
        if snapshot.page is Page.NOW:
            self._main(NowPage).show(snapshot, self._rates, self.palette)
        else:
            self._main(PAGES[snapshot.page]).show(snapshot, self.palette)

    def _draw_head(self) -> None:
        head = Text("windlass  ", "bold")
        for number, page in enumerate(Page, 1):
            style = f"bold reverse {self.palette.brass}" if page == self.page else ""
            head.append(f" {number} {page.value.capitalize()} ", style)
        if self._snapshot is not None:
            now = self._snapshot.now
            head.append(f"   {Times(now=now).format_clock(now)}", self.palette.quiet)
        if not self._writable:
            head.append("   read-only", self.palette.brass)
        self._update_line("#head", head)

    def _draw_banners(self) -> None:
        lines = [] if self._snapshot is None else banners(self._snapshot, self.palette)
        if self._problem:
            lines.insert(0, plain(f"✗ {self._problem}", self.palette.states[State.FAILED]))
        self._update_line("#banners", Text("\n").join(lines))
        if isinstance(self.screen, TaskScreen):
            self.screen.warn(self._problem, self.palette)

    def _update_line(self, selector: str, text: Text) -> None:
        line = self.screen_stack[0].query_one(selector, Static)
        line.display = bool(text.plain)
        line.update(text)

    def show_message(self, text: str) -> None:
        """Show one line about what was done or refused."""
        self._update_line("#message", plain(text))
        if len(self.screen_stack) > 1:
            self.notify(replace_controls(text), markup=False)

    # Changes

    def on_change_request(self, event: ChangeRequest) -> None:
        """Ask, and make the change if it is confirmed."""
        if not self._writable:
            self.show_message("Read-only: changes are not allowed.")
            return

        def change(typed: str | None) -> None:
            if typed is None:
                self.show_message("Nothing was changed.")
                return
            try:
                action, why = event.parse(typed)
                author = Author(self._by, why)
            except WindlassError as error:
                self.show_message(str(error))
                return
            self._request(lambda access: action(access, author), self._show_result)

        self.push_screen(InputDialog(event.question, event.prompt), change)

    def _show_result(self, result: str | Exception) -> None:
        self.show_message(_format_error(result) if isinstance(result, Exception) else result)
        self.on_refresh()

    def on_open_task(self, event: OpenTask) -> None:
        self.push_screen(TaskScreen(event.id, why=event.why))
        self._request(lambda access: read_task(access, event.id), self._show_task)

    # Keys

    def action_page(self, name: str) -> None:
        while len(self.screen_stack) > 1:
            self.pop_screen()
        switcher = self._main(ContentSwitcher)
        switcher.current = name
        page = switcher.query_one(f"#{name}")
        (page if name == Page.NOW else page.query_one(LiveTable)).focus()
        self._draw_head()
        self.on_refresh()

    def action_go(self) -> None:
        self.push_screen(PageDialog(), lambda name: None if name is None else self.action_page(name))

    def action_command(self) -> None:
        self.push_screen(InputDialog("A page, and a filter for tasks:", "tasks state:failed"), self._command)

    def _command(self, typed: str | None) -> None:
        word, _, rest = (typed or "").strip().partition(" ")
        page = next((page for page in Page if page.value.startswith(word.lower())), None)
        if page is None:
            self.show_message(f"{word!r} is not a page. Use one of {', '.join(Page)}.")
        elif word:
            self.action_page(page)
            if page is Page.TASKS:
                self._main(TasksPage).search(rest)

    def action_keys(self) -> None:
        self.push_screen(KeysDialog())

    def action_dark(self) -> None:
        self.theme = LIGHT_THEME if self.current_theme.dark else DARK_THEME
        for rows in self.screen_stack[0].query(LiveTable):
            rows.invalidate()
        self._draw()


def _format_error(error: Exception) -> str:
    return str(error) if isinstance(error, WindlassError) else f"{type(error).__name__}: {error}"
