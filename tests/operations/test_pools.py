"""Pools as people see them, from what a memory store knows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.support.builders import a_session, a_task, claim_all, submit
from windlass.autoscale.controller import ControllerState
from windlass.autoscale.observe import NodeReport, PoolReport
from windlass.autoscale.settings import Settings
from windlass.autoscale.stored_state import PoolDecision, encode_document
from windlass.clock import ManualClock
from windlass.core.ordering import Queue
from windlass.core.task import SessionId
from windlass.errors import UnknownPool
from windlass.operations import pools
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.stores.memory import MemoryStore


def report_of(**changes: Any) -> PoolReport:
    """What a node says of a pool `mail` that sizes itself."""
    return PoolReport(**{"queues": ("mail",), "min": 1, "max": 8, "override_max": 8, **changes})


def a_store(clock: ManualClock, **reports: PoolReport) -> MemoryStore:
    """A store with one node that has these pools."""
    store = MemoryStore(clock=clock)
    a_node(store, **reports)
    return store


def a_node(store: MemoryStore, degraded: str = "", **reports: PoolReport) -> SessionId:
    session = a_session(store)
    store.report(session, msgspec.json.encode(NodeReport(pools=reports, degraded=degraded)).decode())
    return session


def decide(store: MemoryStore, clock: ManualClock, **fields: Any) -> None:
    """What some node has decided, now."""
    known = store.controls("pool")
    decision = PoolDecision(**{"tick": clock.now() // 1_000_000, "queues": ("mail",), **fields})
    assert store.put_control("pool", "mail", encode_document(decision), expect=known[0].version if known else 0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_a_view_sums_the_reports_of_all_nodes(clock: ManualClock) -> None:
    store = a_store(clock, mail=report_of(target=3, ready=2, starting=1, running=2))
    a_node(store, mail=report_of(target=2, ready=1, draining=2, asleep=1, running=1, max=4))
    decide(store, clock, target=5, slots=5, sentence="▲ 4→5", needs=4.6, by="node-1")
    submit(store, *(a_task(queue="mail") for _ in range(7)))
    clock.advance(timedelta(seconds=2))

    [view] = pools.get_all(Access(store))

    assert view == pools.get(Access(store), "mail")
    assert (view.name, view.target, view.live) == ("mail", 5, 6)
    assert (view.ready, view.starting, view.draining, view.asleep, view.running) == (3, 1, 2, 1, 3)
    assert (view.min, view.max, view.wait) == (2, 12, 5.0)
    assert (view.runnable, view.oldest, view.needs, view.sentence) == (7, 2.0, 4.6, "▲ 4→5")
    assert sorted(part.target for part in view.nodes) == [2, 3]
    assert (view.degraded, view.alerts) == ("", ())


def test_a_failing_or_stalled_controller_is_shown(clock: ManualClock) -> None:
    store = a_store(clock)
    a_node(store, degraded="mail: ZeroDivisionError", mail=report_of())
    decide(store, clock, target=1)
    clock.advance(timedelta(seconds=6))

    view = pools.get(Access(store), "mail")

    assert view.degraded == "mail: ZeroDivisionError"
    assert view.alerts == ("autoscaler_stalled",)


def test_idle_and_fixed_pools_are_not_stalled(clock: ManualClock) -> None:
    store = a_store(clock, mail=report_of(), post=report_of(fixed=True))
    decide(store, clock, target=1, idle=True)
    clock.advance(timedelta(seconds=10))

    assert [view.alerts for view in pools.get_all(Access(store))] == [(), ()]


def test_an_unknown_pool_is_refused_with_the_known_names(clock: ManualClock) -> None:
    store = a_store(clock, mail=report_of())

    for ask in (pools.get, pools.history, pools.desired):
        with pytest.raises(UnknownPool, match=r"post.*mail"):
            ask(Access(store), "post")


def test_a_pool_stays_known_after_its_last_node_ends(clock: ManualClock) -> None:
    store = a_store(clock)
    session = a_node(store, mail=report_of(target=2))
    decide(store, clock, target=2)

    store.close_session(session)

    view = pools.get(Access(store), "mail")
    assert (view.live, view.target, view.nodes) == (0, 2, ())


def test_history_is_paged_newest_first(clock: ManualClock) -> None:
    store = a_store(clock, mail=report_of())
    for size in (3, 4, 5):
        pools.set_size(Access(store), "mail", size, author=Author("ann"))

    first = pools.history(Access(store), "mail", limit=2).entries
    rest = pools.history(Access(store), "mail", limit=2, before=first[-1].number).entries

    assert [entry.text.split()[2] for entry in (*first, *rest)] == ["5", "4", "3"]


def test_desired_is_the_decision_while_nodes_are_alive(clock: ManualClock) -> None:
    store = a_store(clock, mail=report_of(target=3))
    decide(store, clock, target=3, settings=Settings(max=8))

    assert pools.desired(Access(store), "mail").workers == 3


def test_desired_before_the_first_decision_is_the_nodes_target(clock: ManualClock) -> None:
    store = a_store(clock, mail=report_of(target=3))

    assert pools.desired(Access(store), "mail").workers == 3


def test_desired_is_never_below_the_busy_workers(clock: ManualClock) -> None:
    store = a_store(clock)
    session = a_node(store, mail=report_of(target=1, running=6))
    submit(store, *(a_task(queue="mail") for _ in range(6)))
    claim_all(store, session, ["mail"])
    decide(store, clock, target=1, settings=Settings(max=8))

    assert pools.desired(Access(store), "mail").workers == 6


def test_desired_is_never_below_the_running_tasks_even_above_the_maximum(clock: ManualClock) -> None:
    """An order for twelve has just ended: twelve tasks run, though the pool is to have eight by itself."""
    store = a_store(clock)
    session = a_node(store, mail=report_of(target=8, running=12))
    submit(store, *(a_task(queue="mail") for _ in range(12)))
    claim_all(store, session, ["mail"])
    decide(store, clock, target=8, settings=Settings(max=8))

    assert pools.desired(Access(store), "mail").workers == 12


def test_desired_exceeds_the_nodes_if_only_they_limit_the_pool(clock: ManualClock) -> None:
    store = a_store(clock, mail=report_of(target=8, threads=2))
    bound = {"target": 8, "slots": 16, "threads": 2, "needs": 41.0, "alerts": ("at_max",)}

    decide(store, clock, settings=Settings(max=16), **bound)
    assert pools.desired(Access(store), "mail").workers == 21

    # A downstream that bears no more, an order for less.
    decide(store, clock, settings=Settings(max=10), **{**bound, "target": 5, "slots": 10})
    assert pools.desired(Access(store), "mail").workers == 5
    decide(store, clock, settings=Settings(max=16), **{**bound, "target": 3, "slots": 6})
    assert pools.desired(Access(store), "mail").workers == 3


def test_desired_counts_workers_not_tasks(clock: ManualClock) -> None:
    store = a_store(clock)
    session = a_node(store, mail=report_of(target=1, threads=4, running=6))
    submit(store, *(a_task(queue="mail") for _ in range(6)))
    claim_all(store, session, ["mail"])
    decide(store, clock, target=1, threads=4, settings=Settings(max=32))

    assert pools.desired(Access(store), "mail").workers == 2


def test_desired_ignores_tasks_that_are_only_read_ahead(clock: ManualClock) -> None:
    """Short tasks are leased some hundreds at a time; they are no reason for hundreds of workers."""
    store = a_store(clock)
    session = a_node(store, mail=report_of(target=2, running=2))
    submit(store, *(a_task(queue="mail") for _ in range(400)))
    claim_all(store, session, ["mail"])
    decide(store, clock, target=2, settings=Settings(max=8))

    assert pools.desired(Access(store), "mail").workers <= 8


def test_desired_without_nodes_follows_the_waiting_tasks(clock: ManualClock) -> None:
    store = a_store(clock)
    decide(
        store,
        clock,
        target=0,
        settings=Settings(min=0, max=8),
        state=ControllerState(target=0, at=clock.now() / 1e6),
    )
    clock.advance(timedelta(hours=1))
    assert pools.desired(Access(store), "mail").workers == 0

    submit(store, *(a_task(queue="mail") for _ in range(300)))
    clock.advance(timedelta(seconds=10))

    assert 1 <= pools.desired(Access(store), "mail").workers <= 8


def test_desired_without_nodes_includes_tasks_due_soon(clock: ManualClock) -> None:
    store = a_store(clock)
    decide(
        store,
        clock,
        target=0,
        settings=Settings(min=0, max=8),
        state=ControllerState(target=0, at=clock.now() / 1e6),
    )
    clock.advance(timedelta(hours=1))

    submit(store, a_task(queue="mail", delay=timedelta(seconds=1)))

    assert pools.desired(Access(store), "mail").workers == 1


def test_desired_without_nodes_obeys_overrides(clock: ManualClock) -> None:
    store = a_store(clock)
    decide(
        store,
        clock,
        target=0,
        settings=Settings(min=0, max=8),
        state=ControllerState(target=0, at=clock.now() / 1e6),
    )
    submit(store, *(a_task(queue="mail") for _ in range(300)))
    clock.advance(timedelta(seconds=10))

    pools.set_size(Access(store), "mail", 3, author=Author("ann"))
    pinned = pools.desired(Access(store), "mail").workers
    pools.pause(Access(store), "mail", author=Author("ann"))

    assert (pinned, pools.desired(Access(store), "mail").workers) == (3, 0)


def test_desired_without_nodes_covers_leased_tasks(clock: ManualClock) -> None:
    """The nodes have just been lost, or do not report: somebody may still run their tasks."""
    store = a_store(clock)
    decide(store, clock, target=2, threads=2, settings=Settings(min=0, max=8))
    submit(store, *(a_task(queue="mail") for _ in range(7)))
    claim_all(store, queues=["mail"])

    pools.pause(Access(store), "mail", author=Author("ann"))

    assert pools.desired(Access(store), "mail").workers == 4


def test_tasks_in_a_paused_queue_need_no_workers(clock: ManualClock) -> None:
    store = a_store(clock)
    decide(
        store,
        clock,
        target=0,
        settings=Settings(min=0, max=8),
        state=ControllerState(target=0, at=clock.now() / 1e6),
    )
    store.configure(Queue(name="mail", paused=True))
    submit(store, *(a_task(queue="mail") for _ in range(300)))
    clock.advance(timedelta(seconds=10))

    assert pools.desired(Access(store), "mail").workers == 0
