"""The page Pool: why it has this many workers, what they do, and what people can change."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

from msgspec import Meta, Struct

from windlass.autoscale.controller import Override
from windlass.core.stop_requests import StopRequest
from windlass.core.times import Micros, micros
from windlass.core.worker_list import WorkerProcess
from windlass.dashboard.forms import read_duration, read_number
from windlass.dashboard.load_chart import Span, draw_load, draw_waits, link_tasks
from windlass.dashboard.page import Goto, Nav, Pages
from windlass.dashboard.svg.elements import Markup
from windlass.dashboard.svg.time_chart import Band, Line, Marker, TimeChart, draw_time_chart
from windlass.dashboard.visit import Visit
from windlass.errors import InvalidTask, UnknownPool
from windlass.operations import nodes, pool_history, pools
from windlass.operations.nodes import GRACE, NodeView
from windlass.operations.pool_history import PoolHistory
from windlass.operations.pools import NodePart, PoolView
from windlass.server.events.topics import Overview, Topic
from windlass.stores.coordination import EntrySeen

pages = Pages()

LEDGER = 30
ICONS = {"grew": "up", "shrank": "down", "held": "hold", "alert": "warning", "paused": "paused"}
"""The icons of the ledger by action; people's changes have an anchor."""
MOST_WORKERS = 200
AHEAD = 0.06
"""The part of a chart after now, in which the forecast is drawn."""
LONG = timedelta(days=365)
"""What lasts longer has no end: a person has to end it."""
Text = Annotated[str, Meta(max_length=512)]


class PoolQuery(Struct, frozen=True, kw_only=True):
    """Which pool, for how long, and which page of its ledger."""

    name: Text = ""
    span: Span = Span.QUARTER
    before: int | None = None


class WorkerRow(Struct, frozen=True, kw_only=True):
    """A worker process and its node."""

    node: NodeView
    worker: WorkerProcess
    since: Micros
    """How long it has been in its state."""


class PoolNodeRow(Struct, frozen=True, kw_only=True):
    """A node that has workers of the pool."""

    part: NodePart
    request: StopRequest | None
    """The open request for the whole node."""
    stuck: str
    """Which of its processes do not end."""


class LedgerLine(Struct, frozen=True, kw_only=True):
    """An entry of the ledger."""

    entry: EntrySeen
    text: str
    """Its text without the sign that the icon shows."""
    icon: str


class PoolPage(Struct, frozen=True, kw_only=True):
    """What the page shows."""

    pools: Sequence[PoolView]
    view: PoolView | None
    """None before the first pool exists."""
    span: Span = Span.QUARTER
    spans: Sequence[Span] = tuple(Span)
    sizes: Markup = Markup("")
    load: Markup = Markup("")
    history: PoolHistory | None = None
    ledger: Sequence[LedgerLine] = ()
    older: int | None = None
    before: int | None = None
    nodes: Sequence[PoolNodeRow] = ()
    workers: Sequence[WorkerRow] = ()
    more_workers: int = 0
    grace: int = GRACE.seconds
    until: Micros | None = None
    """When the size that a person has set ends; None if a person has to end it."""

    @property
    def alerts(self) -> list[str]:
        """Return the alerts as sentences."""
        return [] if self.view is None else [pools.describe_alert(alert) for alert in self.view.alerts]

    @property
    def mode(self) -> str:
        """Return what decides the size."""
        view = self.view
        if view is None:
            return ""
        return (
            "paused" if view.paused else "set by hand" if view.override else "fixed" if view.fixed else "sizes itself"
        )


def follow_pool(_: Visit, query: PoolQuery) -> Topic:
    """Follow one pool, or all of them."""
    return Overview(pool=query.name or None)


@pages.show("/pool", "pool.html", title="Pool", nav=Nav("Pool", "p"), unrestricted=True, follows=follow_pool, every=5)
def show_pool(visit: Visit, query: PoolQuery) -> PoolPage:
    """Show one pool: the one that is named, or the first."""
    access = visit.access
    found = pools.get_all(access)
    name = query.name or (found[0].name if found else "")
    view = next((each for each in found if each.name == name), None)
    if view is None:
        if name:
            raise UnknownPool(name, [each.name for each in found])
        return PoolPage(pools=found, view=None)
    history = pool_history.read_history(access, name, last=query.span.length)
    ledger = pools.history(access, name, limit=LEDGER, before=query.before)
    alive = nodes.get_all(access)
    workers, more = _workers(visit, alive, name)
    by_session = {str(node.session.id): node for node in alive}
    return PoolPage(
        pools=found,
        view=view,
        span=query.span,
        sizes=_draw_sizes(visit, view, history),
        load=_draw_load(visit, view, query.span),
        history=history,
        ledger=[_line(entry) for entry in ledger.entries],
        older=ledger.after,
        before=query.before,
        nodes=[_node_row(part, by_session.get(part.session)) for part in view.nodes],
        workers=workers,
        more_workers=more,
        until=None if view.override is None else find_end(view.override, visit.now),
    )


def find_end(override: Override, now: Micros) -> Micros | None:
    """Return when a size that a person has set ends; None if it has no end."""
    end = round(override.until * 1_000_000)
    return end if end < now + micros(LONG) else None


def _draw_sizes(visit: Visit, view: PoolView, history: PoolHistory) -> Markup:
    span = history.now - history.since
    end = history.now + round(span * AHEAD)
    layers: list[Line | Band] = [
        Line(label="needed", look="needed", points=[*history.needed, (history.now + span // 200, None)], steps=True),
        Line(
            label="workers",
            look="workers",
            points=[*history.sizes, (history.now, None)],
            steps=True,
        ),
    ]
    forecast = history.forecast
    if forecast is not None:
        points = [(history.now, forecast.least, forecast.most), (end, forecast.least, forecast.most)]
        layers.append(Band(label="forecast", look="forecast", points=points))
    markers = [Marker(at=entry.at, label=entry.action) for entry in history.changes]
    return draw_time_chart(
        TimeChart(
            title=f"Workers of {view.name}: needed, had, and forecast",
            start=history.since,
            end=end,
            layers=layers,
            markers=[*markers, Marker(at=history.now, label="now", look="marker-now")],
            zone=visit.times.zone,
            whole=True,
            cap=2.0 * max([view.max, history.size, *(value or 0 for _, value in history.sizes)]),
            goal=float(view.max) if history.size >= view.max else None,
            goal_label=f"max {view.max}",
            link=link_tasks(visit, view.queues),
        )
    )


def _draw_load(visit: Visit, view: PoolView, span: Span) -> Markup:
    points = pool_history.read_load(visit.access, view.queues, span.resolution, last=span.length)
    zone = visit.times.zone
    link = link_tasks(visit, view.queues)
    load = draw_load(points, span, visit.now, zone=zone, link=link)
    return Markup(load + draw_waits(points, span, visit.now, zone=zone, goal=view.wait, link=link))


def _line(entry: EntrySeen) -> LedgerLine:
    text = pools.describe_alert(entry.text) if entry.action == "alert" else entry.text.lstrip("▲▼= ")
    return LedgerLine(entry=entry, text=text, icon=ICONS.get(entry.action, "anchor"))


def _node_row(part: NodePart, node: NodeView | None) -> PoolNodeRow:
    if node is None:  # It started after the nodes were read.
        return PoolNodeRow(part=part, request=None, stuck="")
    return PoolNodeRow(part=part, request=node.find_request(), stuck=node.describe_stuck())


def _workers(visit: Visit, alive: Sequence[NodeView], pool: str) -> tuple[list[WorkerRow], int]:
    rows: list[WorkerRow] = []
    hidden = 0
    for node in alive:
        for worker in node.workers.workers:
            if worker.pool == pool:
                since = max(0, visit.now - worker.since)
                rows.append(WorkerRow(node=node, worker=worker, since=since))
        hidden += node.workers.more if node.report is not None and pool in node.report.pools else 0
    return rows[:MOST_WORKERS], hidden + max(0, len(rows) - MOST_WORKERS)


class PoolForm(Struct, frozen=True, kw_only=True):
    """Which pool to change, and why."""

    name: Text
    why: Text = ""


class SizeForm(PoolForm, frozen=True, kw_only=True):
    """A size for some time. An empty time means until it is resumed."""

    min: Text
    max: Text = ""
    lasts: Text = "1h"


class FreezeForm(PoolForm, frozen=True, kw_only=True):
    """For how long to keep the size. An empty time means until it is resumed."""

    lasts: Text = ""


class TuneForm(PoolForm, frozen=True, kw_only=True):
    """The goal and the bounds. An empty field goes back to what the nodes say."""

    wait: Text = ""
    min: Text = ""
    max: Text = ""


class NodeForm(PoolForm, frozen=True, kw_only=True):
    """Which node to drain."""

    session: Text


class StopNodeForm(NodeForm, frozen=True, kw_only=True):
    """How long its running tasks may take to end. An empty field means the default."""

    grace: Text = ""


class WorkerForm(NodeForm, frozen=True, kw_only=True):
    """Which worker of the node to drain."""

    worker: int


class StopWorkerForm(WorkerForm, frozen=True, kw_only=True):
    """How long its running tasks may take to end. An empty field means the default."""

    grace: Text = ""


@pages.act("/pool/set", unrestricted=True)
def set_size(visit: Visit, form: SizeForm) -> Goto:
    """Set the size of a pool for some time."""
    least = read_number("min", form.min)
    if least is None:
        raise InvalidTask("min is empty. Use the number of workers.")
    most = read_number("max", form.max)
    author = visit.author(form.why)
    pools.set_size(visit.access, form.name, least, most, author=author, lasts=form.lasts.strip() or None)
    size = f"{least}" if most in (None, least) else f"{least} to {most}"
    return _back(form, f"Pool {form.name} has {size} workers {_until(form.lasts)}.")


@pages.act("/pool/freeze", unrestricted=True)
def freeze(visit: Visit, form: FreezeForm) -> Goto:
    """Keep the size that a pool has."""
    lasts = form.lasts.strip() or None
    found = pools.freeze(visit.access, form.name, author=visit.author(form.why), lasts=lasts)
    size = found.target if found.override is None else found.override.min
    return _back(form, f"Pool {form.name} stays at {size} workers {_until(form.lasts)}.")


@pages.act("/pool/pause", unrestricted=True)
def pause(visit: Visit, form: PoolForm) -> Goto:
    """Let a pool finish what runs and start nothing more."""
    pools.pause(visit.access, form.name, author=visit.author(form.why))
    return _back(form, f"Pool {form.name} is paused. Running tasks end, nothing more starts.")


@pages.act("/pool/resume", unrestricted=True)
def resume(visit: Visit, form: PoolForm) -> Goto:
    """Let a pool size itself again."""
    pools.resume(visit.access, form.name, author=visit.author(form.why))
    return _back(form, f"Pool {form.name} sizes itself again.")


@pages.act("/pool/tune", unrestricted=True)
def tune(visit: Visit, form: TuneForm) -> Goto:
    """Change the goal and the bounds of a pool."""
    changes: dict[str, Any] = {"wait": form.wait.strip() or None}
    for field, text in (("min", form.min), ("max", form.max)):
        changes[field] = read_number(field, text)
    view = pools.get(visit.access, form.name)
    changes = {field: value for field, value in changes.items() if value is not None or field in view.tuned}
    if not changes:
        return _back(form, "Nothing to change: all fields were empty.", failed=True)
    found = pools.tune(visit.access, form.name, changes, author=visit.author(form.why))
    return _back(form, f"Pool {form.name}: {found.min} to {found.max} workers, goal {found.wait:g} s.")


@pages.act("/workers/drain", unrestricted=True)
def drain_worker(visit: Visit, form: WorkerForm) -> Goto:
    """Let a worker finish what it runs and exit."""
    node = nodes.drain(visit.access, form.session, form.worker, author=visit.author(form.why))
    return _back(form, f"Worker {form.worker} of {node.session.node} drains: it finishes what it runs and exits.")


@pages.act("/workers/stop", unrestricted=True)
def stop_worker(visit: Visit, form: StopWorkerForm) -> Goto:
    """Drain a worker, and release what still runs after some time."""
    grace = _read_grace(form.grace)
    node = nodes.stop(visit.access, form.session, form.worker, author=visit.author(form.why), grace=grace)
    return _back(form, f"Worker {form.worker} of {node.session.node} stops. {_after(grace)}")


@pages.act("/nodes/drain", unrestricted=True)
def drain_node(visit: Visit, form: NodeForm) -> Goto:
    """Let a node finish what it runs and end."""
    node = nodes.drain(visit.access, form.session, author=visit.author(form.why))
    return _back(form, f"Node {node.session.node} drains: it finishes what it runs and ends.")


@pages.act("/nodes/stop", unrestricted=True)
def stop_node(visit: Visit, form: StopNodeForm) -> Goto:
    """Drain a node, and release what still runs after some time."""
    grace = _read_grace(form.grace)
    node = nodes.stop(visit.access, form.session, author=visit.author(form.why), grace=grace)
    return _back(form, f"Node {node.session.node} stops. {_after(grace)}")


def _read_grace(text: str) -> timedelta:
    found = read_duration("grace", text)
    return GRACE if found is None else found


def _after(grace: timedelta) -> str:
    return f"Tasks that still run after {grace.total_seconds():g} s are released and run elsewhere."


def _back(form: PoolForm, text: str, *, failed: bool = False) -> Goto:
    return Goto(path="pool", params={"name": form.name}, text=text, failed=failed)


def _until(lasts: str) -> str:
    return f"for {lasts.strip()}" if lasts.strip() else "until it is resumed"
