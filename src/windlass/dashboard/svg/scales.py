"""Round numbers and times for the axes of charts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from math import ceil, floor, log10

from windlass.core.times import Micros, to_datetime

_STEPS = (1, 2, 5, 10)
_TIMES = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400,
    2 * 86_400, 7 * 86_400, 14 * 86_400, 28 * 86_400, 91 * 86_400, 364 * 86_400,
)  # fmt: skip
"""Distances between two marks of a time axis, in seconds."""
_SPANS = (
    0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, *_TIMES,
)  # fmt: skip


def find_ticks(most: float, *, count: int = 4, whole: bool = False) -> list[float]:
    """Return about `count` round numbers from 0 up to at least `most`.

    >>> find_ticks(7), find_ticks(0.3), find_ticks(1, whole=True)
    ([0, 2, 4, 6, 8], [0.0, 0.1, 0.2, 0.3], [0, 1])
    """
    most = max(most, 1 if whole else 1e-9)
    rough = most / count
    power = 10.0 ** floor(log10(rough))
    step = next(each * power for each in _STEPS if each * power >= rough * (1 - 1e-9))
    if whole:
        step = max(1, round(step))
    places = max(0, -floor(log10(step)))
    marks = ceil(most / step - 1e-6)
    return [round(step * mark, places) if places else round(step * mark) for mark in range(marks + 1)]


def find_time_ticks(start: Micros, end: Micros, *, count: int = 6, zone: tzinfo | None = None) -> list[Micros]:
    """Return at most `count` round clock times between two moments, as a clock in the zone shows them."""
    seconds = max(1e-6, (end - start) / 1_000_000)
    step = next((each for each in _TIMES if seconds / each <= count), ceil(seconds / count / 86_400) * 86_400)
    first, last = (to_datetime(each).astimezone(zone) for each in (start, end))
    offset = (first.utcoffset() or timedelta()).total_seconds()
    base = floor((first.timestamp() + offset) / step) * step - offset
    found: list[Micros] = []
    for mark in range(count + 2):
        moment = round((base + mark * step) * 1_000_000)
        if start <= moment <= end and moment <= last.timestamp() * 1_000_000:
            found.append(moment)
    return found[:count]


def find_span_ticks(length: Micros, *, count: int = 6) -> list[Micros]:
    """Return at most `count` + 1 round durations from 0 up to `length`."""
    seconds = max(1, length) / 1_000_000
    step = next((each for each in _SPANS if seconds / each <= count), _SPANS[-1] * ceil(seconds / _SPANS[-1] / count))
    return [round(step * mark * 1_000_000) for mark in range(int(seconds / step + 1e-9) + 1)]


def format_tick(moment: Micros, ticks: Sequence[Micros], zone: tzinfo | None = None) -> str:
    """Format a mark of a time axis: with seconds or a date only where the distance of the marks needs it."""
    local = to_datetime(moment).astimezone(zone)
    step = (ticks[1] - ticks[0]) if len(ticks) > 1 else 60_000_000
    if step < 60_000_000:
        return f"{local:%H:%M:%S}"
    if step >= 86_400_000_000:
        return _format_date(local)
    return _format_date(local) if (local.hour, local.minute) == (0, 0) else f"{local:%H:%M}"


def _format_date(local: datetime) -> str:
    return f"{local.day} {local:%b}"


def format_number(value: float) -> str:
    """Format a number for a label.

    >>> format_number(1234), format_number(0.25), format_number(12.34), format_number(2_500_000)
    ('1,234', '0.25', '12.3', '2.5M')
    """
    size = abs(value)
    if size >= 1_000_000:
        return f"{value / 1_000_000:.3g}M"
    if size >= 10_000:
        return f"{value / 1_000:.3g}k"
    return f"{value:,.0f}" if value == round(value) or size >= 100 else f"{value:.3g}"


def find_rate_unit(rate: float) -> tuple[str, int]:
    """Return the unit in which a rate per second is easy to read, and how many seconds it covers.

    >>> find_rate_unit(2), find_rate_unit(0.5), find_rate_unit(0.001)
    (('/s', 1), ('/min', 60), ('/h', 3600))
    """
    if rate >= 1 or rate <= 0:
        return "/s", 1
    return ("/min", 60) if rate * 60 >= 1 - 1e-9 else ("/h", 3_600)


def format_rate(rate: float) -> str:
    """Format a rate per second; per minute or per hour if that is easier to read.

    >>> format_rate(1234), format_rate(1.25), format_rate(1 / 60), format_rate(3 / 1800), format_rate(0)
    ('1,234/s', '1.2/s', '1/min', '6/h', '0/s')
    """
    unit, seconds = find_rate_unit(rate)
    value = rate * seconds
    short = f"{value:,.0f}" if value >= 10 else f"{value:.1f}".removesuffix(".0")
    return f"{short}{unit}"
