"""Metrics of fair queues, limits and pauses."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.metrics.values import read
from tests.support.builders import HOUR, MINUTE, a_session, a_task, claim_all, submit, submit_one
from windlass.clock import ManualClock
from windlass.core.limits import Limit
from windlass.core.ordering import Queue
from windlass.core.settlement import COMPLETED
from windlass.core.task import Rate
from windlass.metrics import fairness
from windlass.metrics.exposition import render
from windlass.metrics.store import StoreMetrics
from windlass.operations import limits, tenants
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.stores.memory import MemoryStore

ANN = Author("ann")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock=clock)


@pytest.fixture
def access(store: MemoryStore) -> Access:
    store.configure(Queue(name="fair", fair=True))
    return Access(store)


def scraped(store: MemoryStore, *, tenants: bool = False) -> dict[str, float]:
    return read(render(StoreMetrics(store, tenants=tenants)))


def run_for(store: MemoryStore, tenant: str, seconds: float) -> None:
    submit_one(store, queue="fair", tenant=tenant)
    [claim] = store.claim(a_session(store), ["fair"], 1)
    store.settle([(claim.lease, replace(COMPLETED, ran=round(seconds * 1e6)))])


def test_shares_are_shown_for_each_tenant_of_a_fair_queue(store: MemoryStore, access: Access) -> None:
    run_for(store, "a", 30)
    run_for(store, "b", 10)
    tenants.set_weight(access, "b", 3, ANN)
    submit(store, *(a_task(queue="fair", tenant=tenant) for tenant in "ab"))

    found = scraped(store)

    assert found["windlass_fair_share_due_ratio{queue=fair,tenant=a}"] == 0.25
    assert found["windlass_fair_share_got_ratio{queue=fair,tenant=a}"] == 0.75
    assert found["windlass_fair_share_due_ratio{queue=fair,tenant=b}"] == 0.75
    assert found["windlass_fair_share_got_ratio{queue=fair,tenant=b}"] == 0.25
    assert found["windlass_fair_share_missing_ratio{queue=fair}"] == 0.5
    assert found["windlass_fair_tenants{queue=fair}"] == 2


def test_a_tenant_whose_tasks_are_held_back_misses_nothing(store: MemoryStore, access: Access) -> None:
    run_for(store, "a", 30)
    submit(store, *(a_task(queue="fair", tenant=tenant) for tenant in "ab"))
    assert scraped(store)["windlass_fair_share_missing_ratio{queue=fair}"] == 0.5

    limits.put(access, Limit(tenant="b", max_running=0), ANN)

    assert scraped(store)["windlass_fair_share_missing_ratio{queue=fair}"] == 0


def test_a_tenant_that_has_just_come_misses_nothing_once_it_gets_its_share(
    store: MemoryStore, access: Access, clock: ManualClock
) -> None:
    for _ in range(30):
        run_for(store, "a", 60)
        clock.advance(MINUTE)
    run_for(store, "b", 60)
    submit_one(store, queue="fair", tenant="b")

    [share] = tenants.get_shares(access, "b")
    assert share.hour is not None
    assert share.hour.missing > 0.4, "over the hour it lacks"
    assert scraped(store)["windlass_fair_share_missing_ratio{queue=fair}"] == 0


def test_the_number_of_series_of_tenants_is_bounded(
    store: MemoryStore, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fairness, "TENANTS_SHOWN", 3)
    for number in range(6):
        run_for(store, f"t{number}", 1 + number)

    shown = [name for name in scraped(store) if "due_ratio" in name]
    everybody = [name for name in scraped(store, tenants=True) if "due_ratio" in name]

    assert sorted(shown) == [f"windlass_fair_share_due_ratio{{queue=fair,tenant=t{n}}}" for n in (3, 4, 5)]
    assert len(everybody) == 6


def test_limits_show_what_runs_and_whether_they_are_full(store: MemoryStore, access: Access) -> None:
    submit(store, *(a_task(queue="bulk", tenant="a") for _ in range(5)), a_task(queue="mail", tenant="b"))
    limits.put(access, Limit(queue="bulk", max_running=2), ANN)
    limits.put(access, Limit(tenant="a", rate=Rate(100, MINUTE)), ANN)
    assert scraped(store)["windlass_queue_held_tasks{queue=bulk}"] == 0
    claim_all(store, queues=["bulk"])

    found = scraped(store)

    assert found["windlass_limit_running{limit=queue=bulk}"] == 2
    assert found["windlass_limit_max_running{limit=queue=bulk}"] == 2
    assert found["windlass_limit_full{limit=queue=bulk}"] == 1
    assert found["windlass_limit_full{limit=tenant=a}"] == 0
    assert "windlass_limit_max_running{limit=tenant=a}" not in found
    assert found["windlass_queue_held_tasks{queue=bulk}"] == 3
    assert found["windlass_queue_held_tasks{queue=mail}"] == 0


def test_the_number_of_limits_is_bounded_and_full_ones_come_first(
    store: MemoryStore, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fairness, "LIMITS_SHOWN", 2)
    for name, most in (("a", 1), ("b", 1), ("z", 0)):
        limits.put(access, Limit(key=name, max_running=most), ANN)

    shown = [name for name in scraped(store) if "limit_full" in name]

    assert sorted(shown) == ["windlass_limit_full{limit=key=a}", "windlass_limit_full{limit=key=z}"]


def test_paused_tenants_and_their_tasks_are_counted(store: MemoryStore, access: Access, clock: ManualClock) -> None:
    submit(store, *(a_task(queue="bulk", tenant=tenant) for tenant in "aab"))
    tenants.pause(access, "a", ANN, lasts="1h")

    found = scraped(store)
    clock.advance(HOUR)
    later = scraped(store)

    assert (found["windlass_tenants_paused"], found["windlass_queue_held_tasks{queue=bulk}"]) == (1, 2)
    assert (later["windlass_tenants_paused"], later["windlass_queue_held_tasks{queue=bulk}"]) == (0, 0)


def test_without_fair_queues_and_limits_neither_accounts_nor_leases_are_read(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("read for nothing")

    for read_method in ("accounts", "running", "buckets"):
        monkeypatch.setattr(store, read_method, refuse)
    submit_one(store)

    assert scraped(store)["windlass_up"] == 1
