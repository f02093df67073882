"""Measure claim + settle with tenants in a fair queue and with limits, and of a plain queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from random import Random
from typing import Any

from msgspec import Struct

from benchmarks.cost import Cost, combine
from benchmarks.databases import Database
from benchmarks.drain import QUEUE, drain, make_cycle, mark, warm_up
from benchmarks.plan import Plan
from benchmarks.progress import log_progress
from benchmarks.table import Result, choose_median
from windlass.core.limits import LIMIT, Limit, encode_limit
from windlass.core.ordering import Queue
from windlass.core.task import NewTask, Rate
from windlass.stores.protocol import Store

WHAT = "claim + settle"
SUBMITTED_AT_ONCE = 10_000
KEYS = 1_000
UNREACHED = 1_000_000
SECOND = timedelta(seconds=1)


class Case(Struct, frozen=True, kw_only=True):
    """A queue with tenants and limits."""

    name: str
    tenants: int = 1
    fair: bool = False
    limits: Sequence[Limit] = ()
    keys: int = 0
    """If not 0, each task has one of this number of keys, at random, of which one task may run at once."""

    def list_tasks(self, tasks: int) -> Iterator[NewTask]:
        """Yield tasks whose tenants take turns."""
        random = Random(tasks)
        for number in range(tasks):
            yield NewTask(
                handler="bench.noop",
                args={"n": 1},
                queue=QUEUE,
                tenant=f"tenant{number % self.tenants}",
                **self._choose_key(random),
            )

    def _choose_key(self, random: Random) -> Mapping[str, Any]:
        return {"limit": f"key{random.randrange(self.keys)}", "max_running": 1} if self.keys else {}


ON_QUEUE = Limit(queue=QUEUE, max_running=UNREACHED)
ON_TENANT = Limit(tenant="tenant0", max_running=UNREACHED)
RATE = Limit(queue=QUEUE, rate=Rate(tasks=UNREACHED, period=SECOND))
CASES = (
    Case(name="plain"),
    Case(name="plain, limit of the queue", limits=[ON_QUEUE]),
    Case(name="plain, limit of the tenant", limits=[ON_TENANT]),
    Case(name="plain, rate of the queue", limits=[RATE]),
    Case(name=f"plain, {KEYS:,} keys, one at a time", keys=KEYS),
    Case(name="plain, 100 tenants", tenants=100),
    Case(name="fair, 1 tenant", fair=True),
    Case(name="fair, 100 tenants", fair=True, tenants=100),
    Case(name="fair, 100 tenants, limit of the queue", fair=True, tenants=100, limits=[ON_QUEUE]),
    Case(name="fair, 100 tenants, limit of a tenant", fair=True, tenants=100, limits=[ON_TENANT]),
    Case(name="fair, 10,000 tenants", fair=True, tenants=10_000),
    Case(name="fair, 10,000 tenants, limit of the queue", fair=True, tenants=10_000, limits=[ON_QUEUE]),
)


def measure_tenants(database: Database, plan: Plan) -> Iterator[Result]:
    """Measure every case in one process. No limit but those of the keys holds back a task."""
    for case in CASES:
        for batch in plan.batches:
            log_progress(f"{database.name}: {case.name}, batch {batch:,}")
            cost = _measure_case(database, plan, case, batch)
            yield Result(what=WHAT, condition=case.name, batch=batch, cost=cost)


def _measure_case(database: Database, plan: Plan, case: Case, batch: int) -> Cost:
    database.empty()
    store = database.store()
    try:
        _set_up(store, case)
        _submit(store, case, max(2 * case.tenants, 10 * batch) + 100)
        cycle = make_cycle(store)
        warm_up(cycle)
        costs: list[Cost] = []
        for _ in range(plan.rounds):
            tasks = plan.get_tasks(batch)
            _submit(store, case, tasks)
            drain(cycle, batch, batch)  # It finds the tenants that are new.
            before = mark(database.server_pid, 0)
            done = drain(cycle, batch, tasks - batch)
            costs.append(combine([(before, mark(database.server_pid, done))]))
        return choose_median(costs)
    finally:
        _set_up(store, Case(name="plain"))
        store.close()


def _set_up(store: Store, case: Case) -> None:
    """Give the queue the settings of a case. Limits of an earlier case are removed."""
    store.configure(Queue(name=QUEUE, fair=case.fair))
    for known in store.controls(LIMIT):
        store.put_control(LIMIT, known.name, None, expect=known.version)
    for limit in case.limits:
        store.put_control(LIMIT, limit.name, encode_limit(limit), expect=0)


def _submit(store: Store, case: Case, tasks: int) -> None:
    pending = list(case.list_tasks(tasks))
    for start in range(0, tasks, SUBMITTED_AT_ONCE):
        store.submit(pending[start : start + SUBMITTED_AT_ONCE])
