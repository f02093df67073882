"""The autoscalers of one and two nodes on one memory store, stepped by hand without processes or threads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.builders import a_task, submit
from tests.unit.test_dispatcher import Recorder, a_dispatcher
from windlass.autoscale import pool_tick
from windlass.autoscale.shares import HOLD
from windlass.clock import ManualClock
from windlass.config import BudgetSettings, PoolSettings
from windlass.core.breaker import BreakerState
from windlass.core.settlement import COMPLETED
from windlass.core.stop_requests import KIND, NAME, StopRequest, encode_requests
from windlass.core.task import Claim, SessionId
from windlass.errors import StoreUnavailable
from windlass.events import ControllerFailed, Event, Events, PoolDecided, PoolResized, StoreCallFailed
from windlass.operations import breakers, pools
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.stores.memory import MemoryStore
from windlass.worker.autoscaler import Autoscaler
from windlass.worker.breakers import Breakers
from windlass.worker.claimer import Claimer
from windlass.worker.wire import Done, Hello
from windlass.worker.worker import WorkerState

MEGABYTE = 1 << 20
AUTOSCALED = PoolSettings(min=1, max=8)


class Store(MemoryStore):
    """A store that counts decisions and can be unavailable."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock=clock)
        self.decisions = 0
        self.refused = 0
        self.unavailable = False

    def look(self, *args: Any, **kwargs: Any) -> Any:
        if self.unavailable:
            raise StoreUnavailable("the store is unavailable")
        return super().look(*args, **kwargs)

    def put_control(self, *args: Any, **kwargs: Any) -> bool:
        written = super().put_control(*args, **kwargs)
        self.decisions, self.refused = self.decisions + written, self.refused + (not written)
        return written

    def wait_for_work(self, *_: Any) -> bool:
        return False


class Node:
    """The autoscaler of one node, with a dispatcher that forks no processes."""

    def __init__(self, cluster: Cluster, name: str, *settings: PoolSettings, budget: BudgetSettings) -> None:
        self.events: list[Event] = []
        events = Events(self.events.append)
        self.recorder = Recorder()
        self.recorder.held = 100 * MEGABYTE
        self.dispatcher = a_dispatcher(settings or (AUTOSCALED,), self.recorder, events)
        self.dispatcher.has_parent = True
        self.cluster = cluster
        self.keeper = SimpleNamespace(current=None, node=name, holds=lambda _: True)
        self.hub = SimpleNamespace(
            lock=threading.RLock(),
            dispatcher=self.dispatcher,
            memory=self.recorder.memory,
            freed=threading.Condition(),
            resume_ticks=lambda: None,
        )
        self.breakers = Breakers(cluster.store, events, name)
        self.autoscaler = Autoscaler(
            cluster.store, cast("Any", self.hub), cast("Any", self.keeper), self.breakers, events, budget, cluster.clock
        )
        self.autoscaler.wake.set()  # It never waits, because the test decides when the next tick is.
        self.open()

    def open(self) -> None:
        self.keeper.current = self.cluster.store.open_session(self.keeper.node)

    @property
    def session(self) -> SessionId:
        return self.keeper.current

    def claimer(self) -> Claimer:
        """Return a claimer for the first pool."""
        [pool, *_] = self.dispatcher.pools.values()
        hub, keeper, settler = (
            cast("Any", each) for each in (self.hub, self.keeper, SimpleNamespace(count_open=lambda _pool: 0))
        )
        claimer = Claimer(
            self.cluster.store, pool, hub, keeper, settler, self.breakers, Events(), frozenset(), self.cluster.clock
        )
        claimer.handlers = frozenset(["work"])
        return claimer

    def step(self) -> None:
        self.autoscaler.step()
        self.dispatcher.tick(self.cluster.seconds)
        for worker in list(self.dispatcher.workers.values()):
            if worker.state is WorkerState.STARTING:
                self.dispatcher.receive(worker, [Hello()], self.cluster.seconds)
            if worker.state is WorkerState.DRAINING and not worker.running:
                self.dispatcher.process_exited(worker, 0, self.cluster.seconds)

    def lease(self, number: int) -> list[Claim]:
        """Start this many tasks. Return their claims."""
        submit(self.cluster.store, *(a_task(priority=9) for _ in range(number)))
        claims = self.cluster.store.claim(self.session, ["default"], number)
        now = self.cluster.seconds
        self.dispatcher.assign(self.dispatcher.pools["default"], claims, now, now)
        return claims

    def work(self, pool: str = "default", most: int = 1_000) -> int:
        """Let every free worker run and complete a task. Return how many."""
        target = self.dispatcher.pools[pool]
        free = sum(worker.free for worker in target.workers.values() if worker.takes)
        claims = self.cluster.store.claim(self.session, target.settings.queues, min(free, most)) if free else []
        target.counters.claimed += len(claims)
        if claims:
            self.dispatcher.assign(target, claims, self.cluster.seconds, self.cluster.seconds)
        for worker in list(self.dispatcher.workers.values()):
            for ticket in list(worker.running):
                self.dispatcher.receive(worker, [Done(ticket, 1.0)], self.cluster.seconds)
        self.cluster.store.settle([(claim.lease, COMPLETED) for claim in claims])
        return len(claims)

    def size(self, pool: str = "default") -> int:
        return self.dispatcher.pools[pool].target

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


class Cluster:
    """A store, a clock and nodes."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = Store(self.clock)
        self.nodes: list[Node] = []

    @property
    def seconds(self) -> float:
        return self.clock.monotonic()

    def node(self, *settings: PoolSettings, budget: BudgetSettings | None = None) -> Node:
        name = f"node-{len(self.nodes)}"
        self.nodes.append(Node(self, name, *settings, budget=budget or BudgetSettings()))
        return self.nodes[-1]

    def tick(self, seconds: int = 1) -> None:
        for _ in range(seconds):
            self.clock.advance(timedelta(seconds=1))
            for node in self.nodes:
                if node.session is not None:
                    self.store.renew(node.session)
            for node in self.nodes:
                node.step()

    def backlog(self, number: int, queue: str = "default") -> None:
        submit(self.store, *(a_task(queue=queue) for _ in range(number)))


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.store.close()


def test_a_backlog_grows_the_pool_and_the_audit_log_has_the_reason(cluster: Cluster) -> None:
    node = cluster.node()
    cluster.tick(3)
    assert node.size() == 1

    cluster.backlog(500)
    cluster.tick(5)

    assert node.size() == 8
    assert len(node.dispatcher.workers) == 8
    [resized] = node.of(PoolResized)
    assert (resized.before, resized.after) == (1, 8)
    assert "500 runnable" in resized.why
    assert any("500 runnable" in entry.text for entry in pools.history(Access(cluster.store), "default").entries)
    assert [event.action for event in node.of(PoolDecided)].count("grew") == 1


def test_a_shrink_retires_idle_workers_and_lets_a_busy_one_finish(cluster: Cluster) -> None:
    node = cluster.node()
    cluster.tick(3)
    cluster.backlog(500)
    cluster.tick(5)
    node.lease(1)
    [busy] = [worker for worker in node.dispatcher.workers.values() if worker.running]
    tickets = list(busy.running)

    pools.pause(Access(cluster.store), "default", author=Author("ops"))
    cluster.tick(3)

    assert node.size() == 0
    assert list(node.dispatcher.workers.values()) == [busy], "all others have exited"
    assert (busy.state, list(busy.running), node.recorder.killed) == (WorkerState.DRAINING, tickets, [])


def test_it_shrinks_when_the_tasks_are_done(cluster: Cluster) -> None:
    node = cluster.node()
    cluster.tick(3)
    cluster.backlog(300)
    ran = 0
    while ran < 300:
        cluster.tick()
        ran += node.work()
    largest = node.size()

    cluster.tick(60)

    assert (largest, node.size()) == (8, 1)
    assert len(node.recorder.settled) == 300
    assert len(node.of(PoolResized)) <= 4, "in few steps"


def test_a_shrink_keeps_busy_workers(cluster: Cluster) -> None:
    node = cluster.node(PoolSettings(size=3))
    cluster.tick(2)
    [claim] = node.lease(1)
    [busy] = [worker for worker in node.dispatcher.workers.values() if worker.running]

    pools.set_size(Access(cluster.store), "default", 1, author=Author("ops"))
    cluster.tick(3)

    assert [worker for worker in node.dispatcher.workers.values() if worker.state.working] == [busy]
    assert claim.id.int not in node.recorder.settled


def test_two_nodes_share_one_target_and_the_shares_add_up(cluster: Cluster) -> None:
    first, second = cluster.node(PoolSettings(min=0, max=6)), cluster.node(PoolSettings(min=0, max=3))
    cluster.tick(2)

    for target in (1, 2, 5, 7, 9):
        pools.set_size(Access(cluster.store), "default", target, author=Author("ops"))
        cluster.tick(2)
        assert first.size() + second.size() == target, target
        assert abs(first.size() - 2 * second.size()) <= 2, "in proportion to their maximums"


def test_a_joining_node_takes_its_share_and_the_other_shrinks_after_a_hold(cluster: Cluster) -> None:
    first = cluster.node(PoolSettings(min=0, max=8))
    cluster.tick(2)
    pools.set_size(Access(cluster.store), "default", 8, author=Author("ops"), lasts="1h")
    cluster.tick(2)
    assert first.size() == 8

    second = cluster.node(PoolSettings(min=0, max=8))
    cluster.tick(3)
    assert (first.size(), second.size()) == (8, 4)
    cluster.tick(int(HOLD) + 1)

    assert (first.size(), second.size()) == (4, 4)
    assert len(first.of(PoolResized)) == 2, "to 8 and to 4, nothing in between"


def test_the_share_of_a_node_that_is_gone_is_taken_over(cluster: Cluster) -> None:
    first, second = cluster.node(PoolSettings(min=0, max=8)), cluster.node(PoolSettings(min=0, max=8))
    cluster.tick(2)
    pools.set_size(Access(cluster.store), "default", 8, author=Author("ops"), lasts="1h")
    cluster.tick(2)
    assert (first.size(), second.size()) == (4, 4)

    cluster.nodes.remove(second)  # It stops renewing, so its session expires.
    cluster.tick(18)

    assert first.size() == 8


def test_of_two_nodes_exactly_one_decides_each_tick(cluster: Cluster) -> None:
    cluster.node()
    cluster.node()
    cluster.backlog(2_000)
    before = cluster.store.decisions

    cluster.tick(20)

    assert cluster.store.decisions - before == 20
    assert cluster.store.refused == 0, "the second node looked after the first one had written"


def test_of_two_nodes_that_looked_at_the_same_time_one_decides_and_the_other_keeps_its_size(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = cluster.node(PoolSettings(min=0, max=8)), cluster.node(PoolSettings(min=0, max=8))
    cluster.tick(2)
    pools.set_size(Access(cluster.store), "default", 8, author=Author("ops"))
    cluster.clock.advance(timedelta(seconds=1))
    stale = cluster.store.look(["default"], ahead=timedelta(0))

    first.step()
    decided = cluster.store.decisions
    with monkeypatch.context() as patch:
        patch.setattr(cluster.store, "look", lambda *_args, **_kwargs: stale)
        second.step()
    sizes = (first.size(), second.size())
    second.step()

    assert (cluster.store.decisions, cluster.store.refused) == (decided, 1)
    assert sizes == (4, 0), "a decision that was not written has no effect"
    assert second.size() == 4, "it follows the decision of the other node"


def test_an_unavailable_store_leaves_the_size_unchanged(cluster: Cluster) -> None:
    node = cluster.node()
    cluster.tick(3)
    cluster.backlog(500)
    cluster.tick(5)

    cluster.store.unavailable = True
    cluster.tick(30)

    assert node.size() == 8
    assert {event.doing for event in node.of(StoreCallFailed)} == {"size the pools"}
    cluster.store.unavailable = False
    cluster.tick()
    assert node.size() == 8


def test_without_a_valid_session_the_size_is_unchanged(cluster: Cluster) -> None:
    node = cluster.node()
    cluster.tick(3)
    pools.set_size(Access(cluster.store), "default", 5, author=Author("ops"))
    cluster.tick(2)

    cluster.store.close_session(node.session)
    pools.set_size(Access(cluster.store), "default", 2, author=Author("ops"))
    node.step()
    lost = node.size()
    node.keeper.current = None
    node.step()

    assert (lost, node.size()) == (5, 5)
    node.open()
    cluster.tick(2)
    assert node.size() == 2


def test_a_failing_controller_keeps_the_size_is_reported_backs_off_and_recovers(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node = cluster.node()
    cluster.tick(3)
    pools.set_size(Access(cluster.store), "default", 3, author=Author("ops"))
    cluster.tick(2)
    calls: list[float] = []

    def breaks(*_: Any) -> None:
        calls.append(cluster.seconds)
        raise ZeroDivisionError("no load")

    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR, "windlass.autoscaler"):
        patch.setattr(pool_tick, "decide_tick", breaks)
        began = cluster.seconds
        cluster.tick(40)

    assert [round(call - began) for call in calls] == [1, 3, 7, 15, 31]
    assert node.size() == 3
    [failed, *_] = node.of(ControllerFailed)
    assert (failed.pool, failed.error, failed.again_in) == ("default", "ZeroDivisionError: no load", 2.0)
    assert '"runnable":0' in caplog.text, "its input is in the log"
    assert "ZeroDivisionError" in pools.get(Access(cluster.store), "default").degraded
    cluster.tick(40)
    assert pools.get(Access(cluster.store), "default").degraded == ""
    pools.set_size(Access(cluster.store), "default", 4, author=Author("ops"))
    cluster.tick(2)
    assert node.size() == 4


def test_a_decision_that_cannot_be_stored_degrades_the_controller_and_not_the_node(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = cluster.node()
    cluster.tick(3)
    monkeypatch.setattr(pool_tick, "format_change", lambda *_: "x" * 5_000)
    monkeypatch.setattr(pool_tick.Decision, "summarize", lambda *_: "x" * 5_000)

    pools.set_size(Access(cluster.store), "default", 5, author=Author("ops"))
    cluster.tick(2)

    assert node.size() == 1
    assert len(node.of(ControllerFailed)) == 1


def test_a_budget_of_workers_is_never_exceeded_and_the_higher_priority_is_served_first(cluster: Cluster) -> None:
    low = PoolSettings(name="low", queues=("low",), min=1, max=8)
    high = PoolSettings(name="high", queues=("high",), min=1, max=8, priority=5)
    node = cluster.node(low, high, budget=BudgetSettings(workers=6))
    cluster.tick(2)

    cluster.backlog(900, "low")
    cluster.tick(6)
    alone = node.size("low"), node.size("high")
    cluster.backlog(900, "high")
    cluster.tick(8)

    assert alone == (5, 1), "the minimum of the other pool is reserved"
    assert (node.size("low"), node.size("high")) == (1, 5)


def test_pools_of_one_priority_share_a_budget_evenly(cluster: Cluster) -> None:
    one, two = (PoolSettings(name=name, queues=(name,), min=1, max=8) for name in ("one", "two"))
    node = cluster.node(one, two, budget=BudgetSettings(workers=6))
    cluster.tick(2)

    cluster.backlog(900, "one")
    cluster.tick(6)
    cluster.backlog(900, "two")
    cluster.tick(8)

    assert (node.size("one"), node.size("two")) == (3, 3)


def test_a_memory_budget_limits_workers_by_their_average_memory(cluster: Cluster) -> None:
    node = cluster.node(budget=BudgetSettings(memory=450 * MEGABYTE))
    cluster.tick(2)

    cluster.backlog(900)
    cluster.tick(6)
    roomy = node.size()
    node.recorder.held = 200 * MEGABYTE
    cluster.tick(3)

    assert (roomy, node.size()) == (4, 2)


def test_an_override_does_not_exceed_the_budget(cluster: Cluster) -> None:
    node = cluster.node(budget=BudgetSettings(workers=3))
    cluster.tick(2)

    pools.set_size(Access(cluster.store), "default", 8, author=Author("ops"))
    cluster.tick(3)

    assert node.size() == 3


def test_a_draining_node_decides_nothing_and_others_take_over_its_share_at_once(cluster: Cluster) -> None:
    first, second = (cluster.node(PoolSettings(min=0, max=8)) for _ in range(2))
    cluster.tick(2)
    pools.set_size(Access(cluster.store), "default", 8, author=Author("ops"))
    cluster.tick(2)
    first.lease(1)  # It runs for long, which keeps the session open.
    assert (first.size(), second.size()) == (4, 4)

    first.dispatcher.drain(cluster.seconds)
    cluster.backlog(100)
    cluster.tick(3)

    assert (first.size(), second.size()) == (0, 8)
    view = pools.get(Access(cluster.store), "default")
    assert view.decided_by == "node-1"
    assert (view.draining, view.max) == (1, 8)


def test_a_draining_node_is_not_resized(cluster: Cluster) -> None:
    node = cluster.node()
    cluster.tick(3)
    cluster.backlog(500)

    node.dispatcher.drain(cluster.seconds)
    cluster.tick(5)

    assert node.size() == 0
    assert node.dispatcher.workers == {}


def test_claimed_tasks_are_kept_when_the_claim_of_a_probe_fails(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = cluster.node(PoolSettings(size=3))
    cluster.tick(2)
    cluster.backlog(2)
    claim, breakers = cluster.store.claim, node.breakers
    breakers.shut, breakers.is_known = ("bank",), True
    monkeypatch.setattr(breakers, "begin_probes", lambda: {"bank": 1})

    def fails(*args: Any, only: str | None = None, **kwargs: Any) -> Any:
        if only is not None:
            raise StoreUnavailable("the store is unavailable")
        return claim(*args, **kwargs)

    monkeypatch.setattr(cluster.store, "claim", fails)

    node.claimer().step()

    assert node.dispatcher.held == 2


def test_nothing_is_claimed_before_the_breakers_are_known(cluster: Cluster) -> None:
    breakers.hold(
        Access(cluster.store, clock=cluster.clock), "bank", BreakerState.OPEN, author=Author("ops"), create=True
    )
    node = cluster.node(PoolSettings(size=3))
    claimer = node.claimer()
    node.dispatcher.tick(cluster.seconds)
    for worker in node.recorder.forked:
        node.dispatcher.receive(worker, [Hello()], cluster.seconds)
    submit(cluster.store, a_task(downstream="bank"), a_task())

    claimer.step()
    early = node.dispatcher.held
    cluster.tick()
    claimer.step()

    assert early == 0
    assert node.dispatcher.held == 1, "the task without the downstream"


def test_claims_continue_if_the_breakers_cannot_be_read(cluster: Cluster) -> None:
    node = cluster.node(PoolSettings(size=3))
    claimer = node.claimer()
    cluster.store.unavailable = True
    cluster.tick()
    cluster.backlog(2)

    claimer.step()

    assert node.dispatcher.held == 2


def test_an_override_ends_by_itself(cluster: Cluster) -> None:
    node = cluster.node()
    cluster.tick(3)

    pools.set_size(Access(cluster.store), "default", 6, author=Author("ops"), lasts="5s")
    cluster.tick(3)
    pinned = node.size()
    cluster.tick(5)

    assert (pinned, node.size()) == (6, 1)


def test_a_pool_with_a_minimum_of_0_starts_for_the_first_task_and_stops_after_an_idle_time(cluster: Cluster) -> None:
    node = cluster.node(PoolSettings(min=0, max=8))
    cluster.tick(5)
    assert node.size() == 0

    cluster.backlog(1)
    cluster.tick(3)
    assert node.size() == 1
    assert node.work() == 1
    cluster.tick(290)
    assert node.size() == 1, "five minutes have not passed"
    cluster.tick(30)

    assert node.size() == 0


def test_an_idle_pool_writes_almost_nothing(cluster: Cluster) -> None:
    cluster.node()
    cluster.tick(100)
    before = cluster.store.decisions

    cluster.tick(120)

    assert cluster.store.decisions - before <= 3


def test_changed_settings_are_used_at_the_next_tick(cluster: Cluster) -> None:
    node = cluster.node()
    cluster.tick(3)
    cluster.backlog(900)
    cluster.tick(5)

    node.autoscaler.retune({"default": PoolSettings(min=1, max=3)}, BudgetSettings())
    cluster.tick(2)

    assert node.size() == 3
    assert pools.get(Access(cluster.store), "default").max == 3


def test_a_node_gets_the_requests_for_its_session_also_while_it_drains(cluster: Cluster) -> None:
    node, other = cluster.node(), cluster.node()
    got: list[list[StopRequest]] = []
    node.autoscaler.on_requests = got.append
    cluster.tick()
    mine = StopRequest(session=str(node.session), worker=1, by="ada", at=1)
    theirs = StopRequest(session=str(other.session), worker=1, by="ada", at=1)
    cluster.tick()
    assert got == [], "nothing was asked"

    cluster.store.put_control(KIND, NAME, encode_requests([mine, theirs]), expect=0)
    cluster.tick()
    node.dispatcher.drain(cluster.seconds)
    cluster.tick()
    node.open()
    cluster.tick()

    assert got == [[mine], [mine]], "the next session of the node gets none of them"
