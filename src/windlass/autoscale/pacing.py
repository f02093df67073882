"""Turn a recommendation into the next size: grow at once, shrink after a hold and within a resize budget.

Late growth costs the goal, and early shrinking costs a second start. So growth is never blocked, and shrinking waits
for as long as a start would cost (the ski rental rule).

The maximum is the least of the setting, the open windows, and what the rest of the hour's money pays for. Quiet parts
of the hour leave money for busy ones. The minimum always holds, whatever it costs.
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
"""Resizes earned per second."""
TOKENS_MOST, TOKENS_LEAST = 6.0, -6.0
FLAP_WINDOW, FLAPS = 600.0, 2
REVERSALS = 12
"""The most reversals that are remembered."""
DEADBAND, DEADBAND_MOST = 0.05, 0.4
"""The deadband of a flapping pool. It doubles with each further reversal, up to the second number."""
OVERDUE = 300.0
"""Seconds after the last growth when a pool may shrink by three quarters without budget."""
DECISIVE = 1.15
"""The least factor of a growth while other workers are still starting."""
FALLING = 20.0
"""Seconds that a shrink waits if the hold will soon allow a larger one."""
HOUR = 3600.0


class Pace(Struct, frozen=True, kw_only=True, gc=False):
    """Recent needs and resizes."""

    steady: list[tuple[float, float]] = []
    """(time, size) of `keep`, in falling order. The first is the maximum over the hold."""
    peaks: list[tuple[float, float]] = []
    tokens: float = 2.0
    """Earned resizes. A pool starts with two, so that its first hour has no more resizes than any other."""
    at: float = 0.0
    grown: float = -1e9
    """When the pool last grew."""
    shrunk: float = -1e9
    reversals: list[float] = []
    """When growths followed a shrink, within the flap window."""
    calm_at: float = 0.0
    """Until when a flapping pool does not shrink."""
    falling: float | None = None
    """Since when a shrink waits for a larger one."""

    @property
    def flaps(self) -> int:
        """The number of recent reversals above the normal."""
        return max(0, len(self.reversals) - FLAPS)

    @property
    def deadband(self) -> float:
        """The share of the pool below which a shrink is ignored. It is wider the more often the pool flaps."""
        return min(DEADBAND_MOST, DEADBAND * 2**self.flaps) if self.flaps else 0.0


def compute_hold(observed: Observation, wait: float | None = None) -> float:
    """Return how long a peak is remembered; with a wait goal shorter than a start, twice as long."""
    hold = max(HOLD, 2 * observed.start_delay)
    return 2 * hold if wait is not None and wait < 1.5 * compute_reaction_time(observed) else hold


def remember(line: list[tuple[float, float]], now: float, need: float, hold: float) -> list[tuple[float, float]]:
    """Add a value to a list of maxima. Drop values that are older than the hold or below a later one.

    Values are whole workers, so the list is never longer than the pool is large.
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
    recommendation: Recommendation,
    observed: Observation,
    pace: Pace,
    current: int,
    settings: Settings,
    adopting: bool = False,
) -> tuple[Step, Pace]:
    """Return the next size with its reason, and the new pace."""
    hold, slow = compute_hold(observed), settings.wait < compute_reaction_time(observed)
    pace = replace(
        pace,
        steady=remember(pace.steady, now, recommendation.keep, compute_hold(observed, settings.wait)),
        peaks=remember(pace.peaks, now, max(recommendation.keep, recommendation.peak), hold),
        tokens=min(TOKENS_MOST, pace.tokens + BUDGET * (now - pace.at if pace.at else 0.0)),
        at=now,
        reversals=[at for at in pace.reversals if at > now - FLAP_WINDOW],
    )
    if recommendation.must <= current and adopting:
        return Step(size=current, reason="held: the controller has just started", limit="adopting"), pace
    if recommendation.must <= current:
        return shrink(now, round_up(max(pace.steady[0][1], pace.peaks[0][1])), current, pace, hold, settings)
    if not slow and observed.starting and current < round_up(recommendation.want) < DECISIVE * current:
        return Step(size=current, reason="held: starting workers are nearly enough", limit="starting"), pace
    return grow(now, round_up(recommendation.want), current, pace, hold, settings)


def grow(now: float, want: int, current: int, pace: Pace, hold: float, settings: Settings) -> tuple[Step, Pace]:
    """Grow at once, within the cooldown and step of the settings."""
    if want <= current:
        return Step(size=current, reason="steady"), pace
    if now - pace.grown < settings.cooldown_up:
        why = f"held: grew {now - pace.grown:.0f} s ago, cooldown {settings.cooldown_up:g} s"
        return Step(size=current, reason=why, limit="cooldown"), pace
    size = want if settings.step_up is None else min(want, current + settings.step_up)
    # Hold the new size like a need, or the next tick would shrink it again.
    pace = replace(pace, peaks=remember(pace.peaks, now, size, hold))
    return Step(size=size, reason=f"grow {current} → {size}", limit="step"), record_growth(now, pace)


def record_growth(now: float, pace: Pace) -> Pace:
    """Record a growth. A growth after a shrink is a reversal, and too many of them delay shrinking."""
    reversals = [*pace.reversals, now] if pace.shrunk > pace.grown else pace.reversals
    pace = replace(pace, tokens=spend_token(pace), grown=now, reversals=reversals[-REVERSALS:], falling=None)
    return replace(pace, calm_at=now + min(300.0, 5.0 * 2**pace.flaps)) if pace.flaps else pace


def spend_token(pace: Pace) -> float:
    """Return the tokens after one resize."""
    return max(TOKENS_LEAST, pace.tokens - 1)


def shrink(now: float, target: int, current: int, pace: Pace, hold: float, settings: Settings) -> tuple[Step, Pace]:
    """Shrink as far as the hold and the settings allow, if the step is worth a resize."""
    if target >= current:
        return Step(size=current, reason="steady", limit="hold"), replace(pace, falling=None)
    since = now if pace.falling is None else pace.falling
    kept = find_shrink_blocker(now, target, current, pace, settings)
    if kept is not None:
        return kept, pace
    if now - since < FALLING and predict_hold(pace, now, hold) < target:
        return Step(size=current, reason="held: the need is still falling", limit="hold"), replace(pace, falling=since)
    size = target if settings.step_down is None else max(target, current - settings.step_down)
    step = Step(size=size, reason=f"shrink {current} → {size}", limit="hold" if size == target else "step")
    return step, replace(pace, tokens=spend_token(pace), shrunk=now, falling=None)


def find_shrink_blocker(now: float, target: int, current: int, pace: Pace, settings: Settings) -> Step | None:
    """Return the step that keeps the pool from shrinking now; None if it may shrink."""
    changed = max(pace.grown, pace.shrunk)
    if now - changed < settings.cooldown_down:
        why = f"held: resized {now - changed:.0f} s ago, cooldown {settings.cooldown_down:g} s"
        return Step(size=current, reason=why, limit="cooldown")
    if now < pace.calm_at:
        return Step(size=current, reason="held: the size goes up and down too often", limit="flapping")
    if current - target < pace.deadband * current:
        why = f"held: the size goes up and down too often, so steps below {pace.deadband:.0%} are ignored"
        return Step(size=current, reason=why, limit="flapping")
    overdue = target <= current / 4 and now >= pace.grown + OVERDUE
    if pace.tokens < compute_price(current, target) and not overdue:
        why = "held: the step is too small for the rest of the resize budget"
        return Step(size=current, reason=why, limit="budget")
    return None


def compute_price(current: int, target: int) -> float:
    """Return the tokens that a shrink needs. Small steps need more."""
    share = (current - target) / current
    if share < 0.1 or current - target < 2:
        return 4.0
    return 2.0 if share < 0.2 else 0.0


def predict_hold(pace: Pace, now: float, hold: float) -> int:
    """Return the size that the hold will allow soon, if no new need comes."""
    later = [size for line in (pace.steady, pace.peaks) for at, size in line if at >= now - hold + FALLING]
    return round_up(max(later, default=0.0))


class Bill(Struct, frozen=True, kw_only=True, gc=False):
    """The cost of the current hour."""

    began: float = 0.0
    at: float = 0.0
    spent: float = 0.0


def charge(now: float, observed: Observation, bill: Bill, settings: Settings) -> Bill:
    """Add the cost since the last tick. Workers also cost while they start and drain."""
    if settings.cost_per_hour is None or not bill.began or not 0 <= now - bill.began < HOUR:
        return Bill(began=now, at=now)
    workers = observed.alive + observed.draining
    spent = bill.spent + workers * settings.price * max(0.0, now - bill.at) / HOUR
    return Bill(began=bill.began, at=now, spent=spent)


def count_affordable_workers(bill: Bill, settings: Settings) -> int | None:
    """Return the most workers that the rest of the hour's money pays for; None without a limit."""
    if settings.cost_per_hour is None or settings.price <= 0:
        return None
    left = settings.cost_per_hour - bill.spent
    hours = (HOUR - (bill.at - bill.began)) / HOUR
    return int(min(spread_money(left, hours, settings.price), settings.max))


class Bounds(Struct, frozen=True, kw_only=True, gc=False):
    """The minimum and maximum of one tick."""

    min: int
    max: int
    limit: str = "max"
    """What sets the maximum: `max` (the setting), `window` or `cost`."""
    reason: str = ""
    """The maximum and the wait that it causes, in words."""
    idle: float = 0.0


def compute_bounds(moment: Moment, bill: Bill) -> Bounds:
    """Return the bounds of this tick."""
    settings = moment.settings
    maximums = [(settings.max, "max")]
    if "schedule" in settings.deciders:
        sizes = [window.max for window in find_open_windows(moment) if window.max is not None]
        maximums += [(size, "window") for size in sizes]
    money = count_affordable_workers(bill, settings)
    if money is not None:
        maximums.append((money, "cost"))
    least, limit = min(maximums, key=lambda each: each[0])
    most = max(settings.min, least)
    reason = f"{limit} {most}, so a new task waits about {predict_wait(moment, most):.0f} s"
    return Bounds(min=settings.min, max=most, limit=limit, reason=reason, idle=settings.idle)


def apply_max(moment: Moment, recommendation: Recommendation, bounds: Bounds) -> tuple[Recommendation, Step]:
    """Apply the maximum to a recommendation."""
    before = round_up(recommendation.choose_size(moment.current))
    recommendation = cap_at(recommendation, bounds.max)
    size = round_up(recommendation.choose_size(moment.current))
    return recommendation, Step(size=size, reason=bounds.reason if size < before else "", limit=bounds.limit)


def spread_money(money_left: float, seconds_left: float, price: float, burst: float = 1.5) -> float:
    """Return the most workers that the rest of the money pays for, spent evenly with room for bursts."""
    if price <= 0 or seconds_left <= 0:
        return inf
    return max(0.0, money_left) / seconds_left * burst / price
