"""From a wish to a target: growth at once, shrinking after a hold and within a budget of resizes.

Late growth costs the goal, early shrinking costs a second start; so growth is never blocked and only pays, and
shrinking waits as long as a start would have cost (the ski rental rule).
"""

from __future__ import annotations

from math import inf

from msgspec import Struct
from msgspec.structs import replace

from windlass.autoscale.deciders.forecasts import find_open_windows
from windlass.autoscale.estimates import compute_reaction_time
from windlass.autoscale.observe import Observation
from windlass.autoscale.recommendation import Moment, Recommendation, Step, cap_at, predict_wait, round_up
from windlass.autoscale.settings import Settings

HOLD = 15.0
BUDGET = 30 / 3600
"""Resizes that are earned in a second."""
TOKENS_MOST, TOKENS_LEAST = 6.0, -6.0
FLAP_WINDOW, FLAPS = 600.0, 2
REVERSALS = 12
"""How many reversals are remembered at most."""
DEADBAND, DEADBAND_MOST = 0.05, 0.4
"""The deadband of a flapping pool: it doubles with each further reversal, up to the second number."""
OVERDUE = 300.0
"""Seconds after the last growth when three quarters of a pool may go, whatever is left of the budget."""
DECISIVE = 1.15
"""A growth that comes on top of workers still starting must be at least this much."""
FALLING = 20.0
"""Seconds that a shrink waits when the hold is about to end for more of it."""


class Pace(Struct, frozen=True, kw_only=True, gc=False):
    """What has lately been needed and done."""

    steady: list[tuple[float, float]] = []
    """(when, size) of `keep`, falling: the first is the maximum over the hold."""
    peaks: list[tuple[float, float]] = []
    tokens: float = 2.0
    """Resizes that were earned and not made. A pool begins with one up and one down, not with a full bucket, or its
    first hour would have more of them than any other."""
    at: float = 0.0
    grown: float = -1e9
    """When the pool last grew."""
    shrunk: float = -1e9
    reversals: list[float] = []
    """When a growth followed a shrink, within the window."""
    calm_at: float = 0.0
    """Until when the size is not lowered because it went up and down too often."""
    falling: float | None = None
    """Since when a shrink waits for the hold to end."""

    @property
    def flaps(self) -> int:
        """By how many the latest reversals exceed what is normal."""
        return max(0, len(self.reversals) - FLAPS)

    @property
    def deadband(self) -> float:
        """The share of the pool below which a shrink is no step: wider, the more often the size went up and down."""
        return min(DEADBAND_MOST, DEADBAND * 2**self.flaps) if self.flaps else 0.0


def compute_hold(observed: Observation, wait: float | None = None) -> float:
    """How long a peak is remembered; the steady need twice as long, if the goal leaves little time for a start."""
    hold = max(HOLD, 2 * observed.start_delay)
    return 2 * hold if wait is not None and wait < 1.5 * compute_reaction_time(observed) else hold


def remember(line: list[tuple[float, float]], now: float, need: float, hold: float) -> list[tuple[float, float]]:
    """The line of maxima after one more value: what is older than the hold or below a later value is gone.

    Whole workers only, so that the line is never longer than the pool is large.
    """
    size, last = float(round_up(need)), len(line)
    while last and line[last - 1][1] <= size:
        last -= 1
    first = 0
    while first < last and line[first][0] < now - hold:
        first += 1
    return [*line[first:last], (now, size)]


def apply_pacing(
    now: float,
    wish: Recommendation,
    observed: Observation,
    pace: Pace,
    current: int,
    settings: Settings,
    adopting: bool = False,
) -> tuple[Step, Pace]:
    """The size that follows with what decided it, and the new pace."""
    hold, slow = compute_hold(observed), settings.wait < compute_reaction_time(observed)
    pace = replace(
        pace,
        steady=remember(pace.steady, now, wish.keep, compute_hold(observed, settings.wait)),
        peaks=remember(pace.peaks, now, max(wish.keep, wish.peak), hold),
        tokens=min(TOKENS_MOST, pace.tokens + BUDGET * (now - pace.at if pace.at else 0.0)),
        at=now,
        reversals=[at for at in pace.reversals if at > now - FLAP_WINDOW],
    )
    if wish.must <= current and adopting:
        return Step(size=current, reason="held: the controller has just begun", limit="adopting"), pace
    if wish.must <= current:
        return shrink(now, round_up(max(pace.steady[0][1], pace.peaks[0][1])), current, pace, hold, settings)
    if not slow and observed.starting and current < round_up(wish.want) < DECISIVE * current:
        return Step(size=current, reason="held: what starts is nearly enough", limit="starting"), pace
    return grow(now, round_up(wish.want), current, pace, hold, settings)


def grow(now: float, want: int, current: int, pace: Pace, hold: float, settings: Settings) -> tuple[Step, Pace]:
    """Grow at once, as far as a user's own limits allow."""
    if want <= current:
        return Step(size=current, reason="steady"), pace
    if now - pace.grown < settings.cooldown_up:
        why = f"held: it grew {now - pace.grown:.0f} s ago, and rests for {settings.cooldown_up:g} s"
        return Step(size=current, reason=why, limit="cooldown"), pace
    size = want if settings.step_up is None else min(want, current + settings.step_up)
    # What was ordered is held like what was needed, or the next tick would send it away again.
    pace = replace(pace, peaks=remember(pace.peaks, now, size, hold))
    return Step(size=size, reason=f"grow {current} → {size}", limit="step"), record_growth(now, pace)


def record_growth(now: float, pace: Pace) -> Pace:
    """The pace after a growth. One that follows a shrink is a reversal, and too many of them make shrinking wait."""
    reversals = [*pace.reversals, now] if pace.shrunk > pace.grown else pace.reversals
    pace = replace(pace, tokens=spend_token(pace), grown=now, reversals=reversals[-REVERSALS:], falling=None)
    return replace(pace, calm_at=now + min(300.0, 5.0 * 2**pace.flaps)) if pace.flaps else pace


def spend_token(pace: Pace) -> float:
    """The tokens after one resize."""
    return max(TOKENS_LEAST, pace.tokens - 1)


def shrink(now: float, target: int, current: int, pace: Pace, hold: float, settings: Settings) -> tuple[Step, Pace]:
    """Shrink as far as the hold and a user's own limits allow, if the step is worth a resize."""
    if target >= current:
        return Step(size=current, reason="steady", limit="hold"), replace(pace, falling=None)
    since = now if pace.falling is None else pace.falling
    kept = find_shrink_blocker(now, target, current, pace, settings)
    if kept is not None:
        return kept, pace
    if now - since < FALLING and predict_hold(pace, now, hold) < target:
        return Step(size=current, reason="held: about to fall further", limit="hold"), replace(pace, falling=since)
    size = target if settings.step_down is None else max(target, current - settings.step_down)
    step = Step(size=size, reason=f"shrink {current} → {size}", limit="hold" if size == target else "step")
    return step, replace(pace, tokens=spend_token(pace), shrunk=now, falling=None)


def find_shrink_blocker(now: float, target: int, current: int, pace: Pace, settings: Settings) -> Step | None:
    """What keeps a pool from shrinking now, if anything does."""
    changed = max(pace.grown, pace.shrunk)
    if now - changed < settings.cooldown_down:
        why = f"held: it changed {now - changed:.0f} s ago, and rests for {settings.cooldown_down:g} s"
        return Step(size=current, reason=why, limit="cooldown")
    if now < pace.calm_at:
        return Step(size=current, reason="held: the size went up and down too often", limit="flapping")
    if current - target < pace.deadband * current:
        why = f"held: the size went up and down too often, so less than {pace.deadband:.0%} is no step"
        return Step(size=current, reason=why, limit="flapping")
    overdue = target <= current / 4 and now >= pace.grown + OVERDUE
    if pace.tokens < compute_price(current, target) and not overdue:
        why = "held: too small a step for what is left of the budget of resizes"
        return Step(size=current, reason=why, limit="budget")
    return None


def compute_price(current: int, target: int) -> float:
    """The tokens that must be there for a step down: small steps only when resizes are plenty."""
    share = (current - target) / current
    if share < 0.1 or current - target < 2:
        return 4.0
    return 2.0 if share < 0.2 else 0.0


def predict_hold(pace: Pace, now: float, hold: float) -> int:
    """The size that the hold will allow a little later, if nothing new comes."""
    later = [size for line in (pace.steady, pace.peaks) for at, size in line if at >= now - hold + FALLING]
    return round_up(max(later, default=0.0))


HOUR = 3600.0


class Bill(Struct, frozen=True, kw_only=True, gc=False):
    """What the present hour has cost."""

    began: float = 0.0
    at: float = 0.0
    spent: float = 0.0


def charge(now: float, observed: Observation, bill: Bill, settings: Settings) -> Bill:
    """The bill after the time since the last tick; workers cost while they start and while they drain."""
    if settings.cost_per_hour is None or not bill.began or not 0 <= now - bill.began < HOUR:
        return Bill(began=now, at=now)
    workers = observed.alive + observed.draining
    spent = bill.spent + workers * settings.price * max(0.0, now - bill.at) / HOUR
    return Bill(began=bill.began, at=now, spent=spent)


def count_affordable_workers(bill: Bill, settings: Settings) -> int | None:
    """The most workers that the rest of the hour's money pays for; None if money is no matter."""
    if settings.cost_per_hour is None or settings.price <= 0:
        return None
    left = settings.cost_per_hour - bill.spent
    hours = (HOUR - (bill.at - bill.began)) / HOUR
    return int(min(spread_money(left, hours, settings.price), settings.ceiling))


class Bounds(Struct, frozen=True, kw_only=True, gc=False):
    """The sizes that are allowed at one moment."""

    floor: int
    ceiling: int
    limit: str = "ceiling"
    """What makes the ceiling: the setting, a window, or the cost."""
    reason: str = ""
    """The ceiling in words, with what it means for those who wait."""
    idle: float = 0.0


def compute_bounds(moment: Moment, bill: Bill) -> Bounds:
    """The bounds of this tick."""
    settings = moment.settings
    ceilings = [(settings.ceiling, "ceiling")]
    if "schedule" in settings.deciders:
        most = [window.most for window in find_open_windows(moment) if window.most is not None]
        ceilings += [(size, "window") for size in most]
    money = count_affordable_workers(bill, settings)
    if money is not None:
        ceilings.append((money, "cost"))
    least, word = min(ceilings, key=lambda each: each[0])
    ceiling = max(settings.floor, least)
    told = f"{word} {ceiling}, which makes a task wait about {predict_wait(moment, ceiling):.0f} s"
    return Bounds(floor=settings.floor, ceiling=ceiling, limit=word, reason=told, idle=settings.idle)


def apply_ceiling(moment: Moment, wish: Recommendation, bounds: Bounds) -> tuple[Recommendation, Step]:
    """The wish with nothing above the ceiling, and what that means for those who wait."""
    before = round_up(wish.choose_size(moment.current))
    wish = cap_at(wish, bounds.ceiling)
    size = round_up(wish.choose_size(moment.current))
    return wish, Step(size=size, reason=bounds.reason if size < before else "", limit=bounds.limit)


def spread_money(money_left: float, seconds_left: float, price: float, burst: float = 1.5) -> float:
    """The most workers that the rest of the money allows, spent evenly with some room for bursts."""
    if price <= 0 or seconds_left <= 0:
        return inf
    return max(0.0, money_left) / seconds_left * burst / price
