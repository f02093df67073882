"""Deciders that look ahead: a line through the last bins, the same time of day and week, and windows that a user names.

A forecast is never trusted alone: put it beside `slo`, and the larger wish counts.
"""

from __future__ import annotations

from math import sqrt

from msgspec.structs import replace

from windlass.autoscale.deciders.simple import plain
from windlass.autoscale.load_overrides import Wish
from windlass.autoscale.moment import Memory, Moment
from windlass.autoscale.settings import Window

BIN = 300
"""Seconds of a bin of the day."""
SEASON = 86400 // BIN
LINE = 12
"""Bins that the line is drawn through."""
DAYS, HOURS = 7, 7 * 24
LEVEL, TREND, DAY, WEEK = 0.01, 0.001, 0.1, 0.05
"""How much one bin teaches the level, the trend, its time of day and its hour of the week."""
BAND = 1.28
"""Standard errors above the forecast that a growth goes to: nine in ten bins lie below."""
DAY_MEMORY = 1 / SEASON
MARGIN = 1.1


def binned(moment: Moment) -> tuple[Memory, bool]:
    """The memory with this tick in its bin, and whether the bin is full."""
    memory = moment.memory
    count = memory.bin + moment.observed.arrivals - moment.observed.scheduled
    if memory.bin_ticks + 1 < BIN:
        return replace(memory, bin=count, bin_ticks=memory.bin_ticks + 1), False
    bins = [*memory.bins[-LINE + 1 :], count / BIN]
    return replace(memory, bin=0.0, bin_ticks=0, bins=bins), True


def linear(moment: Moment) -> tuple[Wish, Memory]:
    """A line through the last hour, read one bin ahead."""
    memory, _ = binned(moment)
    rate = line(memory.bins) if len(memory.bins) >= 3 else 0.0
    return plain(MARGIN * rate * moment.service, f"{rate:.1f}/s by the last hour's line"), memory


def line(values: list[float]) -> float:
    """The least-squares line through the values, read at the one after the next."""
    count = len(values)
    middle, mean = (count - 1) / 2, sum(values) / count
    spread = sum((x - middle) ** 2 for x in range(count))
    slope = sum((x - middle) * (y - mean) for x, y in enumerate(values)) / spread
    return max(0.0, mean + slope * (count - middle))


def holt_winters(moment: Moment) -> tuple[Wish, Memory]:
    """The same time on the days and weeks before; silent until it knows two days and has beaten `same as now`."""
    memory, full = binned(moment)
    at = int(moment.now // BIN)
    if full:
        memory = seasoned(memory, at)
    rate = foreseen(memory, at + 1) if trusted(memory) else 0.0
    high = rate + BAND * sqrt(memory.error) if rate else 0.0
    size, most = rate * moment.service, high * moment.service
    reason = f"{rate:.1f}/s by the time of day, at most {high:.1f}/s"
    return Wish(must=size, want=most, keep=size, peak=size, reason=reason), memory


def trusted(memory: Memory) -> bool:
    """Whether two seasons are known and the last day's forecasts were better than taking the rate as it is."""
    return memory.seasoned >= 2 * SEASON and memory.error < memory.naive


def season_at(memory: Memory, at: int) -> float:
    """What that bin adds to the level; the week counts once two of them are known."""
    day = memory.season[at % SEASON] if memory.season else 0.0
    week = memory.week[hour_of(at)] if memory.seasoned >= 2 * DAYS * SEASON else 0.0
    return day + week


def hour_of(at: int) -> int:
    """The hour of the week of a bin."""
    return at * BIN // 3600 % HOURS


def foreseen(memory: Memory, at: int) -> float:
    """The rate of the next bin."""
    return max(0.0, memory.level + memory.trend + season_at(memory, at))


def seasoned(memory: Memory, at: int) -> Memory:
    """One bin more in level, trend and seasons, and the errors of both forecasts."""
    if memory.seasoned < SEASON:
        return first_day(memory, at)
    rate = memory.bins[-1]
    before = memory.bins[-2] if len(memory.bins) > 1 else rate
    missed = rate - foreseen(memory, at)
    level = LEVEL * (rate - season_at(memory, at)) + (1 - LEVEL) * (memory.level + memory.trend)
    odd = rate - level - memory.season[at % SEASON] - memory.week[hour_of(at)]
    # The second day counts as much as the first, the third half as much as those two, until habit is stronger.
    day = max(DAY, 1 / (memory.seasoned // SEASON + 1))
    return replace(
        memory,
        level=level,
        trend=TREND * (level - memory.level) + (1 - TREND) * memory.trend,
        season=taught(memory.season, at % SEASON, day * odd),
        week=taught(memory.week, hour_of(at), WEEK * odd),
        seasoned=memory.seasoned + 1,
        error=memory.error + (missed * missed - memory.error) * DAY_MEMORY,
        naive=memory.naive + ((rate - before) ** 2 - memory.naive) * DAY_MEMORY,
    )


def first_day(memory: Memory, at: int) -> Memory:
    """The first day is taken as it comes; at its end it becomes a level and what each bin differs from it."""
    season = taught(memory.season or [0.0] * SEASON, at % SEASON, memory.bins[-1])
    level = sum(season) / SEASON
    if memory.seasoned + 1 == SEASON:
        season = [round(rate - level, 4) for rate in season]
    return replace(memory, season=season, week=[0.0] * HOURS, level=level, seasoned=memory.seasoned + 1)


def taught(season: list[float], place: int, more: float) -> list[float]:
    """The season with one place corrected, in as many digits as are worth storing."""
    return [*season[:place], round(season[place] + more, 4), *season[place + 1 :]]


def windows_open(moment: Moment) -> list[Window]:
    """The windows that are open now."""
    second, day = moment.now % 86400, int(moment.now // 86400 + 3) % 7
    return [window for window in moment.settings.windows if window.open(second, day)]


def schedule(moment: Moment) -> tuple[Wish, Memory]:
    """The least size of the windows that are open now; what they allow at most is a bound, not a wish."""
    open_now = windows_open(moment)
    size = max((window.least for window in open_now), default=0)
    return plain(size, f"{len(open_now)} windows open"), moment.memory
