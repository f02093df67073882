"""Text that every page draws with: what is known goes in, styled text comes out. No widget, no store.

Whatever others have written is tamed before it reaches the terminal, and has no markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from windlass.core.lifecycle import State
from windlass.operations.legacy_pools import PoolView
from windlass.operations.presentation import GLYPHS, Palette, Times, tame
from windlass.redaction import redact_text
from windlass.stores.coordination import EntrySeen
from windlass.tui.snapshot import Snapshot

STATES = (
    State.RUNNABLE,
    State.LEASED,
    State.RETRYING,
    State.SCHEDULED,
    State.WAITING,
    State.COMPLETED,
    State.FAILED,
    State.CANCELLED,
    State.EXPIRED,
)


def plain(text: str, style: str = "") -> Text:
    """Text of others, safe for a terminal."""
    return Text(tame(text), style)


def state_text(state: State, palette: Palette, count: int | None = None) -> Text:
    """Glyph and word, in the state's colour."""
    number = "" if count is None else f" {count:,}"
    return Text(f"{GLYPHS[state]} {state.value}{number}", palette.states[state])


def by_state(reading: Snapshot) -> dict[State, int]:
    """How many tasks are in each state."""
    found = dict.fromkeys(State, 0)
    for count in reading.counts:
        found[count.state] += count.tasks
    return found


def banners(reading: Snapshot, palette: Palette) -> list[Text]:
    """What nobody should overlook on any page: queues and pools that somebody has stopped, with who and why."""
    found = [paused("queue", queue.name, queue.paused_by, queue.paused_why) for queue in reading.queues if queue.paused]
    found += [
        paused("pool", pool.name, pool.paused.by, pool.paused.why) for pool in reading.pools if pool.paused is not None
    ]
    return [plain(text, palette.brass) for text in found]


def paused(kind: str, name: str, by: str | None, why: str | None) -> str:
    """Who stopped something, and why."""
    return f"⏸ {kind} {name} paused" + (f" by {by}" if by else "") + (f' "{why}"' if why else "")


def section(title: str, lines: Sequence[Text], palette: Palette) -> list[Text]:
    """A heading and what stands under it; nothing when there is nothing."""
    return [Text(""), Text(title, f"bold {palette.quiet}"), *(Text("  ") + line for line in lines)] if lines else []


def entry_line(entry: EntrySeen, reading: Snapshot, palette: Palette) -> Text:
    """One line of the ledger."""
    times = Times(now=reading.now)
    said = f"{entry.subject}  {entry.action}  {redact_text(entry.text)}"
    return Text.assemble((times.both(entry.at), palette.quiet), "  ", plain(said))


def facts_told(facts: Sequence[tuple[str, str | None]], palette: Palette) -> Iterator[Text]:
    """Names and facts, without those that are empty."""
    for name, fact in facts:
        if fact:
            yield Text.assemble((f"  {name:<11}", palette.quiet), plain(fact))


def mode(pool: PoolView) -> str:
    """Who decides how large a pool is."""
    return "paused" if pool.paused else "set by hand" if pool.override else "fixed" if pool.fixed else "sizes itself"
