"""Styled text that the pages share. No widgets, no store.

Control characters in text from the store are replaced, and markup in it is not interpreted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from windlass.core.lifecycle import State
from windlass.core.times import Micros, to_datetime
from windlass.operations.pools import PoolView
from windlass.operations.presentation import GLYPHS, Palette, Times, replace_controls
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

TENANT_BANNERS = 3
"""How many paused tenants have a line each."""


def plain(text: str, style: str = "") -> Text:
    """Return text from the store, safe for a terminal."""
    return Text(replace_controls(text), style)


def state_text(state: State, palette: Palette, count: int | None = None) -> Text:
    """Return the glyph and the name of a state in its color."""
    number = "" if count is None else f" {count:,}"
    return Text(f"{GLYPHS[state]} {state.value}{number}", palette.states[state])


def number_text(number: str) -> Text:
    """Return a number, aligned to the right."""
    return Text(number, justify="right")


def banners(snapshot: Snapshot, palette: Palette) -> list[Text]:
    """Return a line for each paused queue, pool and tenant, with who paused it and why. Every page shows them."""
    settings = [queue.settings for queue in snapshot.queues]
    lines = [
        format_pause("queue", each.name, each.paused_by, each.paused_why, each.paused_until)
        for each in settings
        if each.paused
    ]
    lines += [
        format_pause("pool", pool.name, pool.paused.by, pool.paused.why) for pool in snapshot.pools if pool.paused
    ]
    lines += _tenant_pauses(snapshot)
    return [plain(line, palette.brass) for line in lines]


def _tenant_pauses(snapshot: Snapshot) -> list[str]:
    """Return a line for each paused tenant, or one for all if there are many."""
    paused = snapshot.paused_tenants
    if len(paused) > TENANT_BANNERS:
        return [f"⏸ {len(paused):,} tenants are paused"]
    return [format_pause("tenant", name, each.by, each.why, each.until) for name, each in paused.items()]


def format_pause(kind: str, name: str, by: str | None, why: str | None, until: Micros | None = None) -> str:
    """Format who paused something, until when and why."""
    end = "" if until is None else f" until {to_datetime(until):%H:%M} UTC"
    return f"⏸ {kind} {name} paused" + (f" by {by}" if by else "") + end + (f' "{why}"' if why else "")


def section(title: str, lines: Sequence[Text], palette: Palette) -> list[Text]:
    """Return a heading and its lines; nothing without lines."""
    return [Text(""), Text(title, f"bold {palette.quiet}"), *(Text("  ") + line for line in lines)] if lines else []


def entry_line(entry: EntrySeen, snapshot: Snapshot, palette: Palette) -> Text:
    """Return one line for an audit entry."""
    when = Times(now=snapshot.now).format(entry.at)
    return Text.assemble((when, palette.quiet), "  ", plain(f"{entry.subject}  {entry.action}  {entry.text}"))


def fact_lines(facts: Sequence[tuple[str, str | None]], palette: Palette) -> Iterator[Text]:
    """Yield a line for each fact that is not empty."""
    for name, fact in facts:
        if fact:
            yield Text.assemble((f"  {name:<11}", palette.quiet), plain(fact))


def format_mode(pool: PoolView) -> str:
    """Format what decides the size of a pool."""
    return "paused" if pool.paused else "set by hand" if pool.override else "fixed" if pool.fixed else "sizes itself"
