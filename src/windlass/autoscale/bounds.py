"""Between which sizes a pool may be now, and what is said when the upper one binds.

The ceiling is the least of what the user set, what the open windows of the schedule allow and what the hour's money
pays for; the floor always holds.
"""

from __future__ import annotations

from msgspec import Struct

from windlass.autoscale.backlog import predict_wait
from windlass.autoscale.costs import count_affordable_workers
from windlass.autoscale.deciders.forecasts import find_open_windows
from windlass.autoscale.load_overrides import Step, Recommendation, cap_at, round_up
from windlass.autoscale.moment import Moment
from windlass.autoscale.state import ControllerState


class Bounds(Struct, frozen=True, kw_only=True, gc=False):
    """The sizes that are allowed at one moment."""

    floor: int
    ceiling: int
    limit: str = "ceiling"
    """What makes the ceiling: the setting, a window, or the cost."""
    reason: str = ""
    """The ceiling in words, with what it means for those who wait."""
    idle: float = 0.0


def compute_bounds(moment: Moment, state: ControllerState) -> Bounds:
    """The bounds of this tick."""
    settings = moment.settings
    ceilings = [(settings.ceiling, "ceiling")]
    if "schedule" in settings.deciders:
        most = [window.most for window in find_open_windows(moment) if window.most is not None]
        ceilings += [(size, "window") for size in most]
    money = count_affordable_workers(state.bill, settings)
    if money is not None:
        ceilings.append((money, "cost"))
    least, word = min(ceilings, key=lambda each: each[0])
    ceiling = max(settings.floor, least)
    told = f"{word} {ceiling}, which makes a task wait about {predict_wait(moment, ceiling):.0f} s"
    return Bounds(floor=settings.floor, ceiling=ceiling, limit=word, reason=told, idle=settings.idle)


def apply_ceiling(moment: Moment, wish: Recommendation, bounds: Bounds) -> tuple[Recommendation, Step]:
    """The wish with nothing above the ceiling, and what that means for those who wait."""
    before = round_up(wish.choose_size(moment.current))
    wish = cap_at(wish, bounds.ceiling)
    size = round_up(wish.choose_size(moment.current))
    return wish, Step(size=size, reason=bounds.reason if size < before else "", limit=bounds.limit)


def find_alerts(state: ControllerState, wish: Recommendation, bounds: Bounds, size: int) -> list[str]:
    """The alerts of a decided tick."""
    alerts: list[str] = []
    if wish.must > size >= bounds.ceiling:
        alerts.append("cost_capped" if bounds.limit == "cost" else "ceiling_bound")
    if state.pace.flaps:
        alerts.append("flapping")
    if state.health.stalled:
        alerts.append("stalled")
    if state.health.crashing:
        alerts.append("crash_loop")
    return alerts
