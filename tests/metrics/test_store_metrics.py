from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, cast

import msgspec
import psycopg
import pytest

from tests.metrics.values import read
from tests.support.builders import NO_RETRY, RAISED, a_session, claim_one, report, submit_one
from windlass.autoscale.observe import NodeReport, PoolReport
from windlass.autoscale.settings import Settings
from windlass.autoscale.stored_state import POOL, PoolDecision, encode_document
from windlass.clock import ManualClock
from windlass.core.breaker import BreakerState
from windlass.core.ordering import Queue
from windlass.errors import StoreUnavailable
from windlass.metrics import store as module
from windlass.metrics.calls import StoreCalls
from windlass.metrics.exposition import render, store_metrics
from windlass.metrics.store import StoreMetrics
from windlass.operations import breakers, pools
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.stores.memory import MemoryStore
from windlass.stores.postgres import PostgresStore
from windlass.stores.protocol import Store


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> Iterator[MemoryStore]:
    store = MemoryStore(clock=clock)
    yield store
    store.close()


def scraped(store: Store, **options: Any) -> dict[str, float]:
    return read(render(StoreMetrics(store, **options)))


def a_node(store: Store, name: str = "n1", **pool: Any) -> None:
    session = a_session(store, name)
    known = {"queues": ("mail",), "max": 8, "override_max": 8, "settings": Settings(wait=2.0)}
    store.report(session, msgspec.json.encode(NodeReport(pools={"mail": PoolReport(**{**known, **pool})})).decode())


def decide(store: Store, **decision: Any) -> None:
    known = {"tick": 1_800_000_000, "queues": ("mail",), "settings": Settings(wait=2.0, late=0.02, max=8)}
    assert store.put_control(POOL, "mail", encode_document(PoolDecision(**{**known, **decision})), expect=0)


def test_tasks_are_counted_by_queue_and_state_over_all_tenants(store: Store) -> None:
    submit_one(store, queue="mail", tenant="a")
    submit_one(store, queue="mail", tenant="b")
    submit_one(store, queue="mail", delay=timedelta(hours=1))

    found = scraped(store)

    assert found["windlass_up"] == 1
    assert found["windlass_queue_tasks{queue=mail,state=runnable}"] == 2
    assert found["windlass_queue_tasks{queue=mail,state=scheduled}"] == 1
    assert not [name for name in found if "tenant=" in name]


def test_tenants_have_series_on_request(store: Store) -> None:
    submit_one(store, queue="mail", tenant="a")

    assert scraped(store, tenants=True)["windlass_queue_tenant_tasks{queue=mail,state=runnable,tenant=a}"] == 1


def test_the_oldest_wait_pauses_and_dead_letters_are_shown(store: Store, clock: ManualClock) -> None:
    submit_one(store, queue="mail", retry=NO_RETRY)
    report(store, claim_one(store, queue="mail"), RAISED)
    submit_one(store, queue="mail")
    store.configure(Queue(name="mail", paused=True))
    clock.advance(timedelta(seconds=90))

    found = scraped(store)

    assert found["windlass_queue_oldest_ready_seconds{queue=mail}"] == 90
    assert found["windlass_queue_paused{queue=mail}"] == 1
    assert found["windlass_dead_letters{queue=mail}"] == 1


def test_nodes_and_breakers_are_shown(store: Store, clock: ManualClock) -> None:
    a_session(store)
    store.close_session(a_session(store, "n2"))
    breakers.hold(Access(store, clock=clock), "pay", BreakerState.OPEN, author=Author("ops"), create=True)

    found = scraped(store)

    assert found["windlass_nodes{state=alive}"] == 1
    assert found["windlass_nodes{state=gone}"] == 1
    assert found["windlass_breaker_state{downstream=pay,state=open}"] == 1
    assert found["windlass_breaker_state{downstream=pay,state=closed}"] == 0


def test_the_size_and_the_target_of_a_pool_are_shown(store: Store) -> None:
    a_node(store, ready=2, starting=1, draining=1, asleep=1, running=2, threads=4)
    decide(store, target=5, needs=18.0, threads=4, alerts=("at_max",), reasons=("veto: 40 % failed",))

    found = scraped(store)

    for state, number in {"ready": 2, "starting": 1, "draining": 1, "asleep": 1}.items():
        assert found[f"windlass_pool_workers{{pool=mail,state={state}}}"] == number
    for name, value in {"target": 5, "busy": 2, "needs": 4.5, "min": 0, "max": 8, "veto_active": 1}.items():
        assert found[f"windlass_pool_{name}{{pool=mail}}"] == value, name
    assert found["windlass_pool_wait_goal_seconds{pool=mail}"] == 2
    assert found["windlass_pool_late_goal_ratio{pool=mail}"] == 0.02
    assert found["windlass_pool_alert{name=at_max,pool=mail}"] == 1
    assert found["windlass_pool_alert{name=flapping,pool=mail}"] == 0
    assert found["windlass_desired_slots{pool=mail}"] == 20


def test_overrides_are_shown(store: Store) -> None:
    a_node(store)
    decide(store, target=1)
    before = scraped(store)

    pools.set_size(Access(store), "mail", 3, author=Author("ops"))
    pools.pause(Access(store), "mail", author=Author("ops"))

    after = scraped(store)
    for name in ("windlass_pool_override_active{pool=mail}", "windlass_pool_paused{pool=mail}"):
        assert (before[name], after[name]) == (0, 1)


def test_the_counters_of_a_node_come_from_its_newest_session(store: Store, clock: ManualClock) -> None:
    a_node(store, "n1", started=5, late=1, deaths=0)
    clock.advance(timedelta(seconds=1))
    a_node(store, "n1", started=9, late=2, deaths=3)
    a_node(store, "n2", started=7)

    found = scraped(store)

    assert found["windlass_node_started_total{node=n1,pool=mail}"] == 9
    assert found["windlass_node_late_total{node=n1,pool=mail}"] == 2
    assert found["windlass_node_worker_deaths_total{node=n1,pool=mail}"] == 3
    assert found["windlass_node_started_total{node=n2,pool=mail}"] == 7


def test_queues_beyond_the_limit_of_a_snapshot_are_counted_too(store: Store) -> None:
    for number in range(1_001):
        submit_one(store, queue=f"q{number}")

    found = scraped(store)

    assert sum(name.startswith("windlass_queue_tasks{") for name in found) == 1_001
    assert sum(name.startswith("windlass_queue_oldest") for name in found) == 1_000


class Counting:
    """A store that counts its reads and may answer differently."""

    def __init__(self, store: Store, answer: Callable[[], None] = lambda: None) -> None:
        self.store, self.answer, self.asked = store, answer, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def counts(self) -> Any:
        self.asked += 1
        self.answer()
        return self.store.counts()


def test_an_unavailable_store_is_reported_as_down(store: Store) -> None:
    def away() -> None:
        raise StoreUnavailable("nobody there")

    assert scraped(cast("Store", Counting(store, away))) == {"windlass_up": 0}


def test_a_bug_in_a_reading_does_not_report_the_store_as_down(store: Store) -> None:
    def bug() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        scraped(cast("Store", Counting(store, bug)))


def test_a_hanging_store_is_read_once_and_with_a_time_limit(store: Store) -> None:
    free = threading.Event()
    hanging = Counting(store, lambda: cast("None", free.wait(60)))
    metrics = StoreMetrics(cast("Store", hanging), timeout=0.05)

    try:
        found = [read(render(metrics)) for _ in range(3)]
        metrics._fresh_until = 0.0  # pyright: ignore[reportPrivateUsage]
        found.append(read(render(metrics)))
    finally:
        free.set()

    assert found == [{"windlass_up": 0}] * 4
    assert hanging.asked == 1


def test_scrapes_within_two_seconds_share_one_reading(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting(store)
    metrics = StoreMetrics(cast("Store", counting))

    for now in (100.0, 101.9, 102.1):
        monkeypatch.setattr(module, "monotonic", lambda now=now: now)
        metrics.collect()

    assert counting.asked == 2


def test_the_metrics_of_a_measured_store_include_its_calls(store: Store) -> None:
    measured = StoreCalls().measure(store)
    measured.counts()

    found = read(store_metrics(measured))

    assert found["windlass_up"] == 1
    assert found["windlass_store_call_seconds_count{method=counts}"] == 1


def test_the_age_of_the_oldest_transaction_is_reported(postgres_url: str) -> None:
    store = PostgresStore(postgres_url, connections=2)
    try:
        assert scraped(store)["windlass_store_xmin_age_seconds"] < 0.2
        with psycopg.connect(postgres_url) as other:
            other.execute("SELECT pg_current_xact_id()")
            other.execute("SELECT pg_sleep(0.3)")

            assert scraped(store)["windlass_store_xmin_age_seconds"] >= 0.3
    finally:
        store.close()


def test_other_stores_have_no_horizon(store: Store) -> None:
    assert "windlass_store_xmin_age_seconds" not in scraped(store)
