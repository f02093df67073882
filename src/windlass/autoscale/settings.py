"""The settings of one pool: its goal, its bounds and its deciders, and the check of their values."""

from __future__ import annotations

import re

from msgspec import Struct

from windlass.custom_decider import PREFIX

BUILT_IN_DECIDERS = (
    "slo", "threshold", "aimd", "pid", "target", "mmc", "schedule", "linear", "holt_winters", "due"
)  # fmt: skip
"""The names in `windlass.autoscale.deciders.DECIDERS`."""
TIME_SETTINGS = ("wait", "idle", "service", "cooldown_up", "cooldown_down")
"""The settings in seconds that people may also write as durations."""
_APP_DECIDER = re.compile(rf"{PREFIX}[A-Za-z_]\w{{0,99}}")
DAY, LONGEST = 86_400, 31 * 86_400


class Window(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of the day (UTC) in which the pool has a minimum size, a maximum size, or both."""

    begin: float
    """Seconds since midnight. A window that ends before it begins goes past midnight."""
    end: float
    min: int = 0
    max: int | None = None
    """The maximum size in the window; None keeps the pool's `max`."""
    days: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6)
    """Days of the week on which the window begins. Monday is 0."""

    def open(self, second: float, day: int) -> bool:
        """Return True if this second of this weekday is in the window."""
        if self.begin < self.end:
            return day in self.days and self.begin <= second < self.end
        return (day in self.days and second >= self.begin) or ((day - 1) % 7 in self.days and second < self.end)


class Thresholds(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The thresholds of the decider `threshold`, as shares of busy workers."""

    high: float = 0.85
    low: float = 0.6
    deadband: float = 0.05
    """The extra distance that reverses the direction of the last step."""
    half_life: float = 0.0
    """Half-life of the smoothing in seconds; 0 turns smoothing off."""


class Settings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The goal and bounds of one pool. Most users only set `wait`."""

    wait: float = 5.0
    """The wait goal W: seconds that a task may wait from runnable to started."""
    late: float = 0.01
    """The share of tasks that may miss the goal."""
    min: int = 1
    max: int = 64
    deciders: tuple[str, ...] = ("slo",)
    """Names of built-in deciders, or `app:NAME` for a function of the app. The largest recommendation counts."""
    idle: float = 300.0
    """With a minimum of 0: seconds without a task after which the last worker stops."""
    windows: tuple[Window, ...] = ()
    """The windows of the decider `schedule`."""
    service: float = 1.0
    """The mean run time in seconds that is assumed before any is measured."""
    step_up: int | None = None
    """The most workers that one step adds or removes; None means no limit."""
    step_down: int | None = None
    cooldown_up: float = 0.0
    """Seconds between two growths."""
    cooldown_down: float = 0.0
    """Seconds after any resize in which the pool does not shrink. The controller's own hold applies as well."""
    price: float = 0.0
    """The cost of one worker per hour."""
    cost_per_hour: float | None = None
    """The most that the pool may cost per hour, in the currency of `price`; None means no limit."""
    thresholds: Thresholds = Thresholds()
    """The thresholds of the decider `threshold`."""


def find_setting_errors(settings: Settings) -> list[str]:
    """Return every invalid setting as one sentence: the field, its value and what is valid."""
    found: list[str] = []
    if not 0.01 <= settings.wait <= 86_400:
        found.append(f"wait={settings.wait:g} is out of range; use 10 milliseconds to one day")
    if not 0 < settings.late < 1:
        found.append(f"late={settings.late:g} is out of range; use more than 0 and less than 1")
    if not 0 < settings.service <= LONGEST:
        found.append(f"service={settings.service:g} is out of range; use more than 0 and at most 31 days")
    if not 0 <= settings.idle <= LONGEST:
        found.append(f"idle={settings.idle:g} is out of range; use 0 to 31 days")
    for window in settings.windows:
        if not (0 <= window.begin < DAY and 0 <= window.end <= DAY and window.min >= 0):
            values = f"begin={window.begin:g}, end={window.end:g}, min={window.min}"
            found.append(f"windows: {values} is out of range; use seconds of the day, and a size of 0 or more")
        if not window.min and window.max is None:
            found.append(f"windows: no size from {window.begin:g} to {window.end:g}; use min, max or both")
    for field in ("step_up", "step_down"):
        step: int | None = getattr(settings, field)
        if step is not None and step < 1:
            found.append(f"{field}={step} is out of range; use 1 or more, or none")
    for field in ("cooldown_up", "cooldown_down"):
        seconds: float = getattr(settings, field)
        if not 0 <= seconds <= LONGEST:
            found.append(f"{field}={seconds:g} is out of range; use 0 to 31 days")
    unknown = [name for name in settings.deciders if name not in BUILT_IN_DECIDERS and not _APP_DECIDER.fullmatch(name)]
    if unknown or not settings.deciders:
        problem = f"{', '.join(unknown)} is unknown" if unknown else "none is set"
        known = ", ".join(BUILT_IN_DECIDERS)
        found.append(f"deciders: {problem}; use some of {known}, or {PREFIX}NAME for a function of the app")
    return found
