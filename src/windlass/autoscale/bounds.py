"""Between which sizes a pool may be now, and what is said when the upper one binds.

The ceiling is the least of what the user set, what the open windows of the schedule allow and what the hour's money
pays for; the floor always holds.
"""

from __future__ import annotations

from msgspec import Struct

from windlass.autoscale.backlog import predicted
from windlass.autoscale.costs import affordable_workers
from windlass.autoscale.deciders.forecasts import windows_open
from windlass.autoscale.load_overrides import Step, Wish, lowered, whole
from windlass.autoscale.moment import Moment
from windlass.autoscale.state import State


class Bounds(Struct, frozen=True, kw_only=True, gc=False):
    """The sizes that are allowed at one moment."""

    floor: int
    ceiling: int
    word: str = "ceiling"
    """What makes the ceiling: the setting, a window, or the cost."""
    told: str = ""
    """The ceiling in words, with what it means for those who wait."""
    idle: float = 0.0


def bounds_of(moment: Moment, state: State) -> Bounds:
    """The bounds of this tick."""
    settings = moment.settings
    ceilings = [(settings.ceiling, "ceiling")]
    if "schedule" in settings.deciders:
        most = [window.most for window in windows_open(moment) if window.most is not None]
        ceilings += [(size, "window") for size in most]
    money = affordable_workers(state.bill, settings)
    if money is not None:
        ceilings.append((money, "cost"))
    least, word = min(ceilings, key=lambda each: each[0])
    ceiling = max(settings.floor, least)
    told = f"{word} {ceiling}, which makes a task wait about {predicted(moment, ceiling):.0f} s"
    return Bounds(floor=settings.floor, ceiling=ceiling, word=word, told=told, idle=settings.idle)


def clamp(moment: Moment, wish: Wish, bounds: Bounds) -> tuple[Wish, Step]:
    """The wish with nothing above the ceiling, and what that means for those who wait."""
    before = whole(wish.asks(moment.current))
    wish = lowered(wish, bounds.ceiling)
    size = whole(wish.asks(moment.current))
    return wish, Step(size=size, why=bounds.told if size < before else "", word=bounds.word)


def raised_by(state: State, wish: Wish, bounds: Bounds, size: int) -> list[str]:
    """The alerts of a decided tick."""
    alerts: list[str] = []
    if wish.must > size >= bounds.ceiling:
        alerts.append("cost_capped" if bounds.word == "cost" else "ceiling_bound")
    if state.pace.flaps:
        alerts.append("flapping")
    if state.health.stalled:
        alerts.append("stalled")
    if state.health.crashing:
        alerts.append("crash_loop")
    return alerts
