"""The page of pools: why this many workers? With the orders that overrule the controller."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from windlass.operations.legacy_pools import PoolView
from windlass.operations.presentation import Palette
from windlass.tui import actions
from windlass.tui.actions import Action
from windlass.tui.drawing import entry_line, facts_told, mode, paused, plain, section
from windlass.tui.live_table import LiveTable
from windlass.tui.messages import Change
from windlass.tui.snapshot import Snapshot

HEADS = ("pool", "workers", "running", "runnable", "oldest", "bounds", "decides", "queues")


class PoolPage(Vertical):
    """Every pool, and all about the one under the cursor."""

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

    def show(self, reading: Snapshot, palette: Palette) -> None:
        """Draw how things stand."""
        self._shown = reading, palette
        self.query_one(LiveTable).show([(pool.name, pool_row(pool, palette)) for pool in reading.pools])
        self._explain()

    def on_data_table_row_highlighted(self) -> None:
        self._explain()

    def _explain(self) -> None:
        if self._shown is None:
            return
        reading, palette = self._shown
        chosen = self.query_one(LiveTable).chosen
        pool = next((pool for pool in reading.pools if pool.name == chosen), None)
        nothing = Text("no pool yet: start a node with `windlass worker APP`")
        text = nothing if pool is None else pool_page(pool, reading, palette)
        self.query_one("#pool-text", Static).update(text)

    def action_set(self) -> None:
        name = self.query_one(LiveTable).chosen
        if name is not None:
            question = f"Set the size of {name} for an hour: a number or a range as in 2-8, then why."
            self.post_message(Change(question, lambda typed: _set(name, typed), "size and why"))

    def action_freeze(self) -> None:
        name = self.query_one(LiveTable).chosen
        if name is not None:
            question = f"Keep {name} at the size that it has now, until it is resumed?"
            self.post_message(Change(question, lambda why: actions.freeze_pool(name, why), "why"))

    def action_pause(self) -> None:
        name = self.query_one(LiveTable).chosen
        if name is not None:
            question = f"Pause {name}? It goes to 0 workers, and its queues fill until it is resumed."
            self.post_message(Change(question, lambda why: actions.pause_pool(name, why), "why"))

    def action_resume(self) -> None:
        name = self.query_one(LiveTable).chosen
        if name is not None:
            question = f"Let {name} size itself again?"
            self.post_message(Change(question, lambda why: actions.resume_pool(name, why), "why"))


def _set(name: str, typed: str) -> Action:
    size, _, why = typed.strip().partition(" ")
    return actions.set_pool(name, actions.size_of(size), why.strip())


def pool_row(pool: PoolView, palette: Palette) -> list[Text]:
    """A line of the page of pools."""
    return [
        plain(pool.name),
        Text(f"{pool.live}/{pool.target}", justify="right"),
        Text(str(pool.running), justify="right"),
        Text(f"{pool.runnable:,}", justify="right"),
        Text(f"{pool.oldest:.1f} s", justify="right"),
        Text(f"{pool.floor} to {pool.ceiling}, goal {pool.wait:g} s"),
        Text(mode(pool), palette.brass if pool.paused or pool.override else palette.quiet),
        plain(", ".join(pool.queues)),
    ]


def pool_page(pool: PoolView, reading: Snapshot, palette: Palette) -> Text:
    """Why this many workers?"""
    facts = [
        ("now", f"{pool.starting} starting, {pool.draining} draining, {pool.asleep} asleep, {pool.threads} slots each"),
        ("decided", pool.sentence),
        ("because", " → ".join(pool.reasons)),
        ("order", pool.override.describe() if pool.override else ""),
        ("paused", paused("pool", pool.name, pool.paused.by, pool.paused.why) if pool.paused else ""),
        ("tuned", ", ".join(f"{field}={value}" for field, value in pool.tuned.items())),
        ("alerts", ", ".join(pool.alerts)),
        ("degraded", pool.degraded),
        *(("node", f"{part.node}: {part.ready}/{part.target} of at most {part.ceiling}") for part in pool.nodes),
    ]
    ledger = [entry for entry in reading.entries if entry.subject == f"pool/{pool.name}"]
    lines = [plain(pool.name, "bold"), *facts_told(facts, palette)]
    lines += section("Ledger", [entry_line(entry, reading, palette) for entry in ledger], palette)
    return Text("\n").join(lines)
