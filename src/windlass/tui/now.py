"""The page Now: is it healthy?"""

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
from windlass.operations.legacy_pools import PoolView
from windlass.operations.presentation import Palette, length, sparkline, tame
from windlass.tui.drawing import STATES, by_state, entry_line, mode, plain, section, state_text
from windlass.tui.snapshot import Snapshot

REMEMBERED = 60
"""For how many readings the pace is shown."""


class Pace:
    """How many tasks were completed each second, reading by reading."""

    def __init__(self) -> None:
        self.rates: deque[float] = deque(maxlen=REMEMBERED)
        self._before: tuple[Micros, int] | None = None

    def add(self, reading: Snapshot) -> None:
        """Take one more reading. What was pruned meanwhile is not taken for work undone."""
        here = (reading.now, by_state(reading)[State.COMPLETED])
        before, self._before = self._before or here, here
        seconds = (here[0] - before[0]) / 1_000_000
        if seconds > 0:
            self.rates.append(max(0, here[1] - before[1]) / seconds)


class NowPage(VerticalScroll):
    """Counts, pace, pools, breakers, alerts and the latest deeds on one page."""

    def compose(self) -> ComposeResult:
        yield Static(id="now-text")

    def show(self, reading: Snapshot, pace: Pace, palette: Palette) -> None:
        """Draw how things stand."""
        self.query_one("#now-text", Static).update(now_page(reading, pace.rates, palette))


def now_page(reading: Snapshot, done: Sequence[float], palette: Palette) -> Text:
    """Is it healthy?"""
    counts = by_state(reading)
    parts = [
        Text("   ").join(state_text(state, palette, counts[state]) for state in STATES[:5]),
        Text("   ").join(state_text(state, palette, counts[state]) for state in STATES[5:]),
        Text(""),
        _pace(reading, done, palette),
        *section("Pools", [_pool_line(pool, palette) for pool in reading.pools], palette),
        *section("Breakers", _breakers(reading, palette), palette),
        *section("Needs you", alerts(reading, palette), palette),
        *section("Latest", [entry_line(entry, reading, palette) for entry in reading.entries], palette),
    ]
    if not reading.counts and not reading.pools:
        parts.append(Text("nothing here yet: `windlass worker APP` starts a node, `windlass enqueue` submits a task"))
    return Text("\n").join(parts)


def _pace(reading: Snapshot, done: Sequence[float], palette: Palette) -> Text:
    waits = [reading.now - look.oldest for look in reading.looks.values() if look.oldest is not None]
    oldest = length(max(0, *waits)) if waits else "–"
    rate = f"{done[-1]:,.0f}/s done" if done else "– done"
    return Text.assemble((rate, "bold"), " ", (sparkline(list(done)), palette.brass), f"   oldest wait {oldest}")


def _pool_line(pool: PoolView, palette: Palette) -> Text:
    return Text.assemble(
        (tame(pool.name), "bold"),
        f"  {pool.live}/{pool.target} workers, {pool.running} tasks run, {pool.runnable:,} runnable  ",
        (f"({mode(pool)})", palette.quiet),
    )


def _breakers(reading: Snapshot, palette: Palette) -> list[Text]:
    style = palette.states[State.RETRYING]
    shut = [each for each in reading.downstreams if each.breaker.state is not BreakerState.CLOSED]
    return [plain(f"⚠ {each.sentence}", style) for each in shut]


def alerts(reading: Snapshot, palette: Palette) -> list[Text]:
    """What a person should look at."""
    counts, warn = by_state(reading), palette.states[State.RETRYING]
    found = [plain(f"⚠ pool {pool.name}: {alert}", warn) for pool in reading.pools for alert in pool.alerts]
    found += [plain(f"⚠ pool {pool.name}: {pool.degraded}", warn) for pool in reading.pools if pool.degraded]
    if counts[State.RUNNABLE] and not reading.reports:
        found.append(Text("⚠ tasks are runnable and no node reports: start one with `windlass worker APP`", warn))
    if counts[State.FAILED]:
        text = f"✗ {counts[State.FAILED]:,} failed: `windlass dead ls` shows them by bug"
        found.append(Text(text, palette.states[State.FAILED]))
    return found
