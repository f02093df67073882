"""Forecast when a runnable task will start, as a range.

Each free slot takes the next task. The time until a task's turn is the sum of the run times ahead of it divided by the
slots, so it is about normally distributed, with the spread of exponential run times. Tasks that are submitted later
with a higher priority are not considered.
"""

from __future__ import annotations

from math import erf, sqrt

from msgspec import Struct

SURE = 1.2816
"""The number of standard deviations around the mean that cover four of five cases."""


class Forecast(Struct, frozen=True, kw_only=True):
    """The number of tasks ahead of a task, and when it will probably start."""

    ahead: int
    """The number of tasks before it in its queue."""
    more: bool = False
    """True if there are more than were counted."""
    soonest: float
    latest: float
    """The range of seconds until it starts, in four of five cases."""
    deadline_risk: float | None = None
    """The probability that it ends after its deadline; None without one."""

    def __str__(self) -> str:
        before = f"{self.ahead:,}{' or more' if self.more else ''} ahead of it in its queue"
        starts = f"starts in {_time(self.soonest)}–{_time(self.latest)} (80 % sure)"
        risk = "" if self.deadline_risk is None else f" · its deadline is missed with {self.deadline_risk:.0%}"
        return f"{before} · {starts}{risk}"


def forecast(ahead: int, slots: int, seconds: float, *, more: bool = False, slack: float | None = None) -> Forecast:
    """Forecast a task with `ahead` tasks before it, if `slots` tasks run at once and each takes `seconds`.

    `slack` is the time until its deadline.
    """
    turn = (ahead + 1) / slots * seconds
    spread = sqrt(ahead + 1) / slots * seconds
    risk = None
    if slack is not None:
        # It ends one run time after it starts, which is as uncertain as the others.
        sigma = sqrt(spread**2 + seconds**2)
        risk = 0.5 * (1 - erf((slack - turn - seconds) / (sigma * sqrt(2)))) if sigma else float(slack < 0)
    soonest = 0.0 if ahead < slots else max(0.0, turn - SURE * spread)
    return Forecast(ahead=ahead, more=more, soonest=soonest, latest=turn + SURE * spread, deadline_risk=risk)


class EndForecast(Struct, frozen=True, kw_only=True):
    """When a task that is not submitted yet would end."""

    ahead: int
    """The number of tasks that would be before it in its queue."""
    rate: float
    """How many tasks of its queue the workers run per second."""
    ends_in: float
    """The expected seconds until its end."""

    def __str__(self) -> str:
        return (
            f"the task would end in about {_time(self.ends_in)}, after {self.ahead:,} tasks at {self.rate:.3g} tasks/s"
        )


def forecast_end(ahead: int, slots: int, seconds: float, *, share: float = 1.0, not_before: float = 0.0) -> EndForecast:
    """Forecast the end of a task that is not submitted yet: its expected start, plus a run time of `seconds`.

    `share` is the part of the slots that its queue gets while other queues have tasks too. `not_before` are the seconds
    until it may start.
    """
    rate = slots * share / seconds
    return EndForecast(ahead=ahead, rate=rate, ends_in=max(ahead / rate, not_before) + seconds)


def _time(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
