"""`make bench-scale`: does a task cost the same in a graph of ten thousand tasks and in one of a million?

Each graph is submitted in parts to an open workflow, sealed, and run to its end: by calls of the store alone, or with
`--node` by a real node with two workers. `--only cascades` ends the first task badly instead, and measures how all
others are cancelled. Every measurement has a new database and a process of its own.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import psutil
import psycopg
from msgspec import Struct
from msgspec.structs import replace

from benchmarks.cost import Cost, Mark, subtract
from benchmarks.drain import LONG, QUEUE
from benchmarks.machine import OtherLoad, describe_machine
from benchmarks.processes import run_alone
from benchmarks.progress import log_progress
from benchmarks.shapes import LARGE, SHAPES, Step, load_real, make_tasks, split
from benchmarks.table import format_columns, format_markdown, format_microseconds
from benchmarks.usage import Roles, read_usage
from benchmarks.workloads.effects import check_once, count_effects, wait_until
from benchmarks.workloads.servers import Servers
from benchmarks.workloads.systems import make_windlass
from benchmarks.workloads.worker_processes import WorkerProcesses
from tests.support.builders import GAVE_UP, claim_one, report, sweep_until_quiet
from windlass import open_store
from windlass.clock import monotonic
from windlass.core.lifecycle import State
from windlass.core.settlement import COMPLETED
from windlass.core.task import TaskId
from windlass.stores.protocol import Filter, Store

WORKFLOW = "scale"
HANDLER = "noop"
PART = 5_000
"""The number of tasks of one submit."""
BATCH = 500
"""The number of tasks of one claim and one settle."""
SIZES = (10_000, 100_000, 1_000_000)
CASCADES = ("chain", "fan-out")
ENDS = ("fail the first", "cancel the first", "cancel all")
LONGEST_CHAIN = 100_000
"""A single chain waits for a commit at each step, so a longer one is measured only on request."""
PATIENCE = 3_600.0
T = TypeVar("T")


class Measured(Struct, frozen=True, kw_only=True):
    """What one graph cost in one store."""

    store: str
    shape: str
    by: str
    """Who ran it: the store alone, or a node; or how it ended."""
    tasks: int
    submit: Cost
    run: Cost
    transactions: int | None = None
    """Of the phase `run`. None for a node, which has its own process."""
    longest: float | None = None
    """Seconds of the longest of these transactions."""
    memory: int
    """The largest resident memory of the process that used the store, in bytes."""
    size: int
    """The size of the database at the end, in bytes."""

    @property
    def line(self) -> tuple[str, str, str]:
        """What is compared between sizes."""
        return self.store, self.shape, self.by


class Transactions:
    """Counts the writing transactions of a store from now on, and times the longest one."""

    def __init__(self, store: Store) -> None:
        self.count, self.longest = 0, 0.0
        database: Any = getattr(store, "_db")  # noqa: B009  # the only place that all of them pass through
        transact = database.transact

        def counted(work: Callable[[Any], T], **options: Any) -> T:
            began = monotonic()
            try:
                return transact(work, **options)
            finally:
                self.count += 1
                self.longest = max(self.longest, monotonic() - began)

        database.transact = counted


class Scale:
    """One measurement: a graph on an empty database. Its methods run in a process of their own."""

    def __init__(
        self,
        url: str,
        server: int | None,
        effects: Path,
        shape: str,
        graph: Callable[[], Iterable[Step]],
        *,
        keys: bool,
    ) -> None:
        self.url, self.effects, self.shape = url, effects, shape if keys else f"{shape}, no keys"
        self._graph, self._keys = graph, keys
        self._roles = Roles(server=server)
        self._store = "sqlite" if server is None else "postgres"
        self._first: list[TaskId] = []

    def run_alone(self) -> Measured:
        """Run the graph with calls of the store."""
        with closing(open_store(self.url)) as store:
            tasks, submitted = self._submit(store)
            transactions, before = Transactions(store), self._mark(0)
            store.seal_workflow(WORKFLOW)
            complete_all(store, tasks)
            after = self._mark(tasks)
            check_counts(store, {State.COMPLETED: tasks})
            return self._measured("store", submitted, subtract(after, before), transactions)

    def run_on_node(self, node: int) -> Measured:
        """Run the graph on a node that has been started."""
        self._roles = replace(self._roles, nodes=[node], split=True)
        with closing(open_store(self.url)) as store:
            wait_until(lambda: bool(store.sessions()), "the node is there", 60.0, 0.05)
            tasks, submitted = self._submit(store)
            before = self._mark(0)
            store.seal_workflow(WORKFLOW)
            called = time.process_time()  # waiting for the end is not the client's work
            wait_until(lambda: count_effects(self.effects) >= tasks, "every task has started", PATIENCE, 0.1)
            wait_until(lambda: count_unfinished(store) == 0, "the store has no task left", 60.0, 0.01)
            after = self._mark(tasks)
            check_once(self.effects, range(tasks))
            check_counts(store, {State.COMPLETED: tasks})
            cost = subtract(replace(after, used=replace(after.used, client=called)), before)
        memory = max(read_peak_memory(one.pid) for one in [psutil.Process(node), *psutil.Process(node).children(True)])
        return replace(self._measured("node", submitted, cost), memory=memory)

    def end_badly(self, how: str) -> Measured:
        """End the first task, and measure until all others are cancelled."""
        with closing(open_store(self.url)) as store:
            tasks, submitted = self._submit(store)
            store.seal_workflow(WORKFLOW)
            sweep_until_quiet(store, tasks)
            claim = claim_one(store) if how == "fail the first" else None
            transactions, before = Transactions(store), self._mark(0)
            if claim is not None:
                report(store, claim, GAVE_UP)
            else:
                which = self._first if how == "cancel the first" else Filter(workflow=WORKFLOW)
                store.cancel(which, reason="benchmark")
            sweep_until_quiet(store, tasks)
            after = self._mark(tasks)
            failed = {State.FAILED: 1} if claim is not None else {}
            check_counts(store, {**failed, State.CANCELLED: tasks - len(failed)})
            return self._measured(how, submitted, subtract(after, before), transactions)

    def _submit(self, store: Store) -> tuple[int, Cost]:
        """Submit the graph in parts. Return the number of its tasks and what that cost."""
        store.open_workflow(WORKFLOW, sealed=False)
        before, tasks = self._mark(0), 0
        for part in split(make_tasks(self._graph(), HANDLER, WORKFLOW, keys=self._keys), PART):
            receipts = store.submit(part)
            self._first = self._first or [receipts[0].id]
            tasks += len(part)
        return tasks, subtract(self._mark(tasks), before)

    def _mark(self, tasks: int) -> Mark:
        return Mark(tasks, time.monotonic_ns(), read_usage(self._roles, client=True))

    def _measured(self, by: str, submit: Cost, run: Cost, transactions: Transactions | None = None) -> Measured:
        return Measured(
            store=self._store,
            shape=self.shape,
            by=by,
            tasks=run.tasks,
            submit=submit,
            run=run,
            transactions=None if transactions is None else transactions.count,
            longest=None if transactions is None else transactions.longest,
            memory=read_peak_memory(os.getpid()),
            size=read_size(self.url),
        )


def complete_all(store: Store, tasks: int) -> None:
    """Claim and settle until this many tasks are completed, and sweep as a node would."""
    session, done = store.open_session("benchmark", ttl=LONG), 0
    while done < tasks:
        claims = store.claim(session, [QUEUE], BATCH)
        store.settle([(claim.lease, COMPLETED) for claim in claims])
        done += len(claims)
        if store.unresolved.wait(0) or not claims:
            store.unresolved.clear()
            store.sweep()


def count_unfinished(store: Store) -> int:
    """Return the number of tasks that have not ended."""
    return sum(count.tasks for count in store.counts() if not count.state.final)


def check_counts(store: Store, wanted: dict[State, int]) -> None:
    """Raise AssertionError unless the store has exactly these tasks."""
    found: dict[State, int] = {}
    for count in store.counts():
        if count.tasks:
            found[count.state] = found.get(count.state, 0) + count.tasks
    if found != wanted:
        raise AssertionError(f"the store has {found} instead of {wanted}")


def read_peak_memory(pid: int) -> int:
    """Return the largest resident memory that a process has had, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def read_size(url: str) -> int:
    """Return the size of a database with its indexes, in bytes."""
    if url.startswith("postgresql:"):
        with psycopg.connect(url, autocommit=True) as connection:
            [(size,)] = connection.execute("SELECT pg_database_size(current_database())").fetchall()
            return size
    path = Path(url.removeprefix("sqlite:///"))
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))


def measure(
    servers: Servers, store: str, shape: str, graph: Callable[[], Iterable[Step]], by: str, *, keys: bool
) -> Measured:
    """Measure one graph on a new database."""
    url = servers.create(store)
    effects = servers.create_path("effects")
    run_alone(lambda _: open_store(url).close())  # so that the node finds the tables
    scale = Scale(url, servers.get_pid(store), effects, shape, graph, keys=keys)
    with WorkerProcesses(make_windlass(store), url, effects) if by == "node" else nullcontext() as node:
        if node is not None:
            [process] = node.processes
            measured = run_alone(lambda _: scale.run_on_node(process.pid))
        elif by == "store":
            measured = run_alone(lambda _: scale.run_alone())
        else:
            measured = run_alone(lambda _: scale.end_badly(by))
    servers.release(url)
    return measured


HEAD = (
    *("store", "graph", "by", "tasks", "submit µs", "server µs", "own µs", "sum µs", "of the first", "tasks/s"),
    *("tasks per transaction", "longest ms", "peak MB", "database MB"),
)


def format_results(results: Sequence[Measured], *, markdown: bool = False) -> str:
    """Return the results as a table. `of the first` compares the sum with that of the smallest graph."""
    first: dict[tuple[str, str, str], float] = {}
    lines: list[Sequence[str]] = []
    for one in results:
        used = one.run.microseconds
        lines.append(
            (
                *one.line,
                f"{one.tasks:,}",
                format_microseconds(one.submit.microseconds.total),
                format_microseconds(used.server),
                format_microseconds(used.total - (used.server or 0.0)),
                format_microseconds(used.total),
                f"{used.total / first.setdefault(one.line, used.total):.2f}",
                f"{one.run.rate:,.0f}",
                f"{one.tasks / one.transactions:,.1f}" if one.transactions else "–",
                f"{one.longest * 1_000:,.0f}" if one.longest is not None else "–",
                f"{one.memory / 2**20:,.0f}",
                f"{one.size / 2**20:,.0f}",
            )
        )
    return (format_markdown if markdown else format_columns)(HEAD, lines, right=range(3, len(HEAD)))


def plan(asked: argparse.Namespace) -> Iterator[tuple[str, str, Callable[[], Iterable[Step]], int, str]]:
    """Yield what to measure: store, name of the graph, the graph, its size, and by whom."""
    sizes, shapes = asked.tasks or SIZES, asked.shape or SHAPES
    cascades = asked.only == "cascades"
    ways = ENDS if cascades else ["node" if asked.node else "store"]
    for store in asked.store or ("sqlite", "postgres"):
        for by in ways:
            for shape in shapes:
                if cascades and shape not in CASCADES:
                    continue
                for size in sorted(sizes):
                    if shape != "chain" or cascades or size <= asked.longest_chain:
                        yield store, shape, lambda shape=shape, size=size: SHAPES[shape](size), size, by
            for name in LARGE if asked.dags and not cascades else ():
                graph = load_real(asked.dags, name)
                yield store, name, lambda graph=graph: graph, len(graph), by


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=("sqlite", "postgres"), action="append", help="only this store")
    parser.add_argument("--shape", choices=SHAPES, action="append", help="only this kind of graph; may be repeated")
    parser.add_argument("--tasks", type=lambda text: int(float(text)), action="append", help="only this size, as 1e5")
    parser.add_argument(
        "--only", choices=("runs", "cascades"), default="runs", help="run the graphs, or end them badly"
    )
    parser.add_argument("--node", action="store_true", help="run the graphs on a node with two workers")
    parser.add_argument(
        "--no-keys", dest="keys", action="store_false", help="give tasks ids that sort by creation instead of keys"
    )
    parser.add_argument("--dags", type=Path, help="also the large real graphs of this folder")
    parser.add_argument("--longest-chain", type=float, default=LONGEST_CHAIN, help="the longest single chain")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))  # so that every database is removed
    print("\n".join(describe_machine()), flush=True)
    other_load, results = OtherLoad(), list[Measured]()
    with Servers() as servers:
        for store, shape, graph, size, by in plan(asked):
            log_progress(f"{store}: {shape} of {size:,}, {by}")
            results.append(measure(servers, store, shape, graph, by, keys=asked.keys))
            log_progress(format_results(results[-1:]).splitlines()[-1])
    print(f"\n{format_results(results, markdown=asked.markdown)}\n\n{other_load}")
    if asked.json:
        asked.json.write_bytes(msgspec.json.format(msgspec.json.encode(results)))


if __name__ == "__main__":
    main()
