"""From a wish to a target: growth at once, shrinking after a hold and within a budget of resizes.

Late growth costs the goal, early shrinking costs a second start; so growth is never blocked and only pays, and shrinking
waits as long as a start would have cost (the ski rental rule).
"""

from __future__ import annotations

from math import ceil

from msgspec import Struct

from windlass.autoscale.observations import Observation
from windlass.autoscale.wishes import Wish

HOLD = 30.0
BUDGET = 30 / 3600
"""Resizes that are earned in a second."""
TOKENS_MOST, TOKENS_LEAST = 6.0, -2.0
FLAP_WINDOW, FLAPS = 600.0, 2
FALLING = 20.0
"""Seconds that a shrink waits when the hold is about to end for more of it."""


class Pace(Struct, frozen=True, kw_only=True, gc=False):
    """What has lately been needed and done."""

    steady: list[tuple[float, float]] = []
    """(when, size) of `keep`, falling: the first is the maximum over the hold."""
    peaks: list[tuple[float, float]] = []
    tokens: float = TOKENS_MOST
    at: float = 0.0
    grown: float = -1e9
    """When the pool last grew."""
    shrunk: float = -1e9
    reversals: list[float] = []
    """When a growth followed a shrink, within the window."""
    falling: float | None = None
    """Since when a shrink waits for the hold to end."""


def hold_of(observed: Observation) -> float:
    """How long a peak is remembered."""
    return max(HOLD, 2 * observed.start_delay)


def remember(line: list[tuple[float, float]], now: float, size: float, hold: float) -> list[tuple[float, float]]:
    """The line of maxima after one more value: what is older than the hold or below a later value is gone."""
    last = len(line)
    while last and line[last - 1][1] <= size:
        last -= 1
    first = 0
    while first < last and line[first][0] < now - hold:
        first += 1
    return [*line[first:last], (now, size)]


def paced(
    now: float, wish: Wish, observed: Observation, pace: Pace, current: int, tight: bool
) -> tuple[int, str, Pace]:
    """The size that follows, what decided it, and the new pace."""
    hold = hold_of(observed)
    steady = remember(pace.steady, now, wish.keep, 2 * hold if tight else hold)
    peaks = remember(pace.peaks, now, max(wish.keep, wish.peak), hold)
    tokens = min(TOKENS_MOST, pace.tokens + BUDGET * (now - pace.at if pace.at else 0.0))
    pace = Pace(
        steady=steady, peaks=peaks, tokens=tokens, at=now, grown=pace.grown, shrunk=pace.shrunk,
        reversals=[at for at in pace.reversals if at > now - FLAP_WINDOW], falling=pace.falling,
    )  # fmt: skip
    if wish.must > current:
        return grow(now, ceil(wish.want - 1e-9), current, pace)
    return shrink(now, ceil(max(steady[0][1], peaks[0][1]) - 1e-9), current, pace, hold)


def grow(now: float, target: int, current: int, pace: Pace) -> tuple[int, str, Pace]:
    """Grow at once; a growth soon after a shrink is a reversal."""
    if target <= current:
        return current, "enough already", pace
    reversals = [*pace.reversals, now] if pace.shrunk > pace.grown else pace.reversals
    tokens = max(TOKENS_LEAST, pace.tokens - 1)
    return target, "grow", moved(pace, tokens=tokens, grown=now, reversals=reversals)


def shrink(now: float, target: int, current: int, pace: Pace, hold: float) -> tuple[int, str, Pace]:
    """Shrink as far as the hold allows, if the step is worth a resize."""
    if target >= current:
        return current, "steady", moved(pace, falling=None)
    flaps = len(pace.reversals) - FLAPS
    if flaps > 0 and now < pace.grown + min(300.0, 5.0 * 2**flaps):
        return current, "held: the size goes up and down too often", pace
    share = (current - target) / current
    needed = 4.0 if share < 0.1 or current - target < 2 else 2.0 if share < 0.2 else 0.0
    if pace.tokens < needed:
        return current, "held: too small a step for what is left of the budget of resizes", pace
    since = now if pace.falling is None else pace.falling
    if now - since < FALLING and soon(pace, now, hold) < target:
        return current, "held: about to fall further", moved(pace, falling=since)
    tokens = max(TOKENS_LEAST, pace.tokens - 1)
    return target, "shrink", moved(pace, tokens=tokens, shrunk=now, falling=None)


def soon(pace: Pace, now: float, hold: float) -> int:
    """The size that the hold will allow a little later, if nothing new comes."""
    later = [size for line in (pace.steady, pace.peaks) for at, size in line if at >= now - hold + FALLING]
    return ceil(max(later, default=0.0) - 1e-9)


def moved(pace: Pace, **changes: object) -> Pace:
    """The pace with some fields changed."""
    return Pace(**{**{name: getattr(pace, name) for name in Pace.__struct_fields__}, **changes})  # pyright: ignore[reportArgumentType]
