"""Graphs of tasks for tests: real ones from a folder, made ones, and one way to run any of them through a store.

A graph is a list of (name, names of its prerequisites), in the order of its origin, which need not be topological.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import TypeAlias

from msgspec import Struct

from tests.support.builders import MINUTE, a_task, sweep_until_quiet
from windlass.clock import ManualClock
from windlass.core.graph import MAX_PLACEHOLDERS
from windlass.core.settlement import COMPLETED
from windlass.core.task import NewTask
from windlass.stores.protocol import Store

Graph: TypeAlias = list[tuple[int, list[int]]]
ORDERS = ("file", "reverse", "shuffled")


@cache
def load_graph(path: Path) -> Graph:
    """A graph of the folder of real ones; see its README for the form of the files."""
    with gzip.open(path, "rt") as lines:
        next(lines)  # where it comes from, and its measures
        return [(task["id"], task["p"]) for task in map(json.loads, lines)]


def in_order(graph: Graph, order: str) -> Graph:
    """The same graph, its tasks in the order of the origin, the other way round, or in none."""
    match order:
        case "file":
            return graph
        case "reverse":
            return graph[::-1]
        case _:
            return Random(7).sample(graph, len(graph))


def fan_out(width: int) -> Graph:
    """One task before many, and one after them all."""
    middle = list(range(1, width + 1))
    return [(0, []), *((name, [0]) for name in middle), (width + 1, middle)]


def chain(length: int) -> Graph:
    """One after the other."""
    return [(name, [name - 1] if name else []) for name in range(length)]


def random_graph(size: int, seed: int) -> Graph:
    """Most tasks wait for a few near ones, some for many far ones, some for nobody."""
    rng = Random(seed)
    graph: Graph = []
    for name in range(size):
        near = range(max(0, name - 50), name)
        some = rng.sample(near, min(len(near), rng.choice([0, 1, 1, 2, 3])))
        far = rng.sample(range(name), min(name, 40)) if rng.random() < 0.02 else []
        graph.append((name, sorted({*some, *far})))
    return graph


def tasks_of(graph: Graph, workflow: str, queue: str) -> list[NewTask]:
    """A graph as its caller would submit it."""
    return [
        a_task(key=str(name), prerequisites=[str(above) for above in names], workflow=workflow, queue=queue)
        for name, names in graph
    ]


def chunks(graph: Graph, size: int) -> Iterator[Graph]:
    """A graph in parts."""
    return (graph[start : start + size] for start in range(0, len(graph), size))


def parts_taken(parts: Sequence[Graph]) -> int:
    """How many of the parts, submitted one by one, leave no more forward references open than a workflow may have."""
    submitted: set[int] = set()
    open_ahead: set[int] = set()
    for number, part in enumerate(parts):
        names = {name for name, _ in part}
        ahead = {above for _, many in part for above in many} - submitted - names - open_ahead
        if len(open_ahead) + len(ahead) > MAX_PLACEHOLDERS:
            return number
        open_ahead = (open_ahead | ahead) - names
        submitted |= names
    return len(parts)


class Run(Struct):
    """What happened to a graph in a store."""

    order: list[int]
    """The tasks as they were completed."""
    too_early: list[tuple[int, int]]
    """Tasks that were claimed before one of their prerequisites was completed, and which."""
    healed: int = 0
    cycles: int = 0


def run_graph(store: Store, clock: ManualClock, graph: Graph, queue: str) -> Run:
    """Claim and complete everything, in batches, and sweep whenever nothing is left to claim."""
    prerequisites, done = dict(graph), set[int]()
    run = Run([], [])
    session = store.open_session("runner", MINUTE)
    clock.advance(MINUTE / 2)  # The later ones of a batch are due some microseconds later.
    while True:
        claims = store.claim(session, [queue], 2_000)
        if not claims:
            swept = sweep_until_quiet(store)
            run.healed, run.cycles = run.healed + swept.healed, run.cycles + swept.cycles
            claims = store.claim(session, [queue], 2_000)
        if not claims:
            break
        names = [int(claim.key or "") for claim in claims]
        run.too_early += [(name, above) for name in names for above in prerequisites[name] if above not in done]
        store.settle([(claim.lease, COMPLETED) for claim in claims])
        run.order += names
        done.update(names)
    store.close_session(session)
    return run
