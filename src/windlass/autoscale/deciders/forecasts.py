"""Deciders that look ahead: a linear trend, a seasonal forecast, and windows that a user configures.

Do not use a forecast alone: combine it with `slo`, and the larger recommendation counts.
"""

from __future__ import annotations

from math import sqrt

from msgspec.structs import replace

from windlass.autoscale.deciders.simple import recommend_size
from windlass.autoscale.recommendation import DeciderMemory, Moment, Recommendation
from windlass.autoscale.settings import Window

BIN = 300
"""The length of a bin in seconds."""
SEASON = 86400 // BIN
LINE = 12
"""The bins of the linear trend."""
DAYS, HOURS = 7, 7 * 24
LEVEL, TREND, DAY, WEEK = 0.01, 0.001, 0.1, 0.05
"""The weight of one bin in the level, the trend, its time of day and its hour of the week."""
BAND = 1.28
"""Standard errors above the forecast to grow to. Nine in ten bins are below."""
DAY_MEMORY = 1 / SEASON
MARGIN = 1.1


def fill_bin(moment: Moment) -> tuple[DeciderMemory, bool]:
    """Add this tick to the current bin. Return the memory, and whether the bin is full."""
    memory = moment.memory
    count = memory.bin + moment.observed.arrivals - moment.observed.scheduled
    if memory.bin_ticks + 1 < BIN:
        return replace(memory, bin=count, bin_ticks=memory.bin_ticks + 1), False
    bins = [*memory.bins[-LINE + 1 :], count / BIN]
    return replace(memory, bin=0.0, bin_ticks=0, bins=bins), True


def linear(moment: Moment) -> tuple[Recommendation, DeciderMemory]:
    """Extrapolate the last hour by one bin."""
    memory, _ = fill_bin(moment)
    rate = extrapolate(memory.bins) if len(memory.bins) >= 3 else 0.0
    return recommend_size(MARGIN * rate * moment.service, f"forecast {rate:.1f}/s from the last hour"), memory


def extrapolate(values: list[float]) -> float:
    """Return the next value of the least-squares line through these values."""
    count = len(values)
    middle, mean = (count - 1) / 2, sum(values) / count
    spread = sum((x - middle) ** 2 for x in range(count))
    slope = sum((x - middle) * (y - mean) for x, y in enumerate(values)) / spread
    return max(0.0, mean + slope * (count - middle))


def holt_winters(moment: Moment) -> tuple[Recommendation, DeciderMemory]:
    """Forecast from the same time of previous days and weeks.

    It recommends nothing until it knows two days and its errors are smaller than those of "same as now".
    """
    memory, full = fill_bin(moment)
    at = int(moment.now // BIN)
    if full:
        memory = learn_bin(memory, at)
    rate = forecast_rate(memory, at + 1) if is_trusted(memory) else 0.0
    high = rate + BAND * sqrt(memory.error) if rate else 0.0
    size, most = rate * moment.service, high * moment.service
    reason = f"forecast {rate:.1f}/s for this time of day, at most {high:.1f}/s"
    return Recommendation(must=size, want=most, keep=size, peak=size, reason=reason), memory


def is_trusted(memory: DeciderMemory) -> bool:
    """Return True if two days are known and the forecasts of the last day beat "same as now"."""
    return memory.seasoned >= 2 * SEASON and memory.error < memory.naive


def get_season(memory: DeciderMemory, at: int) -> float:
    """Return what a bin adds to the level. The hour of the week counts after two weeks."""
    day = memory.season[at % SEASON] if memory.season else 0.0
    week = memory.week[get_hour_of_week(at)] if memory.seasoned >= 2 * DAYS * SEASON else 0.0
    return day + week


def get_hour_of_week(at: int) -> int:
    """Return the hour of the week of a bin."""
    return at * BIN // 3600 % HOURS


def forecast_rate(memory: DeciderMemory, at: int) -> float:
    """Return the forecast rate of a bin."""
    return max(0.0, memory.level + memory.trend + get_season(memory, at))


def learn_bin(memory: DeciderMemory, at: int) -> DeciderMemory:
    """Update level, trend, seasons and the errors of both forecasts with the latest bin."""
    if memory.seasoned < SEASON:
        return learn_first_day(memory, at)
    rate = memory.bins[-1]
    before = memory.bins[-2] if len(memory.bins) > 1 else rate
    missed = rate - forecast_rate(memory, at)
    level = LEVEL * (rate - get_season(memory, at)) + (1 - LEVEL) * (memory.level + memory.trend)
    odd = rate - level - memory.season[at % SEASON] - memory.week[get_hour_of_week(at)]
    # The weight of a new day falls from a half to a third and so on, down to DAY.
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
    """Record the first day as it is. At its end, split it into a level and the differences of its bins."""
    season = adjust_place(memory.season or [0.0] * SEASON, at % SEASON, memory.bins[-1])
    level = sum(season) / SEASON
    if memory.seasoned + 1 == SEASON:
        season = [round(rate - level, 4) for rate in season]
    return replace(memory, season=season, week=[0.0] * HOURS, level=level, seasoned=memory.seasoned + 1)


def adjust_place(season: list[float], place: int, more: float) -> list[float]:
    """Return the season with one value changed, rounded for storage."""
    return [*season[:place], round(season[place] + more, 4), *season[place + 1 :]]


def find_open_windows(moment: Moment) -> list[Window]:
    """Return the windows that are open now."""
    second, day = moment.now % 86400, int(moment.now // 86400 + 3) % 7
    return [window for window in moment.settings.windows if window.open(second, day)]


def schedule(moment: Moment) -> tuple[Recommendation, DeciderMemory]:
    """Recommend the minimum size of the open windows. Their maximum is a bound; see `compute_bounds`."""
    open_now = find_open_windows(moment)
    size = max((window.min for window in open_now), default=0)
    return recommend_size(size, f"{len(open_now)} open windows"), moment.memory
