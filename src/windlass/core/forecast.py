"""When a runnable task will start: an honest range, never a bare number. Pure.

Before it stand so many tasks; each slot takes the next one when it is free. The time until its turn is the sum of many
run times over the slots, so it is about normal, and as spread out as exponential run times make it. Tasks that come
later with a higher priority are not foreseen.
"""

from __future__ import annotations

from math import erf, sqrt

from msgspec import Struct

SURE = 1.2816
"""Standard deviations on both sides within which four of five outcomes lie."""


class Forecast(Struct, frozen=True, kw_only=True):
    """What is ahead of a task, and what that means for it."""

    ahead: int
    """Tasks that stand before it in its queue."""
    more: bool = False
    """Whether there are more than were counted."""
    soonest: float
    latest: float
    """Seconds until it starts, from and to: in four of five cases."""
    deadline_risk: float | None = None
    """How likely it is to end after its deadline; None without one."""

    def __str__(self) -> str:
        before = f"{self.ahead:,}{' or more' if self.more else ''} ahead of it in its queue"
        starts = f"starts in {_time(self.soonest)}–{_time(self.latest)} (80 % sure)"
        risk = "" if self.deadline_risk is None else f" · its deadline is missed with {self.deadline_risk:.0%}"
        return f"{before} · {starts}{risk}"


def forecast(ahead: int, slots: int, seconds: float, *, more: bool = False, slack: float | None = None) -> Forecast:
    """The outlook of a task with so many before it, where `slots` tasks run at once and one takes `seconds`.

    `slack` is the time until its deadline.
    """
    turn = (ahead + 1) / slots * seconds
    spread = sqrt(ahead + 1) / slots * seconds
    risk = None
    if slack is not None:
        # It ends one run time after it has started, which is as uncertain as the others.
        sigma = sqrt(spread**2 + seconds**2)
        risk = 0.5 * (1 - erf((slack - turn - seconds) / (sigma * sqrt(2)))) if sigma else float(slack < 0)
    soonest = 0.0 if ahead < slots else max(0.0, turn - SURE * spread)
    return Forecast(ahead=ahead, more=more, soonest=soonest, latest=turn + SURE * spread, deadline_risk=risk)


def _time(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
