"""Measure submits: one by one, from many threads, and in bulk. Building the `NewTask`s is included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from benchmarks.cost import Cost, subtract
from benchmarks.databases import Database
from benchmarks.drain import mark
from benchmarks.plan import Plan
from benchmarks.processes import Ready, run_alone
from benchmarks.progress import log_progress
from benchmarks.table import Result, choose_median
from windlass.core.task import NewTask
from windlass.stores.protocol import Store

THREADS = 16
BULKS = (1_000, 10_000)
_number = count()


def measure_submits(database: Database, plan: Plan) -> Iterator[Result]:
    """Measure every kind of submit, each into empty tables."""
    yield _measure(database, plan, "submit", 1, plan.singles, keyed=False)
    yield _measure_threads(database, plan)
    for keyed in (False, True):
        for batch in BULKS:
            what = f"bulk submit, {'keyed' if keyed else 'no keys'}"
            yield _measure(database, plan, what, batch, max(plan.bulk, batch), keyed=keyed)


def make_tasks(many: int, *, keyed: bool) -> list[NewTask]:
    """Return tasks as a caller writes them. No key is used twice in a run."""
    if keyed:
        return [NewTask(handler="bench.noop", args={"n": n}, key=f"key-{next(_number)}") for n in range(many)]
    return [NewTask(handler="bench.noop", args={"n": n}) for n in range(many)]


def submit_all(store: Store, many: int, batch: int, *, keyed: bool = False) -> None:
    """Submit tasks in batches."""
    for _ in range(many // batch):
        store.submit(make_tasks(batch, keyed=keyed))


def measure_submit(database: Database, many: int, work: Callable[[Store], object]) -> Cost:
    """Return what a submit of many tasks costs, after a warm-up."""

    def job(_: Ready) -> Cost:
        store = database.store()
        submit_all(store, 6, 1)
        before = mark(database.server_pid, 0)
        work(store)
        return subtract(mark(database.server_pid, many), before)

    return run_alone(job)


def _measure(database: Database, plan: Plan, what: str, batch: int, many: int, *, keyed: bool) -> Result:
    log_progress(f"{database.name}: {what}, {batch:,} at a time")
    return Result(
        what=what,
        batch=batch,
        cost=_measure_rounds(database, plan, many, lambda store: submit_all(store, many, batch, keyed=keyed)),
    )


def _measure_threads(database: Database, plan: Plan) -> Result:
    """Measure single submits from many threads of one process, which can share commits."""
    what, share = f"submit, {THREADS} threads", plan.singles // 4
    log_progress(f"{database.name}: {what}")

    def work(store: Store) -> None:
        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(lambda _: submit_all(store, share, 1), range(THREADS)))

    return Result(what=what, batch=1, cost=_measure_rounds(database, plan, THREADS * share, work))


def _measure_rounds(database: Database, plan: Plan, many: int, work: Callable[[Store], object]) -> Cost:
    costs: list[Cost] = []
    for _ in range(plan.rounds):
        database.empty()
        costs.append(measure_submit(database, many, work))
    return choose_median(costs)
