"""The page Now: counts, completion rate, pools, breakers, alerts and the latest audit entries."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from windlass.core.breaker import BreakerState
from windlass.core.lifecycle import State
from windlass.core.times import Micros
from windlass.operations.pools import PoolView
from windlass.operations.presentation import Palette, draw_sparkline, format_span, replace_controls
from windlass.tui.drawing import STATES, entry_line, format_mode, plain, section, state_text
from windlass.tui.snapshot import Snapshot

MOST_RATES = 60
"""How many completion rates the page shows."""


class CompletionRates:
    """The number of completed tasks per second between snapshots."""

    def __init__(self) -> None:
        self.rates: deque[float] = deque(maxlen=MOST_RATES)
        self._last: tuple[Micros, int] | None = None

    def add(self, snapshot: Snapshot) -> None:
        """Add the rate since the last snapshot. Tasks that were pruned since then do not make it negative."""
        current = (snapshot.now, snapshot.counts[State.COMPLETED])
        last, self._last = self._last or current, current
        seconds = (current[0] - last[0]) / 1_000_000
        if seconds > 0:
            self.rates.append(max(0, current[1] - last[1]) / seconds)


class NowPage(VerticalScroll):
    """The page Now."""

    def compose(self) -> ComposeResult:
        yield Static(id="now-text")

    def show(self, snapshot: Snapshot, rates: CompletionRates, palette: Palette) -> None:
        """Draw a snapshot."""
        self.query_one("#now-text", Static).update(now_page(snapshot, rates.rates, palette))


def now_page(snapshot: Snapshot, rates: Sequence[float], palette: Palette) -> Text:
    """Return the text of the page."""
    counts = snapshot.counts
    parts = [
        Text("   ").join(state_text(state, palette, counts[state]) for state in STATES[:5]),
        Text("   ").join(state_text(state, palette, counts[state]) for state in STATES[5:]),
        Text(""),
        _rate_line(snapshot, rates, palette),
        *section("Pools", [_pool_line(pool, palette) for pool in snapshot.pools], palette),
        *section("Breakers", _breaker_lines(snapshot, palette), palette),
        *section("Needs attention", alerts(snapshot, palette), palette),
        *section("Audit log", [entry_line(entry, snapshot, palette) for entry in snapshot.entries], palette),
    ]
    if not any(counts.values()) and not snapshot.pools:
        parts.append(Text("Nothing here yet: `windlass worker APP` starts a node, `windlass enqueue` submits a task."))
    return Text("\n").join(parts)


def _rate_line(snapshot: Snapshot, rates: Sequence[float], palette: Palette) -> Text:
    waits = [snapshot.now - queue.oldest for queue in snapshot.queues if queue.oldest is not None]
    oldest = format_span(max(0, *waits)) if waits else "–"
    rate = f"{rates[-1]:,.0f}/s completed" if rates else "– completed"
    return Text.assemble((rate, "bold"), " ", (draw_sparkline(list(rates)), palette.brass), f"   oldest wait {oldest}")


def _pool_line(pool: PoolView, palette: Palette) -> Text:
    return Text.assemble(
        (replace_controls(pool.name), "bold"),
        f"  {pool.live}/{pool.target} workers, {pool.running} running, {pool.runnable:,} runnable  ",
        (f"({format_mode(pool)})", palette.quiet),
    )


def _breaker_lines(snapshot: Snapshot, palette: Palette) -> list[Text]:
    style = palette.states[State.RETRYING]
    open_breakers = [each for each in snapshot.breakers if each.breaker.state is not BreakerState.CLOSED]
    return [plain(f"⚠ {each.sentence}", style) for each in open_breakers]


def alerts(snapshot: Snapshot, palette: Palette) -> list[Text]:
    """Return a line for each thing that a person should look at."""
    counts, warning = snapshot.counts, palette.states[State.RETRYING]
    found = [plain(f"⚠ pool {pool.name}: {alert}", warning) for pool in snapshot.pools for alert in pool.alerts]
    found += [plain(f"⚠ pool {pool.name}: {pool.degraded}", warning) for pool in snapshot.pools if pool.degraded]
    if counts[State.RUNNABLE] and not any(node.report for node in snapshot.nodes):
        found.append(Text("⚠ Tasks are runnable but no node is running. Start one: `windlass worker APP`", warning))
    if counts[State.FAILED]:
        text = f"✗ {counts[State.FAILED]:,} failed. `windlass dead ls` lists them by bug."
        found.append(Text(text, palette.states[State.FAILED]))
    return found
