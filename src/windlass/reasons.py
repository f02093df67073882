"""What `core.gates` needs to know about a task, read from the store."""

from __future__ import annotations

import msgspec

from windlass.core.breaker import Breaker, decode
from windlass.core.gates import Prerequisite, Serving, Why, gates
from windlass.core.lifecycle import State
from windlass.core.task import Task
from windlass.stores.protocol import Session, TaskReader


class _Pool(msgspec.Struct):
    queues: frozenset[str]
    threads: int = 1


class _About(msgspec.Struct):
    """What of a node's words about itself matters here."""

    queues: frozenset[str] | None = None
    pools: dict[str, _Pool] | None = None
    tags: frozenset[str] | None = None
    handlers: frozenset[str] | None = None


def explain(store: TaskReader, task: Task) -> Why:
    """Why this task does not run, as things stand."""
    waits = task.state is State.WAITING
    around = store.neighbourhood(task.id).prerequisites if waits else []
    found = gates(
        task,
        queue=next((queue for queue in store.queues() if queue.name == task.queue), None),
        prerequisites=[Prerequisite(each.id, each.state) for each in around],
        handlers={handler.name for handler in store.handlers()},
        serving=[_serving(session) for session in store.sessions() if not session.lost],
        breakers=_breakers(store, task),
    )
    return Why(task=task, gates=found)


def _breakers(store: TaskReader, task: Task) -> dict[str, Breaker]:
    if task.rules.downstream is None:
        return {}
    return {control.name: decode(control.value) for control in store.controls("breaker")}


def _serving(session: Session) -> Serving:
    try:
        about = msgspec.json.decode(session.about, type=_About)
    except msgspec.DecodeError:
        about = _About()
    pools = sorted((about.pools or {}).values(), key=lambda pool: pool.threads)
    slots = {queue: pool.threads for pool in pools for queue in pool.queues}  # Of several pools, the largest counts.
    return Serving(session.node, about.queues, slots, about.tags, about.handlers)
