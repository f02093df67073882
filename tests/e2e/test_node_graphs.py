"""Whole graphs on a real node: every prerequisite runs before its dependents, and each task completes once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tests.e2e import shop
from tests.support.graphs import Graph, chunks, load_graph, random_graph
from tests.support.nodes import NodeProcess, read_effects
from tests.support.processes import until
from windlass.core.lifecycle import State
from windlass.core.task import NewTask
from windlass.stores.protocol import Store

pytestmark = pytest.mark.slow
REAL = ("wf-1000genome-2ch-100k", "wf-nextflow-atacseq", "wf-soykb-50fastq-20ch", "wf-bwa-large", "wf-montage-dss-15d")
FORWARD = timedelta(hours=1)
LARGE = ("stg-rand0006", "debian12-depends-condensed", "history-git")


def test_a_generated_graph_runs_in_order(node: Callable[..., NodeProcess], effects: Path, shop_store: Store) -> None:
    run(node, effects, shop_store, random_graph(500, seed=3), 60)


@pytest.mark.parametrize("name", REAL)
def test_a_real_graph_runs_in_order(
    node: Callable[..., NodeProcess], effects: Path, shop_store: Store, dags_folder: Path, name: str
) -> None:
    run(node, effects, shop_store, load_graph(dags_folder / f"{name}.jsonl.gz"), 120)


@pytest.mark.soak
@pytest.mark.parametrize("name", LARGE)
def test_a_large_real_graph_runs_in_order(
    node: Callable[..., NodeProcess], effects: Path, shop_store: Store, dags_folder: Path, name: str
) -> None:
    run(node, effects, shop_store, load_graph(dags_folder / f"{name}.jsonl.gz"), 1_800)


def run(node: Callable[..., NodeProcess], effects: Path, store: Store, graph: Graph, within: float) -> None:
    """Submit a graph while a node runs, wait for its end, and compare what ran with the graph."""
    node("-n", "2")
    submit(store, graph)

    until(lambda: completed(store) == len(graph), "the whole graph is completed", within)

    place = {each["key"]: number for number, each in enumerate(read_effects(effects, "step"))}
    ran = Counter(each["key"] for each in read_effects(effects, "step"))
    assert ran == Counter(str(name) for name, _ in graph), "each ran once"
    early = [(name, above) for name, names in graph for above in names if place[str(above)] > place[str(name)]]
    assert not early
    assert {count.state for count in store.counts() if count.tasks} == {State.COMPLETED}


def submit(store: Store, graph: Graph) -> None:
    """Submit a graph in parts, which may arrive in any order and run once the last one is there."""
    store.open_workflow("graph", sealed=False, forward=FORWARD)
    for part in chunks(graph, 5_000):
        store.submit(
            [
                NewTask(
                    handler=shop.step.name,
                    key=str(name),
                    workflow="graph",
                    prerequisites=[str(above) for above in names],
                )
                for name, names in part
            ]
        )
    store.seal_workflow("graph")


def completed(store: Store) -> int:
    return sum(count.tasks for count in store.counts() if count.state is State.COMPLETED)
