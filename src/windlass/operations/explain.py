"""Explain why a task does not run: read what `core.why` and `core.forecast` need from the store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from windlass.autoscale.stored_state import OVERRIDES, PoolOverrides, decode_document
from windlass.core.breaker import Breaker, decode
from windlass.core.fairness import SetBy, Tenant
from windlass.core.forecast import Forecast, forecast
from windlass.core.lifecycle import State
from windlass.core.limits import Demand, LimitUse, Room, scope_names
from windlass.core.ordering import Queue
from windlass.core.shares import Share
from windlass.core.task import Task
from windlass.core.times import Micros
from windlass.core.why import FairTurn, Gate, Prerequisite, Serving, Why, gates
from windlass.operations.caller import LOCAL, Caller
from windlass.operations.capacity import read_capacity
from windlass.operations.limits import can_see, read_limits
from windlass.operations.node_about import AboutPool, read_about
from windlass.operations.shares import read_shares, read_tenants
from windlass.stores.protocol import Neighbour, Neighbourhood, Session, Store

COUNTED = 10_000
"""How many tasks ahead of one are counted."""
NAMED = 10
"""Of how many prerequisites it is read which event they wait for."""
SECOND = 1_000_000


def _queue(store: Store, name: str, now: Micros) -> Queue | None:
    """Return the settings of a queue, without a pause that has ended."""
    queue = next((queue for queue in store.queues() if queue.name == name), None)
    return None if queue is None else queue.at(now)


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
    now = store.look([], ahead=timedelta(0)).now
    queue, limits = _queue(store, task.queue, now), _limits(store, task, now)
    found = gates(
        task,
        queue=queue,
        prerequisites=_prerequisites(store, visible),
        handlers={handler.name for handler in store.handlers()},
        serving=[read_serving(session) for session in store.sessions() if not session.lost],
        breakers=_breakers(store, task),
        stopped=_stopped(store),
        pause=_pause(store, task, now),
        limits=limits,
        uncounted={use.limit.name for use in limits if not can_see(caller, use.limit)},
        turn=_turn(store, task, queue, now) if caller.tenant is None else None,
        in_sight=ahead is not None,
        now=now,
    )
    if len(visible) < len(around.prerequisites) and all(each.state and each.state.final for each in visible):
        text = f"{task.waiting} open, in queues that this token may not see"
        found = tuple(
            Gate(name=each.name, open=False, text=text) if each.name == "prerequisites" else each for each in found
        )
    why = Why(task=task, gates=found)
    if ahead is None or task.state is not State.RUNNABLE or why.closed is not None:
        return why
    if limits or (queue is not None and queue.fair):
        return why  # Its place in the queue does not decide when it starts.
    return msgspec.structs.replace(why, outlook=_outlook(store, task, ahead))


def _prerequisites(store: Store, visible: Sequence[Neighbour]) -> list[Prerequisite]:
    """Return what a task waits for, and of the first ones which events they wait for."""
    begun = [each.id for each in visible if each.state is State.SCHEDULED][:NAMED]
    waits = {task.id: task.wait for task in store.get(begun) if task is not None} if begun else {}
    return [
        Prerequisite(each.id, each.state, each.resolved, wait.event if (wait := waits.get(each.id)) else None)
        for each in visible
    ]


def _pause(store: Store, task: Task, now: Micros) -> SetBy | None:
    tenant = read_tenants(store).get(task.tenant, Tenant())
    return tenant.paused if tenant.is_paused(now) else None


def _limits(store: Store, task: Task, now: Micros) -> list[LimitUse]:
    """Return the limits that apply to a task, and what is used of them. Leases are read only if there is one."""
    names = scope_names(task.queue, task.tenant, task.handler, task.rules.limit)
    limits = [limit for limit in read_limits(store) if limit.name in names]
    if task.state.final or task.state is State.LEASED or (not limits and task.rules.limit is None):
        return []
    room = Room(limits, {}, store.running(), store.buckets(names), now)
    return list(room.get_uses(Demand(task.queue, task.tenant, task.handler, task.rules)))


def _turn(store: Store, task: Task, queue: Queue | None, now: Micros) -> FairTurn | None:
    """Return the turn of a runnable task's tenant in a fair queue, as the next claim would see it."""
    if queue is None or not queue.fair or task.state is not State.RUNNABLE:
        return None
    charged = {account.tenant: account.charged for account in store.accounts(task.queue)}
    floor = charged.pop("", 0)
    shares = {one.tenant: one for one in read_shares(store, store.counts(), now, task.queue)}
    others = [tenant for tenant, one in shares.items() if one.runnable and tenant != task.tenant]

    def order(tenant: str) -> tuple[int, str]:
        return max(charged.get(tenant, floor), floor), tenant

    own = shares.get(task.tenant)
    return FairTurn(
        before=sum(order(tenant) < order(task.tenant) for tenant in others),
        tenants=len(others),
        share=Share() if own is None or own.minute is None else own.minute,
    )


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
        elif order.override is not None and order.override.max == 0:
            found[name] = order.override.describe()
    return found


def _outlook(store: Store, task: Task, before: int) -> Forecast | None:
    """Forecast when a task starts from what the nodes have measured; None without measurements.

    The range covers that its queue is served before all others of its pool, or after them.
    """
    here = read_capacity(store, task.queue)
    slots, seconds = here.slots, here.seconds
    if not slots or seconds is None:
        return None
    slack = None if task.deadline is None else (task.deadline - here.now) / SECOND
    more = before >= COUNTED
    best = forecast(before, slots, seconds, more=more, slack=slack)
    worst = forecast(before + sum(here.others.values()), slots, seconds, more=more, slack=slack)
    return msgspec.structs.replace(worst, ahead=before, soonest=best.soonest)


def read_serving(session: Session) -> Serving:
    """Return what a node can run, as far as it has published it."""
    about = read_about(session)
    slots = dict.fromkeys(about.queues or (), about.slots) if about.pools is None else {}
    for pool in (about.pools or {}).values():  # If several pools serve a queue, the largest counts.
        threads = about.slots if pool.threads is None else pool.threads
        slots |= {queue: max(threads, slots.get(queue, 0)) for queue in pool.queues}
    memory = _memory(list((about.pools or {}).values()), about.memory, about.queues or frozenset())
    named = None if about.pools is None else {name: pool.queues for name, pool in about.pools.items()}
    merged = frozenset(name for name, pool in (about.pools or {}).items() if pool.order == "deadline")
    return Serving(session.node, about.queues, slots, about.tags, about.handlers, named, merged, memory)


def _memory(pools: list[AboutPool], own: int | None, queues: frozenset[str]) -> dict[str, int]:
    """Return the bytes for tasks by queue. If several pools serve a queue, the largest counts; None is unlimited."""
    if own is not None:
        return dict.fromkeys(queues, own)
    found: dict[str, list[int | None]] = {}
    for pool in pools:
        for queue in pool.queues:
            found.setdefault(queue, []).append(pool.memory)
    return {queue: max(each or 0 for each in memory) for queue, memory in found.items() if None not in memory}
