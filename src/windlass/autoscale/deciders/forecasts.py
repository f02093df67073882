"""Deciders that look ahead: a line through the last bins, the same time of day, and windows that a user names.

A forecast is never trusted alone: put it beside `slo`, and the larger wish counts.
"""

from __future__ import annotations

from msgspec.structs import replace

from windlass.autoscale.deciders.simple import plain
from windlass.autoscale.moment import Memory, Moment
from windlass.autoscale.settings import Window
from windlass.autoscale.wishes import Wish

BIN = 300
"""Seconds of a bin of the day."""
SEASON = 86400 // BIN
LINE = 12
"""Bins that the line is drawn through."""
LEVEL, TREND, DAY = 0.2, 0.05, 0.3
"""How much one bin teaches the level, the trend and its time of day."""
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
    """The same time of day as on the days before; silent until it has beaten `same as now` for a day."""
    memory, full = binned(moment)
    place = int(moment.now // BIN) % SEASON
    if full:
        memory = seasoned(memory, place)
    known = memory.season and memory.error < memory.naive
    rate = max(0.0, memory.level + memory.trend + memory.season[(place + 1) % SEASON]) if known else 0.0
    return plain(MARGIN * rate * moment.service, f"{rate:.1f}/s by the time of day"), memory


def seasoned(memory: Memory, place: int) -> Memory:
    """One bin more in level, trend and season, and the errors of both forecasts."""
    rate, season = memory.bins[-1], memory.season or [0.0] * SEASON
    before = memory.bins[-2] if len(memory.bins) > 1 else rate
    missed = rate - (memory.level + memory.trend + season[place])
    level = LEVEL * (rate - season[place]) + (1 - LEVEL) * (memory.level + memory.trend)
    return replace(
        memory,
        level=level,
        trend=TREND * (level - memory.level) + (1 - TREND) * memory.trend,
        season=[*season[:place], DAY * (rate - level) + (1 - DAY) * season[place], *season[place + 1 :]],
        error=memory.error + (missed * missed - memory.error) * DAY_MEMORY,
        naive=memory.naive + ((rate - before) ** 2 - memory.naive) * DAY_MEMORY,
    )


def windows_open(moment: Moment) -> list[Window]:
    """The windows that are open now."""
    second, day = moment.now % 86400, int(moment.now // 86400 + 3) % 7
    return [window for window in moment.settings.windows if window.open(second, day)]


def schedule(moment: Moment) -> tuple[Wish, Memory]:
    """The least size of the windows that are open now; what they allow at most is a bound, not a wish."""
    open_now = windows_open(moment)
    size = max((window.least for window in open_now), default=0)
    return plain(size, f"{len(open_now)} windows open"), moment.memory
