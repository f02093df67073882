"""Explain why a task does not run: read what `core.why` and `core.forecast` need from the store."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from windlass.autoscale.observe import PoolReport
from windlass.autoscale.pool_tick import read_reports
from windlass.autoscale.stored_state import OVERRIDES, PoolOverrides, decode_document
from windlass.core.breaker import Breaker, decode
from windlass.core.forecast import Forecast, forecast
from windlass.core.lifecycle import State
from windlass.core.task import Task
from windlass.core.why import Gate, Prerequisite, Serving, Why, gates
from windlass.operations.caller import LOCAL, Caller
from windlass.stores.protocol import Neighbourhood, Session, Store

COUNTED = 10_000
"""How many tasks ahead of one are counted."""
MEASURED = 5
"""How many attempts must have ended before their mean run time is used."""
SECOND = 1_000_000


class _Pool(msgspec.Struct):
    queues: frozenset[str]
    threads: int | None = None
    order: str = "queues"


class _About(msgspec.Struct):
    """The part of a node's published description that is needed here."""

    queues: frozenset[str] | None = None
    pools: dict[str, _Pool] | None = None
    tags: frozenset[str] | None = None
    handlers: frozenset[str] | None = None
    slots: int = 1
    """For workers over HTTP, which have no pools."""


def visible_neighbours(store: Store, found: Neighbourhood, caller: Caller) -> Neighbourhood:
    """Return the neighbours that the caller may see, or that are not submitted yet."""
    if caller.queue is None:  # All of them belong to the same tenant.
        return found
    ids = [each.id for each in (*found.prerequisites, *found.dependents)]
    hidden = {each.id for each in store.get(ids) if each is not None and not caller.can_see(each)}
    return Neighbourhood(
        [each for each in found.prerequisites if each.id not in hidden],
        [each for each in found.dependents if each.id not in hidden],
    )


def explain(store: Store, task: Task, caller: Caller = LOCAL) -> Why:
    """Explain what a task waits for. If it only waits for its turn, forecast when it starts.

    Prerequisites that the caller may not see are left out.
    """
    waits = task.state is State.WAITING
    ahead = store.ahead(task.id, limit=COUNTED) if task.state is State.RUNNABLE else 0
    around = store.neighbourhood(task.id) if waits else Neighbourhood([], [])
    visible = visible_neighbours(store, around, caller).prerequisites
    found = gates(
        task,
        queue=next((queue for queue in store.queues() if queue.name == task.queue), None),
        prerequisites=[Prerequisite(each.id, each.state, each.resolved) for each in visible],
        handlers={handler.name for handler in store.handlers()},
        serving=[_serving(session) for session in store.sessions() if not session.lost],
        breakers=_breakers(store, task),
        stopped=_stopped(store),
        in_sight=ahead is not None,
    )
    if len(visible) < len(around.prerequisites) and all(each.state and each.state.final for each in visible):
        text = f"{task.waiting} open, in queues that this token may not see"
        found = tuple(
            Gate(name=each.name, open=False, text=text) if each.name == "prerequisites" else each for each in found
        )
    why = Why(task=task, gates=found)
    if ahead is None or task.state is not State.RUNNABLE or why.closed is not None:
        return why
    return msgspec.structs.replace(why, outlook=_outlook(store, task, ahead))


def _breakers(store: Store, task: Task) -> dict[str, Breaker]:
    if task.rules.downstream is None:
        return {}
    return {control.name: decode(control.value) for control in store.controls("breaker")}


def _stopped(store: Store) -> dict[str, str]:
    """Return the pools that people have set to 0, with the reason. A pool that the autoscaler set to 0 starts again."""
    orders = {control.name: decode_document(control.value, PoolOverrides) for control in store.controls(OVERRIDES)}
    found: dict[str, str] = {}
    for name, order in orders.items():
        if order.paused is not None:
            found[name] = f"paused by {order.paused.by}" + (f": {order.paused.why}" if order.paused.why else "")
        elif order.override is not None and order.override.most == 0:
            found[name] = order.override.describe()
    return found


def _outlook(store: Store, task: Task, before: int) -> Forecast | None:
    """Forecast when a task starts from what the nodes have measured; None without measurements.

    The range covers that its queue is served before all others of its pool, or after them.
    """
    here = store.look([task.queue], ahead=timedelta(0))
    pools = [pool for node in read_reports(here).values() for pool in node.pools.values() if task.queue in pool.queues]
    slots = sum((pool.ready + pool.asleep + pool.starting) * pool.threads for pool in pools)
    seconds = _run_time(pools)
    if not slots or seconds is None:
        return None
    slack = None if task.deadline is None else (task.deadline - here.now) / SECOND
    others = sorted({queue for pool in pools for queue in pool.queues} - {task.queue})
    others_waiting = sum(queue.runnable for queue in store.look(others, ahead=timedelta(0)).queues) if others else 0
    more = before >= COUNTED
    best = forecast(before, slots, seconds, more=more, slack=slack)
    worst = forecast(before + others_waiting, slots, seconds, more=more, slack=slack)
    return msgspec.structs.replace(worst, ahead=before, soonest=best.soonest)


def _run_time(pools: list[PoolReport]) -> float | None:
    ended = sum(pool.ended for pool in pools)
    return sum(pool.busy for pool in pools) / ended if ended >= MEASURED else None


def _serving(session: Session) -> Serving:
    try:
        about = msgspec.json.decode(session.about, type=_About)
    except msgspec.DecodeError:
        about = _About()
    slots = dict.fromkeys(about.queues or (), about.slots) if about.pools is None else {}
    for pool in (about.pools or {}).values():  # If several pools serve a queue, the largest counts.
        threads = about.slots if pool.threads is None else pool.threads
        slots |= {queue: max(threads, slots.get(queue, 0)) for queue in pool.queues}
    named = None if about.pools is None else {name: pool.queues for name, pool in about.pools.items()}
    merged = frozenset(name for name, pool in (about.pools or {}).items() if pool.order == "deadline")
    return Serving(session.node, about.queues, slots, about.tags, about.handlers, named, merged)
