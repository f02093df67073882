"""The pages Queues and Queue: who gets what, what is paused, and the settings of a queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from msgspec import Struct

from windlass.core.filter import AGE, Condition, Op, Pattern, Query
from windlass.core.ordering import Strategy
from windlass.core.times import Micros, micros
from windlass.dashboard.forms import Named, NamedLasting, go_back, read_duration, read_number
from windlass.dashboard.page import Goto, Nav, Pages
from windlass.dashboard.pages.downstreams import DownstreamRow, list_downstreams
from windlass.dashboard.visit import Visit
from windlass.operations import audit, limits, queues, tenants
from windlass.operations.limits import LimitView
from windlass.operations.queues import QueueView
from windlass.operations.shares import TenantShare
from windlass.operations.tenants import TenantView
from windlass.stores.coordination import EntrySeen
from windlass.stores.series import Point, Resolution

MOST_TENANTS = 200
"""How many tenants the page lists: those with the most tasks to run."""
MOST_SERIES = 30
"""For how many queues the page shows what happened: those with the most unfinished tasks."""
PERIOD = timedelta(minutes=15)
CHANGES = 10

pages = Pages()


class Traffic(Struct, frozen=True, kw_only=True):
    """What happened in a queue in the last minutes."""

    arrived: tuple[int, ...]
    """By minute, oldest first."""
    done: tuple[int, ...]
    rate: float
    """Tasks per second that ended, over the last full minutes."""
    wait: Micros | None
    """How long started tasks had waited on average."""


class QueueRow(Struct, frozen=True, kw_only=True):
    """A queue in the list."""

    view: QueueView
    traffic: Traffic | None
    shares: list[TenantShare]

    @property
    def recent(self) -> str:
        """Return the filter that finds the tasks of the time that the drawing covers."""
        name = Condition(field="queue", op=Op.IS, values=(Pattern((self.view.name,)),))
        return str(Query((name, Condition(field=AGE, op=Op.AT_MOST, values=(micros(PERIOD),)))))


class QueuesPage(Struct, frozen=True, kw_only=True):
    """All queues, tenants and limits that the caller may see."""

    rows: list[QueueRow]
    tenants: list[TenantView]
    hidden_tenants: int
    limits: list[LimitView]
    downstreams: list[DownstreamRow]
    can_limit: bool


class QueuePage(Struct, frozen=True, kw_only=True):
    """One queue."""

    row: QueueRow
    tenants: list[TenantView]
    limits: list[LimitView]
    changes: list[EntrySeen]
    can_limit: bool
    strategies: tuple[str, ...] = tuple(Strategy)


class Configure(Named, frozen=True, kw_only=True):
    """Settings of a queue."""

    strategy: str
    fair: str = ""
    weight: str = ""
    max_waiting: str = ""
    horizon: str = ""
    step: str = ""


@pages.show("/queues", "queues.html", title="Queues", nav=Nav("Queues", "q"))
def show_queues(visit: Visit) -> QueuesPage:
    """Show all queues, tenants and limits."""
    access = visit.access
    found = queues.get_all(access)
    busiest = sorted(found, key=_count_unfinished, reverse=True)[:MOST_SERIES]
    traffic = {view.name: read_traffic(visit, view.name) for view in busiest}
    shares = tenants.get_visible_shares(access)
    rows = [
        QueueRow(
            view=view,
            traffic=traffic.get(view.name),
            shares=[share for share in shares if share.queue == view.name],
        )
        for view in found
    ]
    known = tenants.get_all(access)
    listed = sorted(known, key=lambda view: (-_count_unfinished(view), view.name))[:MOST_TENANTS]
    return QueuesPage(
        rows=rows,
        tenants=listed,
        hidden_tenants=len(known) - len(listed),
        limits=limits.get_all(access),
        downstreams=list_downstreams(visit),
        can_limit=_can_limit(visit),
    )


@pages.show("/queues/{name}", "queue.html", title="Queue")
def show_queue(visit: Visit, name: str) -> QueuePage:
    """Show one queue."""
    access = visit.access
    view = queues.get(access, name)
    shares = tenants.get_visible_shares(access, name)
    row = QueueRow(view=view, traffic=read_traffic(visit, name), shares=shares)
    here = [view for view in tenants.get_all(access) if name in view.queues]
    changes = [] if visit.caller.limited else audit.find(access, f"queue/{name}", limit=CHANGES).entries
    return QueuePage(
        row=row,
        tenants=here[:MOST_TENANTS],
        limits=[view for view in limits.get_all(access) if view.limit.queue == name],
        changes=changes,
        can_limit=_can_limit(visit),
    )


@pages.act("/queues/pause")
def pause(visit: Visit, form: NamedLasting) -> Goto:
    """Pause a queue."""
    lasts = read_duration("for", form.lasts)
    queues.pause(visit.access, form.name, visit.author(form.why), lasts=lasts, create=False)
    return go_back(form, f"queues/{form.name}", f"Queue {form.name} is paused. Running tasks continue.")


@pages.act("/queues/configure")
def configure(visit: Visit, form: Configure) -> Goto:
    """Change the settings of a queue: those that differ from what it has."""
    name, before = form.name, queues.get(visit.access, form.name).settings
    weight = read_number("weight", form.weight)
    given: Mapping[str, Any] = {
        "strategy": _strategy(form.strategy),
        "fair": form.fair == "on",
        "weight": 1 if weight is None else weight,
        "max_waiting": read_number("max_waiting", form.max_waiting),
        "horizon": read_duration("horizon", form.horizon) or before.horizon,
        "step": read_duration("step", form.step) or before.step,
    }
    changed = {field: value for field, value in given.items() if value != getattr(before, field)}
    if not changed:
        return Goto(path=f"queues/{name}", text="Nothing was changed.")
    queues.change(visit.access, name, changed, visit.author(form.why), create=False)
    return Goto(path=f"queues/{name}", text=f"Changed {', '.join(changed)} of queue {name}.")


@pages.act("/queues/remove")
def remove(visit: Visit, form: Named) -> Goto:
    """Remove the settings of a queue."""
    queues.remove(visit.access, form.name, visit.author(form.why))
    return Goto(path="queues", text=f"The settings of queue {form.name} are removed.")


def read_traffic(visit: Visit, name: str) -> Traffic | None:
    """Return what happened in a queue. Callers who are limited to a tenant may not know that."""
    if visit.caller.tenant is not None:
        return None
    points = queues.series(visit.access, name, Resolution.MINUTE, PERIOD)
    return summarize(points, visit.now)


def summarize(points: Sequence[Point], now: Micros) -> Traffic:
    """Return points by minute, with zeros for minutes in which nothing happened."""
    minutes = PERIOD // timedelta(minutes=1)
    last = Resolution.MINUTE.start(now)
    by_minute = {point.at: point for point in points}
    found = [by_minute.get(last - back * Resolution.MINUTE, Point(at=0)) for back in range(minutes - 1, -1, -1)]
    done = tuple(point.completed + point.failed for point in found)
    started = sum(point.started for point in found)
    passed = (now - last) / 1_000_000
    return Traffic(
        arrived=tuple(point.arrived for point in found),
        done=done,
        rate=sum(done[-2:]) / (60 + passed),
        wait=sum(point.waited for point in found) // started if started else None,
    )


def _count_unfinished(view: QueueView | TenantView) -> int:
    return sum(number for state, number in view.tasks.items() if not state.final)


def _can_limit(visit: Visit) -> bool:
    return visit.can_operate and visit.caller.tenant is None


def _strategy(text: str) -> Strategy | str:
    """Return the strategy of this name, or the text itself, which the queue's own check refuses."""
    return Strategy(text) if text in tuple(Strategy) else text
