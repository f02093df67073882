"""Submits a second: one by one, from many threads, and in bulk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from time import perf_counter

from benchmarks.bare import Bare
from benchmarks.homes import Home
from benchmarks.plan import Plan
from benchmarks.processes import Ready, alone
from benchmarks.progress import say
from benchmarks.recorded import recorded
from benchmarks.table import Result
from windlass.core.task import NewTask
from windlass.stores.protocol import Store

THREADS = 16
BULKS = (1_000, 10_000)
_number = count()


def submits(home: Home, plan: Plan) -> Iterator[Result]:
    """Every kind of submit, each into empty tables."""
    yield _compared(home, plan.rounds, "submit, one by one", 1, plan.singles, keyed=False)
    yield _threads(home, plan)
    aim = {"sqlite": "≥ 100,000/s", "postgres": "≥ 60,000/s"}.get(home.name, "")
    for keyed in (False, True):
        for batch in BULKS:
            what = f"bulk submit, {'keyed' if keyed else 'no keys'}"
            yield _compared(home, plan.rounds, what, batch, plan.bulk, keyed=keyed, aim="" if keyed else aim)
            yield _with_building(home, plan, f"{what}, NewTask built", batch, keyed=keyed)


def new_tasks(many: int, *, keyed: bool) -> list[NewTask]:
    """Tasks as a caller writes them. No key is ever used twice in a run."""
    if keyed:
        return [NewTask(handler="bench.noop", args={"n": n}, key=f"key-{next(_number)}") for n in range(many)]
    return [NewTask(handler="bench.noop", args={"n": n}) for n in range(many)]


def _compared(home: Home, rounds: int, what: str, batch: int, many: int, *, keyed: bool, aim: str = "") -> Result:
    say(f"{home.name}: {what}, {batch:,} at a time")
    windlass: list[float] = []
    bare: list[float] = []
    for _ in range(rounds):
        batches = [new_tasks(batch, keyed=keyed) for _ in range(max(1, many // batch))]
        windlass.append(_measured(home, lambda store, batches=batches: _through(store, batches)))
        if home.shared:
            bare.append(_measured_bare(home, batches))
    return Result(what=what, batch=batch, windlass=max(windlass), bare=max(bare, default=None), aim=aim)


def _with_building(home: Home, plan: Plan, what: str, batch: int, *, keyed: bool) -> Result:
    """The same with the construction of the `NewTask`s inside the measured time."""

    def work(store: Store) -> float:
        start = perf_counter()
        for _ in range(max(1, plan.bulk // batch)):
            store.submit(new_tasks(batch, keyed=keyed))
        return max(1, plan.bulk // batch) * batch / (perf_counter() - start)

    return Result(what=what, batch=batch, windlass=max(_measured(home, work) for _ in range(plan.rounds)))


def _threads(home: Home, plan: Plan) -> Result:
    """Single submits from many threads of one process, which share what a commit costs if the store lets them."""
    say(f"{home.name}: submit, one by one, {THREADS} threads")

    def work(store: Store) -> float:
        shares = [[[task] for task in new_tasks(plan.singles // 4, keyed=False)] for _ in range(THREADS)]
        with ThreadPoolExecutor(THREADS) as threads:
            start = perf_counter()
            list(threads.map(partial(_through, store), shares))
            return THREADS * (plan.singles // 4) / (perf_counter() - start)

    return Result(what=f"submit, one by one, {THREADS} threads", batch=1, windlass=_measured(home, work))


def _through(store: Store, batches: Sequence[Sequence[NewTask]]) -> float:
    start = perf_counter()
    for batch in batches:
        store.submit(batch)
    return sum(map(len, batches)) / (perf_counter() - start)


def _measured(home: Home, work: Callable[[Store], float]) -> float:
    home.empty()

    def job(_: Ready) -> float:
        store = home.store()
        for _warm_up in range(6):
            store.submit([NewTask(handler="bench.noop")])
        return work(store)

    return alone(job)


def _measured_bare(home: Home, batches: Sequence[Sequence[NewTask]]) -> float:
    home.empty()
    return alone(lambda _: _sent(home.bare(), batches))


def _sent(bare: Bare, batches: Sequence[Sequence[NewTask]]) -> float:
    for _ in range(6):
        bare.prepared(recorded([NewTask(handler="bench.noop")]))()
    ready = [bare.prepared(recorded(batch)) for batch in batches]
    start = perf_counter()
    for send in ready:
        send()
    return sum(map(len, batches)) / (perf_counter() - start)
