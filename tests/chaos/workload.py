"""Clients of the chaos run: producers that submit graphs until they are acknowledged, and one that cancels tasks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from random import Random
from typing import Any

from msgspec import Struct

from tests.chaos.app import app, step
from tests.checker.records import AnyRecord, End, Invoke, Status
from windlass.core.ids import keyed_id
from windlass.core.task import TaskId
from windlass.errors import NotAllowed, StoreError, UnknownTask

TROUBLES = ("raise", "exit", "segfault", "hang", "poison")
QUEUES = ("light", "heavy")


class Planned(Struct, kw_only=True):
    """A step that a producer submits: what the checker compares the store with."""

    id: TaskId
    key: str
    number: int
    seconds: float
    trouble: str
    queue: str
    priority: int
    above: tuple[int, ...]
    """The positions of its prerequisites in the graph."""


class History:
    """What the clients did, in the format of the checker. All threads write to it."""

    def __init__(self) -> None:
        self.records: list[AnyRecord] = []
        self.planned: dict[TaskId, Planned] = {}
        self.graphs: dict[TaskId, tuple[TaskId, ...]] = {}
        """The prerequisites of every planned task."""
        self._lock = threading.Lock()
        self._calls = 0

    def plan(self, graph: list[Planned]) -> None:
        """Add the steps of a graph that is about to be submitted."""
        with self._lock:
            for each in graph:
                self.planned[each.id] = each
                self.graphs[each.id] = tuple(graph[above].id for above in each.above)

    def call(self, process: str, what: str, ids: tuple[TaskId, ...], do: Callable[[], Any]) -> Status:
        """Make a call and record when it began and how it ended."""
        with self._lock:
            self._calls += 1
            name = f"{process}-{self._calls}"
            tasks = tuple(map(str, ids))
            self.records.append(Invoke(call=name, process=process, what=what, at=time.time(), tasks=tasks))
        status: Status = "ok"
        error = ""
        try:
            do()
        except (NotAllowed, UnknownTask) as refused:
            status, error = "fail", str(refused)
        except StoreError as failure:  # The connection may have been lost after the commit.
            status, error = "unknown", str(failure)
        with self._lock:
            self.records.append(End(call=name, status=status, at=time.time(), error=error))
        return status


def produce(history: History, name: str, rng: Random, stop: threading.Event, rate: float) -> None:
    """Submit small graphs, about `rate` tasks per second. Repeat each with the same keys until it is acknowledged."""
    number = 0
    while not stop.is_set():
        number += 1
        workflow = f"{name}-{number}"
        graph = draw_graph(rng, workflow)
        history.plan(graph)
        ids = tuple(each.id for each in graph)
        while history.call(name, "submit", ids, lambda graph=graph, workflow=workflow: submit(workflow, graph)) != "ok":
            time.sleep(0.2)  # Also after the end of the faults: what was begun is finished.
        stop.wait(len(graph) / rate)


def cancel(history: History, rng: Random, stop: threading.Event) -> None:
    """Cancel a random task about every two seconds."""
    while not stop.wait(rng.uniform(1, 3)):
        known = list(history.planned)
        if known:
            id = rng.choice(known[-50:])
            history.call("operator", "cancel", (id,), lambda id=id: app.handle(id).cancel())


def submit(workflow: str, graph: list[Planned]) -> None:
    """Submit a graph as one workflow, in one transaction."""
    with app.workflow(workflow) as wf:
        steps: list[Any] = []
        for each in graph:
            options = step.using(queue=each.queue, priority=each.priority)
            before = [steps[above] for above in each.above]
            steps.append(wf.add(options, each.number, each.seconds, each.trouble, before, key=each.key))


def draw_graph(rng: Random, workflow: str) -> list[Planned]:
    """Return a chain, a fan-out with its fan-in, or a random graph of up to twelve steps."""
    size = rng.randint(1, 12)
    shape = rng.choice(("chain", "fan", "random"))
    graph: list[Planned] = []
    for position in range(size):
        if position == 0:
            above: tuple[int, ...] = ()
        elif shape == "chain":
            above = (position - 1,)
        elif shape == "fan":
            above = tuple(range(1, position)) if position == size - 1 and size > 2 else (0,)
        else:
            above = tuple(sorted(rng.sample(range(position), min(position, rng.randint(0, 3)))))
        key = f"step-{position}"
        graph.append(
            Planned(
                id=keyed_id("default", workflow, key),
                key=key,
                number=rng.randint(1, 1000),
                seconds=rng.choice((0.0, 0.01, 0.05, 0.3)),
                trouble=rng.choice(TROUBLES) if rng.random() < 0.06 else "",
                queue=rng.choice(QUEUES),
                priority=rng.randint(0, 3),
                above=above,
            )
        )
    return graph


def expected_result(history: History, id: TaskId) -> int:
    """Return what a step must have returned: its number and those of all steps above it, along every path."""
    results: dict[TaskId, int] = {}
    for known, planned in history.planned.items():  # Prerequisites are planned before their dependents.
        results[known] = planned.number + sum(results[above] for above in history.graphs[known])
        if known == id:
            break
    return results[id]
