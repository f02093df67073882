"""Shares of tenants in a fair queue, with workers simulated in virtual time on a real store.

Every slot of two nodes is always busy while there are tasks. What a tenant got is the run time of its attempts in the
measured interval. While it has tasks, that differs from its share by at most two of its longest tasks: one for the
tasks that run at both ends of the interval, one for its turn.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from heapq import heappop, heappush
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from tests.support.builders import a_session, a_task, submit
from windlass.clock import ManualClock
from windlass.core.fairness import TENANT, SetBy, Tenant, encode_tenant
from windlass.core.limits import LIMIT, Limit, encode_limit
from windlass.core.ordering import Queue
from windlass.core.settlement import COMPLETED
from windlass.core.task import Claim
from windlass.stores.memory import MemoryStore
from windlass.stores.postgres import PostgresStore
from windlass.stores.protocol import Store
from windlass.stores.sqlite import SQLiteStore

SECOND = 1_000_000
TOLERANCE = 2


class Run(NamedTuple):
    """One attempt, in virtual seconds."""

    tenant: str
    start: float
    end: float


class Nodes:
    """Two nodes with simulated workers. `seconds` returns how long the next task of a tenant runs."""

    def __init__(self, store: Store, clock: ManualClock, slots: int, seconds: Callable[[str], float]) -> None:
        self._store = store
        self._clock = clock
        self._began = clock.now()
        self._sessions = [a_session(store, ttl=timedelta(days=1)) for _ in range(2)]
        self._free = [slots // 2, slots - slots // 2]
        self._seconds = seconds
        self._running: list[tuple[float, int, int, Claim]] = []
        self._number = 0
        self.runs: list[Run] = []

    def work(self, until: float) -> None:
        """Run tasks until this time. Attempts that have begun are not ended early."""
        while self.now < until:
            self._claim()
            due = self._running[0][0] if self._running else until
            self._pass_time(min(due, until))
            self._settle()

    @property
    def now(self) -> float:
        return (self._clock.now() - self._began) / SECOND

    def used(self, start: float, end: float) -> Counter[str]:
        """Return the run time of each tenant in an interval, including that of attempts that still run."""
        used: Counter[str] = Counter()
        for run in self.runs:
            used[run.tenant] += max(0.0, min(run.end, end) - max(run.start, start))
        return used

    def _claim(self) -> None:
        for node, session in enumerate(self._sessions):
            if not self._free[node]:
                continue
            for claim in self._store.claim(session, ["default"], self._free[node]):
                self._free[node] -= 1
                seconds = self._seconds(claim.tenant)
                self.runs.append(Run(claim.tenant, self.now, self.now + seconds))
                self._number += 1
                heappush(self._running, (self.now + seconds, self._number, node, claim))

    def _pass_time(self, until: float) -> None:
        self._clock.advance(timedelta(microseconds=max(1, round((until - self.now) * SECOND))))

    def _settle(self) -> None:
        ended: list[list[Claim]] = [[], []]
        while self._running and self._running[0][0] <= self.now:
            _, _, node, claim = heappop(self._running)
            ended[node].append(claim)
        for node, claims in enumerate(ended):
            self._free[node] += len(claims)
            self._store.settle([(one.lease, replace(COMPLETED, ran=self._ran(one))) for one in claims])

    def _ran(self, claim: Claim) -> int:
        return self._clock.now() - claim.claimed


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> Iterator[Store]:
    store: Store
    if request.param == "memory":
        store = MemoryStore(clock=clock)
    elif request.param == "sqlite":
        store = SQLiteStore(tmp_path / "windlass.db", clock=clock)
    else:
        store = PostgresStore(request.getfixturevalue("postgres_url"), clock=clock)
    store.configure(Queue(name="default", fair=True))
    yield store
    store.close()


def fill(store: Store, tenants: Mapping[str, int]) -> None:
    submit(store, *(a_task(tenant=tenant) for tenant, tasks in tenants.items() for _ in range(tasks)))


def weigh(store: Store, weights: Mapping[str, int]) -> None:
    for tenant, weight in weights.items():
        value = encode_tenant(Tenant(weight=weight, weight_set_by=SetBy(by="ops")))
        assert store.put_control(TENANT, tenant, value, expect=0)


def check_shares(
    nodes: Nodes, weights: Mapping[str, int], start: float, end: float, longest: Mapping[str, float]
) -> None:
    """Check what tenants got that had tasks during the whole interval."""
    used = nodes.used(start, end)
    total = sum(used[tenant] for tenant in weights)
    for tenant, weight in weights.items():
        due = total * weight / sum(weights.values())
        assert abs(used[tenant] - due) <= TOLERANCE * longest[tenant], (
            f"{tenant} got {used[tenant]} s instead of {due} s"
        )


def test_three_tenants_share_by_weight_and_not_by_the_length_of_their_tasks(store: Store, clock: ManualClock) -> None:
    weights, seconds = {"a": 1, "b": 2, "c": 3}, {"a": 4.0, "b": 1.0, "c": 2.0}
    weigh(store, weights)
    fill(store, {"a": 60, "b": 300, "c": 240})
    nodes = Nodes(store, clock, 6, seconds.__getitem__)

    nodes.work(until=60)

    check_shares(nodes, weights, 10, 60, seconds)


def test_run_times_that_vary_do_not_change_the_shares(store: Store, clock: ManualClock) -> None:
    rng, weights = random.Random(12), {"even": 1, "uneven": 1}
    fill(store, {"even": 200, "uneven": 200})
    nodes = Nodes(store, clock, 4, lambda tenant: 1.0 if tenant == "even" else rng.choice([0.2, 0.2, 3.0]))

    nodes.work(until=80)

    check_shares(nodes, weights, 20, 80, {"even": 3.0, "uneven": 3.0})


def test_tenants_that_come_and_go_get_no_more_than_their_share_and_leave_theirs_to_others(
    store: Store, clock: ManualClock
) -> None:
    seconds = defaultdict(lambda: 1.0)
    fill(store, {"stays": 400})
    nodes = Nodes(store, clock, 4, seconds.__getitem__)
    nodes.work(until=20)
    fill(store, {"comes": 40})
    nodes.work(until=40)
    fill(store, {"later": 60})
    nodes.work(until=60)

    assert nodes.used(0, 20)["stays"] == pytest.approx(80, abs=1), "the whole idle share is lent"
    check_shares(nodes, {"stays": 1, "comes": 1}, 21, 38, seconds)
    check_shares(nodes, {"stays": 1, "later": 1}, 45, 60, seconds)


def test_a_tenant_gains_nothing_by_splitting_its_work(store: Store, clock: ManualClock) -> None:
    seconds = {"few-long": 6.0, "many-short": 0.5}
    fill(store, {"few-long": 40, "many-short": 400})
    nodes = Nodes(store, clock, 4, seconds.__getitem__)

    nodes.work(until=60)

    check_shares(nodes, {"few-long": 1, "many-short": 1}, 12, 60, {"few-long": 6.0, "many-short": 6.0})


def test_a_thousand_tenants_each_get_their_share(store: Store, clock: ManualClock) -> None:
    names = [f"t{number:04}" for number in range(1_000)]
    weights = {name: 1 + number % 2 for number, name in enumerate(names)}
    weigh(store, {name: weight for name, weight in weights.items() if weight > 1})
    fill(store, dict.fromkeys(names, 4))
    nodes = Nodes(store, clock, 250, lambda tenant: 1.0)

    nodes.work(until=6)

    used = nodes.used(0, 6)
    assert sum(used.values()) == pytest.approx(1_500, abs=1)
    for name, weight in weights.items():
        assert abs(used[name] - weight) <= 1, f"{name} got {used[name]} s instead of {weight} s"


def test_a_limit_on_one_tenant_leaves_the_rest_to_the_others(store: Store, clock: ManualClock) -> None:
    limit = Limit(tenant="a", max_running=1)
    assert store.put_control(LIMIT, limit.name, encode_limit(limit), expect=0)
    fill(store, {"a": 60, "b": 100, "c": 100})
    nodes = Nodes(store, clock, 5, lambda tenant: 1.0)

    nodes.work(until=30)

    used = nodes.used(5, 30)
    assert used["a"] == pytest.approx(25, abs=1)
    assert used["b"] == pytest.approx(used["c"], abs=TOLERANCE)
    assert sum(used.values()) == pytest.approx(125, abs=1)
