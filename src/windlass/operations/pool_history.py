"""The recent past of a pool from its ledger: the sizes it had and needed, and what people changed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import islice

import msgspec
from msgspec import Struct

from windlass.autoscale import pool_tick
from windlass.autoscale.estimates import REACTION, compute_surprise
from windlass.autoscale.observe import select_members
from windlass.core.times import Micros, micros
from windlass.operations import audit
from windlass.operations.access import Access
from windlass.operations.pools import check_pool, describe, look_at
from windlass.stores.coordination import EntrySeen, Look
from windlass.stores.series import Point, Resolution, join_points

DECIDED = ("grew", "shrank", "held", "alert")
"""The actions of the autoscaler in the audit log. All others are changes by people."""
MAX_ENTRIES = 2_000
MAX_LOADS = 50
"""Of how many queues the load is read."""
SURE = 2.0
"""How many standard deviations the forecast spans to each side."""


class SizePoint(Struct, frozen=True, kw_only=True):
    """A decision about the size of a pool, in workers."""

    at: Micros
    before: int
    after: int
    needs: float
    """How many workers the load needed."""


class Forecast(Struct, frozen=True, kw_only=True):
    """What is expected for the next moments."""

    rate: float
    """Tasks that arrive per second."""
    spread: float
    """How much more or less may come, per second."""
    least: float
    """How many workers that needs."""
    most: float


class PoolHistory(Struct, frozen=True, kw_only=True):
    """The past of a pool since some moment."""

    since: Micros
    now: Micros
    points: list[SizePoint]
    """The oldest first."""
    changes: list[EntrySeen]
    """What people changed, the oldest first."""
    began: Micros | None
    """When the ledger of the pool began, if that was after `since`; then it had no size before."""
    complete: bool
    """False if there were more decisions than are read; then the oldest are missing."""
    size: int
    needs: float
    forecast: Forecast | None
    """None before any task has arrived."""

    @property
    def sizes(self) -> list[tuple[Micros, float | None]]:
        """Return the size from the first moment on, as steps."""
        if self.began is not None:
            return [(self.began, float(self.points[0].before)), *self._changes()] if self.points else []
        first = self.points[0].before if self.points else self.size
        return [(self.since, float(first) if self.complete else None), *self._changes()]

    def _changes(self) -> list[tuple[Micros, float | None]]:
        return [(point.at, float(point.after)) for point in self.points if point.after != point.before]

    @property
    def needed(self) -> list[tuple[Micros, float | None]]:
        """Return how many workers the load needed at each decision, and needs now."""
        return [*((point.at, point.needs) for point in self.points), (self.now, self.needs)]


def read_history(access: Access, name: str, *, last: timedelta) -> PoolHistory:
    """Return the past of a pool since `last` ago."""
    look = look_at(access.whole_store)
    check_pool(look, name)
    view = describe(look, name)
    since = look.now - micros(last)
    read = list(islice(audit.each(access, f"pool/{name}", since=since), MAX_ENTRIES + 1))
    entries = read[:MAX_ENTRIES][::-1]
    points = [point for entry in entries if (point := _point(entry, view.threads)) is not None]
    return PoolHistory(
        since=since,
        now=look.now,
        points=points,
        changes=[entry for entry in entries if entry.action not in DECIDED],
        began=entries[0].at if points and _is_first(access, name, entries[0]) else None,
        complete=len(read) <= MAX_ENTRIES,
        size=view.target,
        needs=view.needs,
        forecast=_forecast(look, name, view.threads),
    )


def read_load(access: Access, queues: Sequence[str], resolution: Resolution, *, last: timedelta) -> list[Point]:
    """Return what happened in some queues together since `last` ago, oldest first."""
    store = access.whole_store
    since = store.look([], ahead=timedelta(0)).now - micros(last)
    points = [point for queue in queues[:MAX_LOADS] for point in store.series(queue, resolution, since)]
    return join_points(points, resolution, since)


def _is_first(access: Access, name: str, entry: EntrySeen) -> bool:
    return not audit.find(access, f"pool/{name}", limit=1, before=entry.number).entries


class _Data(Struct, frozen=True, kw_only=True):
    """What a decision records that is read here."""

    before: int
    after: int
    needs: float
    """In slots."""


def _point(entry: EntrySeen, threads: int) -> SizePoint | None:
    """Return the decision in an entry; None for entries without its numbers, such as changes by people."""
    try:
        data = msgspec.json.decode(entry.data or "{}", type=_Data)
    except msgspec.DecodeError:
        return None
    return SizePoint(at=entry.at, before=data.before, after=data.after, needs=data.needs / threads)


def _forecast(look: Look, name: str, threads: int) -> Forecast | None:
    decision, _ = pool_tick.read_decision(look, name)
    estimates = decision.state.estimates
    rate = estimates.rates.rate
    if not estimates.rates.span or not rate:
        return None
    reach = _start_delay(look, name) + REACTION
    spread = SURE * compute_surprise(estimates, reach) / reach
    service = estimates.service(decision.settings) / threads
    return Forecast(rate=rate, spread=spread, least=max(0.0, rate - spread) * service, most=(rate + spread) * service)


def _start_delay(look: Look, name: str) -> float:
    members: Sequence[float] = [
        report.start_delay for report in select_members(pool_tick.read_reports(look), name).values()
    ]
    return max(members, default=0.0)
