"""Measure submits: one by one, from many threads, and in bulk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from time import perf_counter

from benchmarks.bare import Bare
from benchmarks.databases import Database
from benchmarks.plan import Plan
from benchmarks.processes import Ready, run_alone
from benchmarks.progress import log_progress
from benchmarks.recorded import record_submit
from benchmarks.table import Result
from windlass.core.task import NewTask
from windlass.stores.protocol import Store

THREADS = 16
BULKS = (1_000, 10_000)
_number = count()


def measure_submits(database: Database, plan: Plan) -> Iterator[Result]:
    """Measure every kind of submit, each into empty tables."""
    yield _compare(database, plan.rounds, "submit, one by one", 1, plan.singles, keyed=False)
    yield _measure_threads(database, plan)
    aim = {"sqlite": "≥ 100,000/s", "postgres": "≥ 60,000/s"}.get(database.name, "")
    for keyed in (False, True):
        for batch in BULKS:
            what = f"bulk submit, {'keyed' if keyed else 'no keys'}"
            yield _compare(database, plan.rounds, what, batch, plan.bulk, keyed=keyed, aim="" if keyed else aim)
            yield _measure_with_building(database, plan, f"{what}, NewTask built", batch, keyed=keyed)


def make_tasks(many: int, *, keyed: bool) -> list[NewTask]:
    """Return tasks as a caller writes them. No key is used twice in a run."""
    if keyed:
        return [NewTask(handler="bench.noop", args={"n": n}, key=f"key-{next(_number)}") for n in range(many)]
    return [NewTask(handler="bench.noop", args={"n": n}) for n in range(many)]


def _compare(
    database: Database, rounds: int, what: str, batch: int, many: int, *, keyed: bool, aim: str = ""
) -> Result:
    log_progress(f"{database.name}: {what}, {batch:,} at a time")
    windlass: list[float] = []
    bare: list[float] = []
    for _ in range(rounds):
        batches = [make_tasks(batch, keyed=keyed) for _ in range(max(1, many // batch))]
        windlass.append(_measure(database, lambda store, batches=batches: _submit_all(store, batches)))
        if database.shared:
            bare.append(_measure_bare(database, batches))
    return Result(what=what, batch=batch, windlass=max(windlass), bare=max(bare, default=None), aim=aim)


def _measure_with_building(database: Database, plan: Plan, what: str, batch: int, *, keyed: bool) -> Result:
    """Measure a bulk submit including the time to build the `NewTask`s."""

    def work(store: Store) -> float:
        start = perf_counter()
        for _ in range(max(1, plan.bulk // batch)):
            store.submit(make_tasks(batch, keyed=keyed))
        return max(1, plan.bulk // batch) * batch / (perf_counter() - start)

    return Result(what=what, batch=batch, windlass=max(_measure(database, work) for _ in range(plan.rounds)))


def _measure_threads(database: Database, plan: Plan) -> Result:
    """Measure single submits from many threads of one process, which can share commits."""
    log_progress(f"{database.name}: submit, one by one, {THREADS} threads")

    def work(store: Store) -> float:
        shares = [[[task] for task in make_tasks(plan.singles // 4, keyed=False)] for _ in range(THREADS)]
        with ThreadPoolExecutor(THREADS) as threads:
            start = perf_counter()
            list(threads.map(partial(_submit_all, store), shares))
            return THREADS * (plan.singles // 4) / (perf_counter() - start)

    return Result(what=f"submit, one by one, {THREADS} threads", batch=1, windlass=_measure(database, work))


def _submit_all(store: Store, batches: Sequence[Sequence[NewTask]]) -> float:
    start = perf_counter()
    for batch in batches:
        store.submit(batch)
    return sum(map(len, batches)) / (perf_counter() - start)


def _measure(database: Database, work: Callable[[Store], float]) -> float:
    database.empty()

    def job(_: Ready) -> float:
        store = database.store()
        for _warm_up in range(6):
            store.submit([NewTask(handler="bench.noop")])
        return work(store)

    return run_alone(job)


def _measure_bare(database: Database, batches: Sequence[Sequence[NewTask]]) -> float:
    database.empty()
    return run_alone(lambda _: _send_all(database.bare(), batches))


def _send_all(bare: Bare, batches: Sequence[Sequence[NewTask]]) -> float:
    for _ in range(6):
        bare.prepare(record_submit([NewTask(handler="bench.noop")]))()
    ready = [bare.prepare(record_submit(batch)) for batch in batches]
    start = perf_counter()
    for send in ready:
        send()
    return sum(map(len, batches)) / (perf_counter() - start)
