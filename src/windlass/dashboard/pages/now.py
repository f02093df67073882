"""The page Now: is it healthy, and what needs a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from windlass.core.breaker import BreakerState
from windlass.core.lifecycle import State
from windlass.core.times import Micros, micros
from windlass.dashboard.load_chart import Span, add_steps, draw_load, link_tasks
from windlass.dashboard.page import Nav, Pages
from windlass.dashboard.pages.downstreams import count_held
from windlass.dashboard.pages.pool import find_end
from windlass.dashboard.svg.elements import Markup
from windlass.dashboard.visit import Visit
from windlass.operations import audit, breakers, dead_letters, deadlines, nodes, pools, queues
from windlass.operations.breakers import BreakerView
from windlass.operations.deadlines import Deadlines
from windlass.operations.facets import Facets
from windlass.operations.pool_history import read_history
from windlass.operations.pools import PoolView
from windlass.operations.queues import QueueView, Waits
from windlass.stores.coordination import EntrySeen
from windlass.stores.dead_letters import DeadGroup, DeadGroups
from windlass.stores.series import Point, Resolution
from windlass.stores.totals import COUNTED

pages = Pages()

RECENT = timedelta(seconds=60)
MOST_GROUPS = 5
MOST_QUEUES = 12
MOST_POOLS = 20
"""How many pools the line of workers adds up: the largest ones."""
LATEST_ENTRIES = 8


class Pace(Struct, frozen=True, kw_only=True):
    """What happened in the last minute."""

    arrived: float
    """Tasks per second, as are the others."""
    completed: float
    failed: float
    wait: Micros | None
    """How long a started task had waited on average."""
    waits: Waits | None
    """How long the tasks that completed last had waited."""


class NowQuery(Struct, frozen=True, kw_only=True):
    """How far back the chart goes; None for 15 minutes, or 5 in a store that is younger."""

    span: Span | None = None


class HeldPool(Struct, frozen=True, kw_only=True):
    """A pool whose size a person decides."""

    name: str
    what: str
    """What it is, as in "is paused"."""
    by: str
    why: str
    until: Micros | None
    """When that ends; None if a person has to end it."""
    at: Micros | None = None


class OpenBreaker(Struct, frozen=True, kw_only=True):
    """A downstream whose tasks do not start."""

    view: BreakerView
    held: Facets
    """How many runnable tasks wait for it."""


class NowPage(Struct, frozen=True, kw_only=True):
    """What the page shows. Callers with limits see neither pools nor the audit log."""

    counts: Mapping[State, int]
    pace: Pace | None
    """None for a caller who is limited to one tenant: the series cover all of them."""
    deadlines: Deadlines
    span: Span | None
    chart: Markup | None
    """None for the same callers."""
    queues: Sequence[QueueView]
    more_queues: int
    oldest: Micros | None
    """How long the oldest runnable task has waited."""
    bugs: DeadGroups
    """The bugs, the most frequent first; none if no task has failed."""
    pools: Sequence[PoolView] = ()
    held_pools: Sequence[HeldPool] = ()
    """The pools that a person has paused, or set to a size."""
    breakers: Sequence[OpenBreaker] = ()
    entries: Sequence[EntrySeen] = ()
    no_node: bool = False
    """True if tasks are runnable and no node is alive."""

    @property
    def groups(self) -> Sequence[DeadGroup]:
        """Return the most frequent bugs."""
        return self.bugs.groups[:MOST_GROUPS]

    @property
    def bugs_in_words(self) -> str:
        """Return how many bugs there are. The oldest failed tasks may not have been looked at."""
        number = len(self.bugs.groups)
        words = f"{number:,} bug{'s' * (number != 1)}" if number else "no bugs"
        return words if self.bugs.complete else f"at least {words} in the newest {COUNTED:,}"

    @property
    def more_bugs(self) -> str:
        """Return how many bugs are not listed; empty if all are."""
        number = len(self.bugs.groups) - len(self.groups)
        return "" if number <= 0 else f"{number:,} more" if self.bugs.complete else f"at least {number:,} more"

    @property
    def workers(self) -> int:
        """Return how many workers there are."""
        return sum(pool.live for pool in self.pools)

    @property
    def ceiling(self) -> int:
        """Return how many workers there may be."""
        return sum(pool.max for pool in self.pools)

    @property
    def total(self) -> int:
        """Return the number of tasks."""
        return sum(self.counts.values())

    @property
    def spans(self) -> Sequence[Span]:
        """Return how far back the chart can go."""
        return tuple(Span)

    @property
    def needs_you(self) -> bool:
        """Return True if a person should look at something."""
        alerts = any(pool.alerts or pool.degraded for pool in self.pools)
        held = self.held_pools or self.breakers
        return bool(self.groups or held or alerts or self.no_node or self.deadlines.late)


@pages.show("/", "now.html", title="Now", nav=Nav("Now", "n"), every=5)
def show_now(visit: Visit, query: NowQuery) -> NowPage:
    """Show whether all is well."""
    access = visit.access
    counts = dict.fromkeys(State, 0)
    for count in access.counts():
        counts[count.state] += max(0, count.tasks)
    found = sorted(queues.get_all(access), key=_work_to_do)
    waits = [visit.now - queue.oldest for queue in found if queue.oldest is not None]
    which = _series_of(visit, found)
    drawn = None if which is None else _chart(visit, which.queue, query.span)
    shared = NowPage(
        counts=counts,
        pace=None if which is None else _pace(visit, which.queue),
        span=None if drawn is None else drawn.span,
        chart=None if drawn is None else drawn.chart,
        deadlines=deadlines.find_late(access, visit.now),
        queues=found[:MOST_QUEUES],
        more_queues=max(0, len(found) - MOST_QUEUES),
        oldest=max(waits, default=None),
        bugs=dead_letters.read_groups(access) if counts[State.FAILED] else DeadGroups([], complete=True),
    )
    return shared if visit.caller.limited else _with_whole_store(visit, shared)


def _with_whole_store(visit: Visit, page: NowPage) -> NowPage:
    access = visit.access
    alive = any(node.report for node in nodes.get_all(access))
    found = pools.get_all(access)
    return replace(
        page,
        pools=found,
        held_pools=[held for pool in found for held in _find_held(pool, visit.now)],
        breakers=[
            OpenBreaker(view=each, held=count_held(visit, each.name))
            for each in breakers.get_all(access)
            if each.breaker.state is not BreakerState.CLOSED
        ],
        entries=audit.find(access, limit=LATEST_ENTRIES).entries,
        no_node=page.counts[State.RUNNABLE] > 0 and not alive,
    )


class _Series(Struct, frozen=True):
    """Whose series to read: those of one queue, or of all."""

    queue: str | None


def _series_of(visit: Visit, known: Sequence[QueueView]) -> _Series | None:
    """Return which series this person may see; None if none. They cover all tenants."""
    queue = visit.caller.queue
    if visit.caller.tenant is not None or (queue is not None and all(each.name != queue for each in known)):
        return None
    return _Series(queue)


class _Drawn(Struct, frozen=True):
    span: Span
    chart: Markup


def _chart(visit: Visit, queue: str | None, chosen: Span | None) -> _Drawn:
    """Draw the load in the chosen span. Without a choice, do not draw long minutes before the first task."""
    span = chosen or Span.QUARTER
    points = queues.series(visit.access, queue, span.resolution, span.length + timedelta(microseconds=span.bucket))
    young = visit.now - micros(Span.FIVE_MINUTES.length)
    if chosen is None and points and points[0].at > young:
        span = Span.FIVE_MINUTES
    # Callers with limits do not see pools.
    found = [] if visit.caller.limited else sorted(pools.get_all(visit.access), key=lambda pool: -pool.live)
    drawn = [read_history(visit.access, pool.name, last=span.length).sizes for pool in found[:MOST_POOLS]]
    chart = draw_load(
        points,
        span,
        visit.now,
        zone=visit.times.zone,
        sizes=add_steps(drawn),
        sizes_label="workers" if len(drawn) == len(found) else f"workers of {len(drawn)} of {len(found)} pools",
        link=link_tasks(visit),
    )
    return _Drawn(span, chart)


def _pace(visit: Visit, queue: str | None) -> Pace:
    points = queues.series(visit.access, queue, Resolution.SECOND, RECENT)
    total = Point(at=0)
    for point in points:
        total.add(point)
    seconds = RECENT.total_seconds()
    return Pace(
        arrived=total.arrived / seconds,
        completed=total.completed / seconds,
        failed=total.failed / seconds,
        wait=total.mean_wait,
        waits=queues.get_waits(visit.access, queue),
    )


def _find_held(pool: PoolView, now: Micros) -> Iterator[HeldPool]:
    if pool.paused:
        paused = pool.paused
        yield HeldPool(name=pool.name, what="is paused", by=paused.by, why=paused.why, until=None, at=paused.at)
    elif pool.override:
        held = pool.override
        size = f"{held.min}" if held.min == held.max else f"{held.min} to {held.max}"
        what = f"is set to {size} worker{'s' * (size != '1')}"
        yield HeldPool(name=pool.name, what=what, by=held.author, why=held.why, until=find_end(held, now))


def _work_to_do(queue: QueueView) -> tuple[int, str]:
    busy = sum(queue.tasks.get(state, 0) for state in (State.RUNNABLE, State.LEASED, State.RETRYING))
    return -busy, queue.name
