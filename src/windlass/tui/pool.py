"""The page Pool: the size of each pool, why it has that size, and the keys that change it."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from windlass.operations.pools import PoolView
from windlass.operations.presentation import Palette
from windlass.tui import actions
from windlass.tui.actions import Action
from windlass.tui.drawing import entry_line, fact_lines, format_mode, format_pause, number_text, plain, section
from windlass.tui.live_table import LiveTable
from windlass.tui.messages import ChangeRequest
from windlass.tui.snapshot import Snapshot

HEADS = ("pool", "workers", "running", "runnable", "oldest", "bounds", "size by", "queues")


class PoolPage(Vertical):
    """A table of the pools, and all about the pool under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "set", "set size"),
        Binding("f", "freeze", "freeze"),
        Binding("p", "pause", "pause"),
        Binding("u", "resume", "resume"),
    ]

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._shown: tuple[Snapshot, Palette] | None = None

    def compose(self) -> ComposeResult:
        yield LiveTable(HEADS, id="pool-rows")
        with VerticalScroll():
            yield Static(id="pool-text")

    def show(self, snapshot: Snapshot, palette: Palette) -> None:
        """Draw a snapshot."""
        self._shown = snapshot, palette
        self.query_one(LiveTable).show([(pool.name, pool_row(pool, palette)) for pool in snapshot.pools])
        self._show_selected()

    def on_data_table_row_highlighted(self) -> None:
        self._show_selected()

    def _show_selected(self) -> None:
        if self._shown is None:
            return
        snapshot, palette = self._shown
        name = self._pool_name
        pool = next((pool for pool in snapshot.pools if pool.name == name), None)
        nothing = Text("No pool yet. Start a node with `windlass worker APP`.")
        text = nothing if pool is None else pool_page(pool, snapshot, palette)
        self.query_one("#pool-text", Static).update(text)

    @property
    def _pool_name(self) -> str | None:
        return self.query_one(LiveTable).selected

    def action_set(self) -> None:
        if name := self._pool_name:
            question = f"Set the size of pool {name} for an hour: a number or a range such as 2-8, then a reason."
            self.post_message(ChangeRequest(question, lambda typed: _parse_size(name, typed), "size and reason"))

    def action_freeze(self) -> None:
        if name := self._pool_name:
            self.post_message(ChangeRequest.of(f"Keep pool {name} at its current size?", actions.freeze_pool(name)))

    def action_pause(self) -> None:
        if name := self._pool_name:
            question = f"Pause pool {name}? Running tasks end, no other task starts."
            self.post_message(ChangeRequest.of(question, actions.pause_pool(name)))

    def action_resume(self) -> None:
        if name := self._pool_name:
            self.post_message(ChangeRequest.of(f"Let pool {name} size itself again?", actions.resume_pool(name)))


def _parse_size(name: str, typed: str) -> tuple[Action, str]:
    size, _, why = typed.strip().partition(" ")
    return actions.set_pool(name, actions.parse_size(size)), why.strip()


def pool_row(pool: PoolView, palette: Palette) -> list[Text]:
    """Return the row of a pool."""
    return [
        plain(pool.name),
        number_text(f"{pool.live}/{pool.target}"),
        number_text(str(pool.running)),
        number_text(f"{pool.runnable:,}"),
        number_text(f"{pool.oldest:.1f} s"),
        Text(f"{pool.min} to {pool.max}, wait goal {pool.wait:g} s"),
        Text(format_mode(pool), palette.brass if pool.paused or pool.override else palette.quiet),
        plain(", ".join(pool.queues)),
    ]


def pool_page(pool: PoolView, snapshot: Snapshot, palette: Palette) -> Text:
    """Return all about one pool: its latest decision, what people changed, its nodes and its audit log."""
    facts = [
        ("now", f"{pool.starting} starting, {pool.draining} draining, {pool.asleep} asleep, {pool.threads} slots each"),
        ("decided", pool.sentence),
        ("because", " → ".join(pool.reasons)),
        ("override", pool.override.describe() if pool.override else ""),
        ("paused", format_pause("pool", pool.name, pool.paused.by, pool.paused.why) if pool.paused else ""),
        ("tuned", ", ".join(f"{field}={value}" for field, value in pool.tuned.items())),
        ("alerts", ", ".join(pool.alerts)),
        ("degraded", pool.degraded),
        *(("node", f"{part.node}: {part.ready}/{part.target} of at most {part.max}") for part in pool.nodes),
    ]
    entries = [entry for entry in snapshot.entries if entry.subject == f"pool/{pool.name}"]
    lines = [plain(pool.name, "bold"), *fact_lines(facts, palette)]
    lines += section("Audit log", [entry_line(entry, snapshot, palette) for entry in entries], palette)
    return Text("\n").join(lines)
