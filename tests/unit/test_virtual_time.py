"""The threads of a node, stepped by hand on a manual clock: minutes pass without any real waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.builders import a_task, submit
from tests.unit.test_dispatcher import Recorder
from windlass.clock import ManualClock
from windlass.config import BudgetSettings, PoolSettings
from windlass.core.lifecycle import State
from windlass.core.task import Claim, Lease, SessionId
from windlass.errors import StoreUnavailable
from windlass.events import Event, Events, PoolResized, SessionEnded
from windlass.stores.memory import MemoryStore
from windlass.stores.postgres.notify import QUIET
from windlass.stores.protocol import SESSION_TTL, Filter
from windlass.worker.autoscaler import TICK_SECONDS, Autoscaler
from windlass.worker.breakers import Breakers
from windlass.worker.claimer import FAST_POLL, NO_ROOM_SECONDS, POLL_FAST_SECONDS, Claimer
from windlass.worker.dispatcher import Dispatcher
from windlass.worker.session_keeper import MARGIN_SECONDS, RENEW_SECONDS, SessionKeeper
from windlass.worker.settler import GAP_STEP_SECONDS, MAX_GAP_SECONDS, Settler
from windlass.worker.wire import Done, Hello

PRECISE = 1e-5
VALID_SECONDS = SESSION_TTL.total_seconds() - MARGIN_SECONDS


class SimulatedStore(MemoryStore):
    """A memory store that can be unavailable, and whose waits pass on the manual clock."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock=clock)
        self.clock = clock
        self.available = True
        self.claimed_at: list[float] = []
        self.settled_at: list[float] = []
        self.waits: list[float] = []
        self.wakeups = 0
        """How many of the next waits end at once with a wake-up."""

    def claim(self, *args: Any, **kwargs: Any) -> list[Claim]:
        self.claimed_at.append(self.clock.monotonic())
        self.check()
        return super().claim(*args, **kwargs)

    def renew(self, session: SessionId, **kwargs: Any) -> list[Lease]:
        self.check()
        return super().renew(session, **kwargs)

    def settle(self, reports: Sequence[Any]) -> Any:
        self.settled_at.append(self.clock.monotonic())
        self.check()
        return super().settle(reports)

    def wait_for_work(self, queues: Sequence[str], timeout: timedelta) -> bool:
        self.waits.append(timeout.total_seconds())
        if self.wakeups:
            self.wakeups -= 1
            return True
        self.clock.advance(timeout)
        return False

    def check(self) -> None:
        if not self.available:
            raise StoreUnavailable("no connection")


class SimulatedNode:
    """The claimer, settler, session keeper, dispatcher and autoscaler of one node. Its workers only record."""

    def __init__(self, **pool: Any) -> None:
        self.clock = ManualClock()
        self.store = SimulatedStore(self.clock)
        self.events: list[Event] = []
        events = Events(self.events.append)
        self.workers = Recorder()
        self.settler = Settler(self.store, events, self.clock)
        self.keeper = SessionKeeper(self.store, "node", lambda: "{}", events, self.clock)
        self.breakers = Breakers(self.store, events, "node")
        self.dispatcher = Dispatcher(
            [PoolSettings(**{"size": 1, **pool})],
            self.workers,
            self.settler,
            self.breakers,
            self.keeper,
            self.workers,
            events,
        )
        self.dispatcher.has_parent = True
        lock = threading.RLock()
        hub = cast(
            "Any",
            SimpleNamespace(
                lock=lock,
                freed=threading.Condition(lock),
                dispatcher=self.dispatcher,
                memory=self.workers.memory,
                resume_ticks=lambda: None,
            ),
        )
        self.keeper.on_lost = self.dispatcher.drop_session
        self.keeper.in_use = self.dispatcher.sessions
        self.keeper.mark, self.keeper.written = self.settler.mark, self.settler.is_written
        self.autoscaler = Autoscaler(self.store, hub, self.keeper, self.breakers, events, BudgetSettings(), self.clock)
        [self.pool] = self.dispatcher.pools.values()
        self.claimer = Claimer(
            self.store, self.pool, hub, self.keeper, self.settler, self.breakers, events, frozenset(), self.clock
        )
        self.claimer.handlers = frozenset({"work"})

    @property
    def now(self) -> float:
        return self.clock.monotonic()

    def elapse(self, step: Any) -> float:
        """Run one step. Return how much virtual time it took."""
        before = self.now
        step()
        return self.now - before

    def start(self) -> SessionId:
        """Open a session, make the first tick and start the workers."""
        self.keeper.wake.set()
        self.keeper.step()
        self.autoscaler.wake.set()
        self.autoscaler.step()
        self.autoscaler.wake.clear()
        self.tick()
        assert self.keeper.current is not None
        return self.keeper.current

    def tick(self) -> None:
        """Do what the hub does several times a second."""
        self.keeper.drop_overdue(self.now)
        self.dispatcher.tick(self.now)
        for worker in self.workers.forked:
            if worker.state == "starting":
                self.dispatcher.receive(worker, [Hello()], self.now)

    def finish_running(self, seconds: float = 0.001) -> int:
        """Let every worker finish its tasks. Return how many."""
        tickets = [(worker, ticket) for worker in self.dispatcher.workers.values() for ticket in worker.running]
        for worker, ticket in tickets:
            self.dispatcher.receive(worker, [Done(ticket, seconds)], self.now)
        return len(tickets)

    def run(self, seconds: float) -> None:
        """Step all threads, each when it is due, until this much time has passed."""
        until, renew_at = self.now + seconds, self.now
        while self.now < until:
            self.tick()
            if self.now >= renew_at:
                renew_at = self.now + RENEW_SECONDS
                self.keeper.wake.set()
                self.keeper.step()
            self.claimer.step()
            self.finish_running(seconds=1.0)
            while self.settler.open:
                self.settler.step()
            self.autoscaler.step()  # Waits for the next full second.

    def count(self, state: State) -> int:
        return sum(task.state is state for task in self.store.find(Filter(), limit=1_000).tasks)


@pytest.fixture(autouse=True)
def no_real_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if a step waits in real time."""

    def refuse_sleep(seconds: float) -> None:
        pytest.fail(f"slept for {seconds} s in real time")

    def refuse_wait(_condition: threading.Condition, timeout: float | None = None) -> bool:
        assert timeout == 0, f"waited for {timeout} s in real time"
        return False

    monkeypatch.setattr(time, "sleep", refuse_sleep)
    monkeypatch.setattr(threading.Condition, "wait", refuse_wait)


def test_a_session_is_dropped_exactly_when_its_validity_ends() -> None:
    node = SimulatedNode()
    session = node.start()
    opened_at = node.now
    submit(node.store, a_task())
    node.claimer.step()
    node.store.available = False

    while node.now < opened_at + VALID_SECONDS - RENEW_SECONDS:
        node.keeper.step()
        node.tick()
    node.clock.sleep(opened_at + VALID_SECONDS - node.now)
    node.tick()
    held = node.keeper.holds(session), list(node.workers.killed)
    node.clock.advance(timedelta(milliseconds=1))
    node.tick()

    assert held == (True, [])
    assert not node.keeper.holds(session)
    assert node.workers.killed == [1], "its worker must stop before the store gives the task to another node"
    assert [event.why for event in node.events if isinstance(event, SessionEnded)] == [
        "it could not be renewed in time"
    ]
    assert (node.workers.settled, node.settler.open) == ({}, 0), "nothing is settled under a lost lease"


def test_the_store_keeps_a_session_for_the_margin_after_the_node_has_dropped_it() -> None:
    node = SimulatedNode()
    node.start()
    opened_at = node.now
    submit(node.store, a_task())
    node.claimer.step()
    claimed_by = opened_at + VALID_SECONDS

    node.clock.sleep(claimed_by - node.now + MARGIN_SECONDS - 0.1)
    node.store.sweep()
    before = node.count(State.LEASED)
    node.clock.sleep(0.2)
    node.store.sweep()

    assert (before, node.count(State.LEASED)) == (1, 0)


def test_a_renewal_extends_the_validity_from_the_moment_it_was_sent() -> None:
    node = SimulatedNode()
    session = node.start()
    node.clock.sleep(2)
    sent = node.now

    node.keeper.step()

    assert node.keeper.valid_until(session) == pytest.approx(sent + VALID_SECONDS, abs=PRECISE)


def test_the_keeper_renews_every_few_seconds_and_looks_more_often_without_a_session() -> None:
    node = SimulatedNode()
    session = node.start()

    with_session = node.elapse(node.keeper.step)
    node.keeper.wanted = False
    node.keeper.mark_lost(session, "by this test")
    node.keeper.wake.clear()
    without = node.elapse(node.keeper.step)

    assert (with_session, without) == pytest.approx((RENEW_SECONDS, 0.5), abs=PRECISE)


def test_claims_are_spaced_while_batches_are_large() -> None:
    node = SimulatedNode(threads=4)
    node.start()
    submit(node.store, *(a_task() for _ in range(100)))

    for _ in range(8):
        node.claimer.step()
        node.finish_running(seconds=10.0)
    gaps = [later - earlier for earlier, later in pairwise(node.store.claimed_at)]

    assert node.store.waits == [], "every claim brought as much as it asked for"
    assert gaps == pytest.approx([min(MAX_GAP_SECONDS, n * GAP_STEP_SECONDS) for n in range(1, 8)], abs=PRECISE)


def test_a_delayed_claim_is_for_the_room_when_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    node = SimulatedNode(threads=4)
    node.start()
    submit(node.store, *(a_task() for _ in range(100)))
    for _ in range(8):
        node.claimer.step()
        node.finish_running(seconds=10.0)
    node.claimer.step()
    [worker] = node.dispatcher.workers.values()
    node.dispatcher.complete(worker, [(next(iter(worker.running)), 10.0)], node.now)

    def finish_meanwhile(seconds: float) -> None:
        node.finish_running(seconds=10.0)
        node.clock.advance(timedelta(seconds=seconds))

    monkeypatch.setattr(node.clock, "sleep", finish_meanwhile)
    node.claimer.step()

    assert len(worker.running) == 4, "three more became free during the delay"


def test_the_claimer_polls_fast_after_work_and_slowly_without() -> None:
    node = SimulatedNode()
    node.start()
    submit(node.store, a_task())
    node.claimer.step()
    node.finish_running()
    polled_at = node.now

    while node.now <= polled_at + POLL_FAST_SECONDS + 3:
        node.claimer.step()
    fast = [wait for wait in node.store.waits if wait == FAST_POLL]
    slow = [wait for wait in node.store.waits if wait > FAST_POLL]

    assert len(fast) == pytest.approx(POLL_FAST_SECONDS / FAST_POLL, abs=1)
    assert node.store.waits == fast + slow
    assert all(0.5 <= wait <= 1.0 for wait in slow)


def test_the_claimer_polls_fast_after_a_wakeup_for_a_task_that_another_node_took() -> None:
    """The next wake-up may be suppressed because this one was just sent."""
    node = SimulatedNode()
    node.start()
    node.store.wakeups = 1

    for _ in range(3):
        node.claimer.step()

    assert node.store.waits[1:] == [FAST_POLL, FAST_POLL]


def test_the_claimer_polls_fast_for_longer_than_wakeups_are_suppressed() -> None:
    assert POLL_FAST_SECONDS >= QUIET + FAST_POLL


def test_a_claimer_without_room_or_without_its_store_tries_again_after_a_short_wait() -> None:
    node = SimulatedNode()
    node.start()
    submit(node.store, a_task(), a_task())
    node.claimer.step()

    no_room = node.elapse(node.claimer.step)
    claims = len(node.store.claimed_at)
    node.finish_running()
    node.store.available = False
    no_store = node.elapse(node.claimer.step)

    assert claims == 1, "a full pool claims nothing"
    assert (no_room, no_store) == pytest.approx((NO_ROOM_SECONDS, NO_ROOM_SECONDS), abs=PRECISE)


def test_the_settler_backs_off_while_the_store_is_unavailable() -> None:
    node = SimulatedNode()
    node.start()
    submit(node.store, a_task())
    node.claimer.step()
    node.finish_running()
    node.store.available = False

    for _ in range(10):
        node.settler.step()
    tries = node.store.settled_at
    node.store.available = True
    node.settler.step()

    gaps = [later - earlier for earlier, later in pairwise(tries)]
    limits = [min(2.0, 0.1 * 2**n) for n in range(len(gaps))]
    assert all(limit / 2 - PRECISE <= gap <= limit + PRECISE for gap, limit in zip(gaps, limits, strict=True))
    assert node.count(State.COMPLETED) == 1


def test_the_autoscaler_ticks_every_second() -> None:
    node = SimulatedNode()
    node.start()

    node.autoscaler.step()
    ticks = [node.elapse(node.autoscaler.step) for _ in range(5)]

    assert ticks == pytest.approx([TICK_SECONDS] * 5, abs=PRECISE)


def test_a_whole_node_runs_in_virtual_time() -> None:
    node = SimulatedNode(size=None, min=1, max=4)
    session = node.start()
    started = node.now
    submit(node.store, *(a_task() for _ in range(300)))

    node.run(200)
    completed = node.count(State.COMPLETED)
    node.run(700)

    assert completed == 300
    assert node.now - started == pytest.approx(900, abs=3)
    assert node.keeper.current == session, "it was renewed all the time"
    sizes = [event.after for event in node.events if isinstance(event, PoolResized)]
    assert (max(sizes), sizes[-1]) == (4, 1), "the pool grows with the load and shrinks afterward"
