"""The settings of one pool: its goal, its bounds and its deciders, and the check of their values."""

from __future__ import annotations

import re

from msgspec import Struct

from windlass.custom_decider import PREFIX


class Window(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of the day (UTC) in which the pool has a least size, a largest one, or both."""

    begin: float
    """Seconds since midnight; a window whose end is not after it goes past midnight."""
    end: float
    least: int = 0
    most: int | None = None
    """The largest size in it; None leaves the pool's ceiling."""
    days: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6)
    """Days of the week on which it begins, Monday being 0."""

    def open(self, second: float, day: int) -> bool:
        """Whether that second of that day lies in it."""
        if self.begin < self.end:
            return day in self.days and self.begin <= second < self.end
        return (day in self.days and second >= self.begin) or ((day - 1) % 7 in self.days and second < self.end)


class Thresholds(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The marks of the decider `threshold`, as shares of busy workers."""

    high: float = 0.85
    low: float = 0.6
    deadband: float = 0.05
    """By how much a mark lies further away for a step back from the last one."""
    half_life: float = 0.0
    """Seconds of smoothing; 0 takes each second as it is."""


class Settings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The goal and the bounds of one pool. Only `wait` has to be thought about."""

    wait: float = 5.0
    """The wait goal W in seconds: how long a task may wait from runnable to started."""
    late: float = 0.01
    """The share of tasks that may miss it."""
    floor: int = 1
    ceiling: int = 64
    deciders: tuple[str, ...] = ("slo",)
    """Names from `windlass.autoscale.deciders`, or `app:NAME` for a function of the app; the largest wish counts."""
    idle: float = 300.0
    """With a floor of 0: seconds without a task after which the last worker goes."""
    windows: tuple[Window, ...] = ()
    """For the decider `schedule`."""
    service: float = 1.0
    """The mean run time in seconds before any is measured."""
    step_up: int | None = None
    """The most workers that one growth adds, and one shrink takes away; None leaves them free."""
    step_down: int | None = None
    cooldown_up: float = 0.0
    """Seconds after a growth in which there is no other."""
    cooldown_down: float = 0.0
    """Seconds after any change of size in which it does not shrink, besides the hold of the law itself."""
    price: float = 0.0
    """What one worker costs in an hour."""
    cost_per_hour: float | None = None
    """What the pool may cost in an hour, in the same money; None means that money is no matter."""
    thresholds: Thresholds = Thresholds()
    """For the decider `threshold`."""


BUILT_IN_DECIDERS = (
    "slo", "threshold", "aimd", "pid", "target", "mmc", "schedule", "linear", "holt_winters", "due"
)  # fmt: skip
"""The names in `windlass.autoscale.deciders.DECIDERS`."""
TIME_SETTINGS = ("wait", "idle", "service", "cooldown_up", "cooldown_down")
"""The settings that are seconds, and that people write as times."""
_OWN = re.compile(rf"{PREFIX}[A-Za-z_]\w{{0,99}}")
DAY, LONGEST = 86_400, 31 * 86_400


def find_setting_errors(settings: Settings) -> list[str]:
    """Every fault, with the field, its value and what would be right."""
    found: list[str] = []
    if not 0.01 <= settings.wait <= 86_400:
        found.append(f"wait={settings.wait:g} is out of range; give 10 milliseconds to a day")
    if not 0 < settings.late < 1:
        found.append(f"late={settings.late:g} is no share; give more than 0 and less than 1")
    if not 0 < settings.service <= LONGEST:
        found.append(f"service={settings.service:g} is no run time; give more than 0, and no more than a month")
    if not 0 <= settings.idle <= LONGEST:
        found.append(f"idle={settings.idle:g} is no time; give 0 to a month")
    for window in settings.windows:
        if not (0 <= window.begin < DAY and 0 <= window.end <= DAY and window.least >= 0):
            told = f"begin={window.begin:g}, end={window.end:g}, least={window.least}"
            found.append(f"windows: {told} is none; give seconds of the day, and a size of 0 or more")
        if not window.least and window.most is None:
            found.append(f"windows: that from {window.begin:g} to {window.end:g} has no size; give least, most or both")
    for field in ("step_up", "step_down"):
        step: int | None = getattr(settings, field)
        if step is not None and step < 1:
            found.append(f"{field}={step} is no step; give 1 or more, or none")
    for field in ("cooldown_up", "cooldown_down"):
        rest: float = getattr(settings, field)
        if not 0 <= rest <= LONGEST:
            found.append(f"{field}={rest:g} is no time; give 0 to a month")
    unknown = [name for name in settings.deciders if name not in BUILT_IN_DECIDERS and not _OWN.fullmatch(name)]
    if unknown or not settings.deciders:
        named = ", ".join(unknown) or "none"
        known = ", ".join(BUILT_IN_DECIDERS)
        found.append(f"deciders: {named} is not known; give some of {known}, or {PREFIX}NAME for a function of the app")
    return found
