"""Runs whole graphs through every store: generated ones, and real ones if their folder is given (`--dags`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.support.builders import (
    HOUR,
    MINUTE,
    a_task,
    claim_all,
    complete,
    counted,
    submit,
    sweep_until_quiet,
)
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
from windlass.stores.sql.database import Answer, Transaction, Values
from windlass.stores.sql.store import SqlStore

SMALL = ("wf-1000genome-2ch-100k", "wf-nextflow-atacseq", "wf-soykb-50fastq-20ch", "wf-bwa-large", "wf-montage-dss-15d")
DENSE = "stg-rand0006"
WIDE = "debian12-depends-condensed"
DEEP = "history-git"

MADE = {
    "fan-out": fan_out(5_000),
    "chain": chain(100),
    "long chain": chain(3_000),
    "random": random_graph(1_500, seed=1),
}
MADE_TO_STREAM = {"fan-out": fan_out(500), "chain": chain(100), "random": random_graph(400, seed=2)}
KINDS = ("memory", "sqlite", "postgres")
_numbers = count()


def is_quick(kind: str, graph: str, order: str, way: str) -> bool:
    """What every run does; the rest takes minutes, mostly for commits, and is for soak tests."""
    match graph:
        case "long chain":
            return order == "file" and kind != "postgres"
        case "stg-rand0006":
            return order == "shuffled" and (kind == "memory" or (kind == "sqlite" and way == "whole"))
        case "debian12-depends-condensed":
            return (kind, order, way) == ("memory", "file", "whole")
        case "history-git":
            return (kind, order, way) == ("memory", "reverse", "streamed")
        case _:
            return True


def cases(graphs: Iterable[str], way: str) -> pytest.MarkDecorator:
    """Every store, graph and order."""
    every = product(KINDS, graphs, ORDERS)
    soak = [() if is_quick(*case, way) else (pytest.mark.soak,) for case in product(KINDS, graphs, ORDERS)]
    return pytest.mark.parametrize(
        ("kind", "graph", "order"), [pytest.param(*case, marks=marks) for case, marks in zip(every, soak, strict=True)]
    )


@pytest.fixture(scope="module")
def postgres_of_the_module(postgres_server: PostgresServer) -> Iterator[str]:
    name = postgres_server.create_database()
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(kind: str, request: pytest.FixtureRequest, clock: ManualClock) -> Iterator[Store]:
    """`kind` comes from the test's parameters."""
    # A long chain is thousands of commits; here it is the order that counts, so they need not reach a disk.
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        match kind:
            case "memory":
                home: Home = MemoryHome()
            case "sqlite":
                home = sqlite_home(Path(folder) / "windlass.db")
            case _:
                home = postgres_home(request.getfixturevalue("postgres_of_the_module"))
        yield home.open(clock)
        home.close()


@pytest.fixture
def name() -> str:
    """A queue and workflow of the test's own: PostgreSQL's database is everybody's."""
    return f"graph-{next(_numbers)}"


def check(store: Store, clock: ManualClock, graph: Graph, name: str) -> None:
    """Every task runs exactly once, after its prerequisites; no wake-up was lost, and no cycle found."""
    run = run_graph(store, clock, graph, name)

    assert run.too_early == []
    assert sorted(run.order) == sorted(task for task, _ in graph)
    assert (run.healed, run.cycles) == (0, 0)
    counts = {state: tasks for (queue, _, state), tasks in counted(store).items() if queue == name}
    assert counts == {State.COMPLETED: len(graph)}


def check_whole(store: Store, clock: ManualClock, graph: Graph, name: str) -> None:
    receipts = store.submit(tasks_of(graph, name, name))

    assert {receipt.created for receipt in receipts} == {True}
    check(store, clock, graph, name)


def check_streamed(store: Store, clock: ManualClock, graph: Graph, name: str, chunk: int) -> None:
    store.open_workflow(name, forward=HOUR)
    parts = list(chunks(graph, chunk))
    taken = parts_taken(parts)

    for part in parts[:taken]:
        store.submit(tasks_of(part, name, name))

    if taken == len(parts):
        check(store, clock, graph, name)
        return
    with pytest.raises(InvalidTask, match="forward references"):
        store.submit(tasks_of(parts[taken], name, name))
    assert sum(tasks for (queue, *_), tasks in counted(store).items() if queue == name) == taken * chunk


@cases(MADE, "whole")
def test_a_made_graph_submitted_whole_runs_in_order(
    store: Store, clock: ManualClock, name: str, graph: str, order: str
) -> None:
    check_whole(store, clock, in_order(MADE[graph], order), name)


@cases(MADE_TO_STREAM, "streamed")
def test_a_made_graph_streamed_in_parts_runs_in_order(
    store: Store, clock: ManualClock, name: str, graph: str, order: str
) -> None:
    check_streamed(store, clock, in_order(MADE_TO_STREAM[graph], order), name, chunk=60)


@cases([*SMALL, DENSE, WIDE, DEEP], "whole")
def test_a_real_graph_submitted_whole_runs_in_order(
    store: Store, clock: ManualClock, name: str, dags_folder: Path, graph: str, order: str
) -> None:
    check_whole(store, clock, in_order(load_graph(dags_folder / f"{graph}.jsonl.gz"), order), name)


@cases([*SMALL, DENSE, WIDE, DEEP], "streamed")
def test_a_real_graph_streamed_in_parts_runs_in_order(
    store: Store, clock: ManualClock, name: str, dags_folder: Path, graph: str, order: str
) -> None:
    check_streamed(store, clock, in_order(load_graph(dags_folder / f"{graph}.jsonl.gz"), order), name, chunk=1_000)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_work_of_resolving_grows_no_faster_than_the_edges(store: SqlStore, clock: ManualClock, name: str) -> None:
    width = 150
    parents = submit(store, *(a_task(queue=name) for _ in range(width)))
    submit(store, *(a_task(queue=f"{name}-children", prerequisites=parents) for _ in range(width)))
    clock.advance(MINUTE)
    read = count_rows(store, "open_edges")

    complete(store, *claim_all(store, queues=[name]))
    sweep_until_quiet(store)

    assert len(claim_all(store, queues=[f"{name}-children"])) == width
    assert sum(read) <= 3 * width * width


def count_rows(store: SqlStore, statement: str) -> list[int]:
    """How many rows each later run of a statement in a transaction gives back."""
    database: Any = store._db
    transact, rows = database.transact, list[int]()

    class Counting:
        def __init__(self, tx: Transaction) -> None:
            self.execute = tx.execute
            self._tx = tx

        def query(self, asked: str, *batch: Any, **scalars: Any) -> Answer:
            answer = self._tx.query(asked, *batch, **scalars)
            if asked == statement:
                rows.append(len(found := answer.rows()))
                return Given(found)
            return answer

    database.transact = lambda work, **options: transact(lambda tx: work(Counting(tx)), **options)
    return rows


class Given:
    """Rows that somebody has fetched already."""

    def __init__(self, found: Sequence[Values]) -> None:
        self._found = found

    def rows(self) -> Sequence[Values]:
        return self._found
