"""Pools as people see them: what the store counts, what the nodes report and what was decided, put together.

One place for the command line, the HTTP API and the dashboard. What people change is in `operations.pool_overrides`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from math import ceil
from typing import Any

from msgspec import Struct

from windlass.autoscale import pool_tick
from windlass.autoscale.controller import Override, tick
from windlass.autoscale.observe import SECOND, PoolReport, compute_oldest_wait, observe, select_members
from windlass.autoscale.stored_state import POOL, PauseRequest, PoolDecision, decode_document
from windlass.errors import UnknownPool
from windlass.stores.coordination import MAX_QUEUES, EntrySeen, Look
from windlass.stores.protocol import Count, Store

AHEAD = timedelta(seconds=330)
STALLED = 5
"""Seconds without a decision, while there is work, after which the controller counts as stalled."""


class NodePart(Struct, frozen=True, kw_only=True):
    """What one node has of a pool."""

    node: str
    session: str
    target: int
    ready: int
    running: int
    starting: int
    draining: int
    asleep: int
    ceiling: int


class PoolView(Struct, frozen=True, kw_only=True):
    """One pool over all nodes."""

    name: str
    queues: tuple[str, ...]
    fixed: bool
    """Whether its nodes were told a size; otherwise it sizes itself."""
    target: int
    """How many workers it is to have: what is agreed. `live` is how many it has."""
    live: int
    ready: int
    running: int
    """Tasks that run now."""
    starting: int
    draining: int
    asleep: int
    threads: int
    floor: int
    ceiling: int
    wait: float
    """The goal, in seconds."""
    runnable: int
    leased: int
    oldest: float
    """Seconds that the longest-waiting runnable task has waited."""
    needs: float
    sentence: str
    """The latest decision in one line."""
    reasons: tuple[str, ...]
    decided_at: int
    decided_by: str
    alerts: tuple[str, ...]
    override: Override | None
    paused: PauseRequest | None
    tuned: Mapping[str, Any]
    degraded: str
    nodes: tuple[NodePart, ...]


def pools(store: Store) -> list[PoolView]:
    """Every pool that a live node has or that was ever sized, by name."""
    return pools_in(look_at(store))


def pools_in(look: Look) -> list[PoolView]:
    """The same from a look that was had already."""
    return [_view(name, look) for name in _names(look)]


def pool(store: Store, name: str) -> PoolView:
    """One of them; `UnknownPool` if there is no such."""
    return pool_in(look_at(store), name)


def pool_in(look: Look, name: str) -> PoolView:
    """The same from a look that was had already."""
    known_pool(look, name)
    return _view(name, look)


def history(store: Store, name: str, *, limit: int = 50, before: int | None = None) -> list[EntrySeen]:
    """What was decided and ordered about a pool, the newest first."""
    known_pool(look_at(store), name)
    return store.audit(f"pool/{name}", limit=limit, before=before)


def desired(store: Store, name: str) -> int:
    """How many workers the pool should have now, for whoever starts machines.

    Never fewer than run tasks now, so that nothing that is busy is taken away; more than the nodes that are there may
    have, if the load needs more. With no node alive the same law decides
    from what the store alone knows, so that a pool can be started from nothing.
    """
    look = look_at(store)
    known_pool(look, name)
    return desired_in(look, name)


def desired_in(look: Look, name: str) -> int:
    """The same from a look that was had already, for a pool that is in it."""
    decision, _ = pool_tick.read_decision(look, name)
    here = select_members(pool_tick.read_reports(look), name)
    busy = ceil(sum(each.leased for each in look.queues if each.queue in _queues(look, name)) / decision.threads)
    if here:
        target = decision.target if decision.tick else sum(report.target for report in here.values())
        if _needs_nodes(decision, here):
            target = max(target, ceil(decision.needs / decision.threads))
        # What is leased may only be read ahead, so beyond the ceiling only what the nodes know to run counts.
        running = sum(ceil(report.running / report.threads) for report in here.values())
        return max(target, running, min(busy, decision.settings.ceiling // decision.threads))
    order, _ = pool_tick.read_overrides(look, name)
    seen, _ = observe(look, {"": PoolReport(queues=decision.queues, threads=decision.threads)}, decision.seen)
    found = tick(float(look.now // SECOND), seen, decision.apply_overrides(order), decision.settings)
    return max(busy, ceil(found.target / decision.threads))


def _needs_nodes(decision: PoolDecision, here: Mapping[str, PoolReport]) -> bool:
    """Whether nothing limits the pool but how many nodes there are: no person, no downstream, no hour of the day."""
    room = sum(report.ceiling for report in here.values()) * decision.threads
    return "ceiling_bound" in decision.alerts and decision.slots == decision.settings.ceiling == room


def look_at(store: Store, counts: Sequence[Count] | None = None) -> Look:
    """What there is, in all queues that any pool serves; of more queues than one look takes, those first."""
    served = {
        queue for control in store.controls(POOL) for queue in decode_document(control.value, PoolDecision).queues
    }
    others = {each.queue for each in (store.counts() if counts is None else counts)} - served
    return store.look([*sorted(served), *sorted(others)][:MAX_QUEUES], ahead=AHEAD)


def _names(look: Look) -> list[str]:
    decided = {control.name for control in look.controls if control.kind == POOL}
    return sorted(decided | {name for report in pool_tick.read_reports(look).values() for name in report.pools})


def known_pool(look: Look, name: str) -> None:
    """Refuse the name of a pool that nobody has or had."""
    known = _names(look)
    if name not in known:
        raise UnknownPool(name, known)


def _queues(look: Look, name: str) -> set[str]:
    decision, _ = pool_tick.read_decision(look, name)
    here = select_members(pool_tick.read_reports(look), name)
    return {*decision.queues, *(queue for report in here.values() for queue in report.queues)}


def _view(name: str, look: Look) -> PoolView:
    reports = pool_tick.read_reports(look)
    here = select_members(reports, name)
    decision, _ = pool_tick.read_decision(look, name)
    order, _ = pool_tick.read_overrides(look, name)
    override = order.override if order.override and order.override.is_active(look.now / SECOND) else None
    queues = _queues(look, name)
    counts = [each for each in look.queues if each.queue in queues]
    settings = pool_tick.resolve_settings(here, order) if here else decision.settings
    nodes = {str(each.session): each.node for each in look.reports}
    parts = tuple(_part(nodes.get(session, ""), session, report) for session, report in here.items())
    late = look.now // SECOND - decision.tick > STALLED
    stalled = bool(here) and late and not decision.idle and not all(report.fixed for report in here.values())
    threads = decision.threads
    return PoolView(
        name=name,
        queues=tuple(sorted(queues)),
        fixed=bool(here) and all(report.fixed for report in here.values()),
        target=decision.target if decision.tick else sum(part.target for part in parts),
        live=sum(part.ready + part.starting + part.draining for part in parts),
        ready=sum(part.ready for part in parts),
        running=sum(part.running for part in parts),
        starting=sum(part.starting for part in parts),
        draining=sum(part.draining for part in parts),
        asleep=sum(part.asleep for part in parts),
        threads=threads,
        floor=settings.floor // threads,
        ceiling=settings.ceiling // threads,
        wait=settings.wait,
        runnable=sum(each.runnable for each in counts),
        leased=sum(each.leased for each in counts),
        oldest=compute_oldest_wait(look.now, [each.oldest for each in counts]),
        needs=decision.needs / threads,
        sentence=decision.sentence,
        reasons=decision.reasons,
        decided_at=decision.tick,
        decided_by=decision.by,
        alerts=(*decision.alerts, *(("autoscaler_stalled",) if stalled else ())),
        override=override,
        paused=order.paused,
        tuned=order.tuned,
        degraded="; ".join(reports[session].degraded for session in here if reports[session].degraded),
        nodes=parts,
    )


def _part(node: str, session: str, report: PoolReport) -> NodePart:
    shown: Sequence[str] = ("target", "ready", "running", "starting", "draining", "asleep", "ceiling")
    return NodePart(node=node, session=session, **{field: getattr(report, field) for field in shown})
