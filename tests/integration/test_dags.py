"""Whole graphs through every store: made ones always, real ones when their folder is given (`--dags`)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from tests.support.builders import HOUR, counted
from tests.support.graphs import (
    ORDERS,
    Graph,
    chain,
    chunks,
    fan_out,
    in_order,
    load_graph,
    parts_taken,
    random_graph,
    run_graph,
    tasks_of,
)
from tests.support.servers import PostgresServer
from tests.support.stores import Home, MemoryHome, postgres_home, sqlite_home
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.errors import InvalidTask
from windlass.stores.protocol import Store

CHUNK = 1_000
SMALL = ("wf-1000genome-2ch-100k", "wf-nextflow-atacseq", "wf-soykb-50fastq-20ch", "wf-bwa-large", "wf-montage-dss-15d")
DENSE = "stg-rand0006"
WIDE = "debian12-depends-condensed"
DEEP = "history-git"
_numbers = count()


@pytest.fixture(scope="module")
def postgres_of_the_module(postgres_server: PostgresServer) -> Iterator[str]:
    name = postgres_server.create_database()
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(kind: str, request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    """`kind` comes from the test's parameters."""
    match kind:
        case "memory":
            home: Home = MemoryHome()
        case "sqlite":
            home = sqlite_home(tmp_path / "windlass.db")
        case _:
            home = postgres_home(request.getfixturevalue("postgres_of_the_module"))
    yield home.open(clock)
    home.close()


@pytest.fixture
def name() -> str:
    """A queue and workflow of the test's own: PostgreSQL's database is everybody's."""
    return f"graph-{next(_numbers)}"


def check(store: Store, clock: ManualClock, graph: Graph, name: str) -> None:
    """Every task runs exactly once, after its prerequisites; no wake-up was lost, and no ring seen."""
    run = run_graph(store, clock, graph, name)

    assert run.too_early == []
    assert sorted(run.order) == sorted(task for task, _ in graph)
    assert (run.healed, run.rings) == (0, 0)
    counts = {state: tasks for (queue, _, state), tasks in counted(store).items() if queue == name}
    assert counts == {State.COMPLETED: len(graph)}


def check_whole(store: Store, clock: ManualClock, graph: Graph, name: str) -> None:
    receipts = store.submit(tasks_of(graph, name, name))

    assert {receipt.created for receipt in receipts} == {True}
    check(store, clock, graph, name)


def check_streamed(store: Store, clock: ManualClock, graph: Graph, name: str) -> None:
    store.open_workflow(name, forward=HOUR)
    parts = list(chunks(graph, CHUNK))
    taken = parts_taken(parts)

    for part in parts[:taken]:
        store.submit(tasks_of(part, name, name))

    if taken == len(parts):
        check(store, clock, graph, name)
    else:
        with pytest.raises(InvalidTask, match="forward references"):
            store.submit(tasks_of(parts[taken], name, name))
        assert sum(tasks for (queue, *_), tasks in counted(store).items() if queue == name) == taken * CHUNK
    _ = timedelta


KINDS = ("memory", "sqlite", "postgres")
MADE = {"fan-out": fan_out(5_000), "chain": chain(3_000), "random": random_graph(3_000, seed=1)}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("kind", KINDS)
def test_a_made_graph_submitted_whole_runs_in_order(
    store: Store, clock: ManualClock, name: str, made: str, order: str
) -> None:
    check_whole(store, clock, in_order(MADE[made], order), name)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("kind", KINDS)
def test_a_made_graph_streamed_in_parts_runs_in_order(
    store: Store, clock: ManualClock, name: str, made: str, order: str
) -> None:
    check_streamed(store, clock, in_order(MADE[made], order), name)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("real", [*SMALL, DENSE, WIDE, DEEP])
@pytest.mark.parametrize("kind", KINDS)
def test_a_real_graph_submitted_whole_runs_in_order(
    store: Store, clock: ManualClock, name: str, dags_folder: Path, real: str, order: str
) -> None:
    check_whole(store, clock, in_order(load_graph(dags_folder / f"{real}.jsonl.gz"), order), name)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("real", [*SMALL, DENSE, WIDE, DEEP])
@pytest.mark.parametrize("kind", KINDS)
def test_a_real_graph_streamed_in_parts_runs_in_order(
    store: Store, clock: ManualClock, name: str, dags_folder: Path, real: str, order: str
) -> None:
    check_streamed(store, clock, in_order(load_graph(dags_folder / f"{real}.jsonl.gz"), order), name)
