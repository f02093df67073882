"""What a user may say about a pool's size, and the constants of the law. One set of constants serves every load."""

from __future__ import annotations

from msgspec import Struct


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
