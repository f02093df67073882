"""Graphs of any size, made one task at a time, so that a million of them need no memory.

A graph is an iterable of (number, numbers of its prerequisites), in topological order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from itertools import islice
from pathlib import Path
from random import Random
from typing import TypeAlias

from msgspec.structs import replace

from tests.support.graphs import load_graph
from windlass.core.graph import MAX_PREREQUISITES
from windlass.core.ids import fresh_id
from windlass.core.task import NewTask, TaskId
from windlass.core.times import Micros

Step: TypeAlias = tuple[int, Sequence[int]]
WIDTH = 1_000
FIRST: Micros = 1_767_225_600_000_000
"""When the first task without a key is created: any moment, the same in every run."""
LARGE = ("stg-rand0006", "debian12-depends-condensed", "history-git")
"""The real graphs that are measured if their folder is given."""


def chain(tasks: int) -> Iterator[Step]:
    """Yield tasks that each wait for the previous one."""
    return ((number, [number - 1] if number else []) for number in range(tasks))


def chains(tasks: int) -> Iterator[Step]:
    """Yield 1,000 chains that grow side by side, so that a claim finds many tasks."""
    return ((number, [number - WIDTH] if number >= WIDTH else []) for number in range(tasks))


def fan_out(tasks: int) -> Iterator[Step]:
    """Yield one task, and then others that all wait for it."""
    return ((number, [0] if number else []) for number in range(tasks))


def fan_in(tasks: int) -> Iterator[Step]:
    """Yield tasks, and one that waits for all of them: for each 100,000, which is the most that a task can wait for."""
    above: list[int] = []
    for number in range(tasks):
        if len(above) == MAX_PREREQUISITES or number == tasks - 1:
            yield number, above
            above = []
        else:
            yield number, []
            above.append(number)


def layers(tasks: int) -> Iterator[Step]:
    """Yield layers of 1,000 tasks that each wait for three of the layer before, drawn at random."""
    rng = Random(1)
    for number in range(tasks):
        first = number - number % WIDTH - WIDTH
        yield number, sorted(rng.sample(range(first, first + WIDTH), 3)) if first >= 0 else []


SHAPES: Mapping[str, Callable[[int], Iterable[Step]]] = {
    "chain": chain,
    "chains": chains,
    "fan-out": fan_out,
    "fan-in": fan_in,
    "layers": layers,
}


def load_real(folder: Path, name: str) -> list[Step]:
    """Return a real graph, numbered in a topological order."""
    graph = dict(load_graph(folder / f"{name}.jsonl.gz"))
    order = {task: number for number, task in enumerate(TopologicalSorter(graph).static_order())}
    return [(number, [order[above] for above in graph[task]]) for task, number in order.items()]


def make_tasks(graph: Iterable[Step], handler: str, workflow: str, *, keys: bool) -> Iterator[NewTask]:
    """Yield the tasks of a graph, with keys, or with ids that sort by creation, as tasks without keys get them."""
    for number, above in graph:
        task = NewTask(handler=handler, args={"number": number}, workflow=workflow)
        if keys:
            yield replace(task, key=str(number), prerequisites=[str(one) for one in above])
        else:
            yield replace(task, id=_id_of(number), prerequisites=[*map(_id_of, above)])


def _id_of(number: int) -> TaskId:
    return fresh_id(FIRST + number, number)


def split(tasks: Iterable[NewTask], size: int) -> Iterator[list[NewTask]]:
    """Yield parts of at most this many tasks."""
    remaining = iter(tasks)
    while part := list(islice(remaining, size)):
        yield part
