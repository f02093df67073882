"""Deciders that look ahead: a line through the last bins, the same time of day and week, and windows that a user names.

A forecast is never trusted alone: put it beside `slo`, and the larger wish counts.
"""

from __future__ import annotations

from math import sqrt

from msgspec.structs import replace

from windlass.autoscale.deciders.simple import recommend_size
from windlass.autoscale.recommendation import DeciderMemory, Moment, Recommendation
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


def fill_bin(moment: Moment) -> tuple[DeciderMemory, bool]:
    """The memory with this tick in its bin, and whether the bin is full."""
    memory = moment.memory
    count = memory.bin + moment.observed.arrivals - moment.observed.scheduled
    if memory.bin_ticks + 1 < BIN:
        return replace(memory, bin=count, bin_ticks=memory.bin_ticks + 1), False
    bins = [*memory.bins[-LINE + 1 :], count / BIN]
    return replace(memory, bin=0.0, bin_ticks=0, bins=bins), True


def linear(moment: Moment) -> tuple[Recommendation, DeciderMemory]:
    """A line through the last hour, read one bin ahead."""
    memory, _ = fill_bin(moment)
    rate = extrapolate(memory.bins) if len(memory.bins) >= 3 else 0.0
    return recommend_size(MARGIN * rate * moment.service, f"{rate:.1f}/s by the last hour's line"), memory


def extrapolate(values: list[float]) -> float:
    """The least-squares line through the values, read at the one after the next."""
    count = len(values)
    middle, mean = (count - 1) / 2, sum(values) / count
    spread = sum((x - middle) ** 2 for x in range(count))
    slope = sum((x - middle) * (y - mean) for x, y in enumerate(values)) / spread
    return max(0.0, mean + slope * (count - middle))


def holt_winters(moment: Moment) -> tuple[Recommendation, DeciderMemory]:
    """The same time on the days and weeks before; silent until it knows two days and has beaten `same as now`."""
    memory, full = fill_bin(moment)
    at = int(moment.now // BIN)
    if full:
        memory = learn_bin(memory, at)
    rate = forecast_rate(memory, at + 1) if is_trusted(memory) else 0.0
    high = rate + BAND * sqrt(memory.error) if rate else 0.0
    size, most = rate * moment.service, high * moment.service
    reason = f"{rate:.1f}/s by the time of day, at most {high:.1f}/s"
    return Recommendation(must=size, want=most, keep=size, peak=size, reason=reason), memory


def is_trusted(memory: DeciderMemory) -> bool:
    """Whether two seasons are known and the last day's forecasts were better than taking the rate as it is."""
    return memory.seasoned >= 2 * SEASON and memory.error < memory.naive


def get_season(memory: DeciderMemory, at: int) -> float:
    """What that bin adds to the level; the week counts once two of them are known."""
    day = memory.season[at % SEASON] if memory.season else 0.0
    week = memory.week[get_hour_of_week(at)] if memory.seasoned >= 2 * DAYS * SEASON else 0.0
    return day + week


def get_hour_of_week(at: int) -> int:
    """The hour of the week of a bin."""
    return at * BIN // 3600 % HOURS


def forecast_rate(memory: DeciderMemory, at: int) -> float:
    """The rate of the next bin."""
    return max(0.0, memory.level + memory.trend + get_season(memory, at))


def learn_bin(memory: DeciderMemory, at: int) -> DeciderMemory:
    """One bin more in level, trend and seasons, and the errors of both forecasts."""
    if memory.seasoned < SEASON:
        return learn_first_day(memory, at)
    rate = memory.bins[-1]
    before = memory.bins[-2] if len(memory.bins) > 1 else rate
    missed = rate - forecast_rate(memory, at)
    level = LEVEL * (rate - get_season(memory, at)) + (1 - LEVEL) * (memory.level + memory.trend)
    odd = rate - level - memory.season[at % SEASON] - memory.week[get_hour_of_week(at)]
    # The second day counts as much as the first, the third half as much as those two, until habit is stronger.
    day = max(DAY, 1 / (memory.seasoned // SEASON + 1))
    return replace(
        memory,
        level=level,
        trend=TREND * (level - memory.level) + (1 - TREND) * memory.trend,
        season=adjust_place(memory.season, at % SEASON, day * odd),
        week=adjust_place(memory.week, get_hour_of_week(at), WEEK * odd),
        seasoned=memory.seasoned + 1,
        error=memory.error + (missed * missed - memory.error) * DAY_MEMORY,
        naive=memory.naive + ((rate - before) ** 2 - memory.naive) * DAY_MEMORY,
    )


def learn_first_day(memory: DeciderMemory, at: int) -> DeciderMemory:
    """The first day is taken as it comes; at its end it becomes a level and what each bin differs from it."""
    season = adjust_place(memory.season or [0.0] * SEASON, at % SEASON, memory.bins[-1])
    level = sum(season) / SEASON
    if memory.seasoned + 1 == SEASON:
        season = [round(rate - level, 4) for rate in season]
    return replace(memory, season=season, week=[0.0] * HOURS, level=level, seasoned=memory.seasoned + 1)


def adjust_place(season: list[float], place: int, more: float) -> list[float]:
    """The season with one place corrected, in as many digits as are worth storing."""
    return [*season[:place], round(season[place] + more, 4), *season[place + 1 :]]


def find_open_windows(moment: Moment) -> list[Window]:
    """The windows that are open now."""
    second, day = moment.now % 86400, int(moment.now // 86400 + 3) % 7
    return [window for window in moment.settings.windows if window.open(second, day)]


def schedule(moment: Moment) -> tuple[Recommendation, DeciderMemory]:
    """The least size of the windows that are open now; what they allow at most is a bound, not a wish."""
    open_now = find_open_windows(moment)
    size = max((window.least for window in open_now), default=0)
    return recommend_size(size, f"{len(open_now)} windows open"), moment.memory
