from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.values import OOPS, a_stored_task, an_id
from windlass.config import PoolSettings
from windlass.core.breaker import DEFAULTS
from windlass.core.lifecycle import State
from windlass.core.manifest import HandlerInfo
from windlass.core.settlement import (
    AT_MOST_ONCE,
    Crashed,
    Outcome,
    Raised,
    Released,
    Returned,
    Settlement,
    Stopped,
    settle,
)
from windlass.core.task import Claim, Lease, Rules, SessionId, claim_of
from windlass.events import Events, TaskBounced
from windlass.stores.memory import MemoryStore
from windlass.worker.breakers import Breakers
from windlass.worker.call_queue import CallScope
from windlass.worker.dispatcher import (
    EXIT_SECONDS,
    REAP_SECONDS,
    RECALL_AFTER_SECONDS,
    RELIEVE_AFTER_SECONDS,
    Dispatcher,
)
from windlass.worker.tickets import EXIT_TICKET
from windlass.worker.wire import Call, Done, Heartbeat, Hello, Interrupt, Output, RequestStop, ToWorker, Valid
from windlass.worker.worker import INTERRUPT_AFTER, KILL_AFTER, RunningAttempt, Worker, WorkerState

SESSION = SessionId(an_id(999))


class Recorder:
    """Stands in for the collaborators of a dispatcher, and records what they get."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, ToWorker]] = []
        self.runs: list[tuple[int, list[RunningAttempt]]] = []
        self.validities: list[float] = []
        self.forked: list[Worker] = []
        self.killed: list[int] = []
        self.settled: dict[int, Outcome] = {}
        self.settlements: list[Settlement] = []
        self.beats: list[float | None] = []
        self.outputs: list[int] = []
        self.logs: dict[int, str | None] = {}
        self.held = 0
        self.until = float("inf")
        self.offered: dict[int, list[int]] = {}
        self.hanging: set[int] = set()
        self.strays_ended: list[int] = []

    def send(self, worker: Worker, message: ToWorker) -> None:
        self.sent.append((worker.number, message))

    def run(self, worker: Worker, session: SessionId, until: float, attempts: Sequence[RunningAttempt]) -> None:
        self.validities.append(until)
        self.runs.append((worker.number, list(attempts)))

    def offer(self, worker: Worker, tickets: list[int]) -> bool:
        self.offered.setdefault(worker.number, []).extend(tickets)
        return True

    def take_back(self, worker: Worker) -> list[int]:
        """Return the untaken tickets. A worker takes what it has a free slot for, unless it hangs."""
        offered = self.offered.pop(worker.number, [])
        waiting = [ticket for ticket in offered if (one := worker.running.get(ticket)) and one.started_at is None]
        return offered if worker.number in self.hanging else waiting

    def fork(self, worker: Worker) -> None:
        self.forked.append(worker)

    def kill(self, worker: Worker) -> None:
        self.killed.append(worker.number)

    def end_stray(self, pid: int) -> None:
        self.strays_ended.append(pid)

    def memory(self, worker: Worker) -> int:
        return self.held

    def valid_until(self, session: SessionId) -> float:
        return self.until

    def put(self, pool: str, claim: Claim, outcome: Outcome, seconds: float, log: str | None) -> Settlement:
        assert claim.id.int not in self.settled, "settled twice"
        self.settled[claim.id.int], self.logs[claim.id.int] = outcome, log
        self.settlements.append(settle(claim, outcome, lambda: 0.5))
        return self.settlements[-1]

    def put_completed(self, pool: str, ended: Sequence[tuple[Claim, float]]) -> None:
        for claim, seconds in ended:
            self.put(pool, claim, Returned(), seconds, None)

    def progress(self, lease: Lease, share: float | None, message: str | None) -> None:
        self.beats.append(share)

    def output(self, worker: Worker, ticket: int) -> None:
        self.outputs.append(ticket)

    def call(self, worker: Worker, scope: CallScope, call: Call) -> None: ...

    def tickets(self, kind: type[ToWorker]) -> list[int]:
        """Return the tickets in the messages of this type."""
        found: list[int] = []
        for _, message in self.sent:
            if isinstance(message, kind):
                match message:
                    case RequestStop(ticket) | Interrupt(ticket):
                        found.append(ticket)
                    case _:
                        pass
        return found


def a_dispatcher(
    pools: Sequence[PoolSettings], recorder: Recorder, events: Events, breakers: Breakers | None = None
) -> Dispatcher:
    breakers = breakers or Breakers(MemoryStore(), events, "node")
    return Dispatcher(pools, recorder, recorder, breakers, recorder, recorder, events)


class FakeNode:
    """A dispatcher whose time is set by the test."""

    def __init__(self, *handlers: HandlerInfo, **settings: Any) -> None:
        self.recorder = Recorder()
        self.moves: list[str] = []
        self.events = Events(lambda event: self.moves.append(getattr(event, "after", "")))
        self.breakers = Breakers(MemoryStore(), self.events, "node")
        pools = [PoolSettings(**{"size": 1, **settings})]
        self.dispatcher = a_dispatcher(pools, self.recorder, self.events, self.breakers)
        self.dispatcher.has_parent = True
        [self.pool] = self.dispatcher.pools.values()
        self.pool.use_handlers(handlers)
        self.now = 100.0
        self.tick(0)
        for worker in list(self.recorder.forked):
            self.dispatcher.receive(worker, [Hello()], self.now)

    @property
    def worker(self) -> Worker:
        [worker] = self.dispatcher.workers.values()
        return worker

    def worker_states(self) -> list[str]:
        return sorted(worker.state.value for worker in self.dispatcher.workers.values())

    def tick(self, seconds: float = 0.1) -> None:
        self.now += seconds
        self.dispatcher.tick(self.now)

    def give(self, *numbers: int, holds: bool = False, **task: Any) -> None:
        """Assign tasks with these numbers."""
        stored = [a_stored_task(id=an_id(number), **task) for number in numbers]
        claims = [claim_of(each, Lease(each.id, 1, SESSION)) for each in stored]
        self.dispatcher.assign(self.pool, claims, self.now, self.now, holds=holds)

    def done(self, ticket: int, **sent: Any) -> None:
        self.dispatcher.receive(self.worker, [Done(ticket, 0.01, **sent)], self.now)


def test_a_task_is_sent_runs_and_is_settled() -> None:
    node = FakeNode()
    node.give(1)

    node.done(1, result="7")

    assert node.recorder.settled == {1: Returned("7")}
    assert node.moves == ["idle", "busy", "idle"]
    assert node.dispatcher.held == 0


def test_the_settler_alone_decides_whether_a_failed_attempt_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second decision, with other random numbers, could count a retry that does not happen."""
    node = FakeNode()
    failed = Settlement(state=State.FAILED, error=OOPS, attempts=1)
    monkeypatch.setattr(node.recorder, "put", lambda *_args, **_kwargs: failed)
    node.give(1)

    node.done(1, error=OOPS)

    counters = node.pool.counters
    assert (counters.ended, counters.errors, counters.retrying) == (1, 1, 0)


def test_a_worker_that_leaves_says_why_its_pool_shrinks_or_that_its_node_shuts_down() -> None:
    node = FakeNode(size=2)
    reasons: list[str] = []
    node.events.listen(lambda event: reasons.append(getattr(event, "why", "")))

    node.dispatcher.resize("default", 1, "idle for 10 minutes")
    node.tick()
    node.dispatcher.drain(node.now)

    assert reasons == ["idle for 10 minutes", "the pool shrinks: idle for 10 minutes", "the node shuts down"]


def test_a_worker_that_does_not_become_ready_is_killed_and_replaced() -> None:
    node = FakeNode(start_timeout=timedelta(seconds=20))
    reasons: list[str] = []
    node.events.listen(lambda event: reasons.append(getattr(event, "why", "")))
    node.dispatcher.resize("default", 2, "more load")
    node.tick()
    [hanging] = [worker for worker in node.dispatcher.workers.values() if worker.state is WorkerState.STARTING]

    node.tick(19)
    spared = list(node.recorder.killed)
    node.tick(1.1)
    node.dispatcher.process_exited(hanging, -9, node.now)
    node.tick(60)

    why = "was killed: it was not ready after its start_timeout of 0:00:20"
    assert (spared, node.recorder.killed) == ([], [hanging.number])
    assert reasons[1:] == [f"worker {hanging.number} of default {why}", why]
    assert len(node.recorder.forked) == 3, "another one is tried"


def test_a_task_that_comes_to_a_worker_without_its_handler_is_reported() -> None:
    node = FakeNode()
    bounced: list[TaskBounced] = []
    node.events.listen(lambda event: bounced.append(event) if isinstance(event, TaskBounced) else None)
    node.give(1)

    node.done(1, released=30_000_000)

    assert [(each.lease.task, each.handler, each.again_in) for each in bounced] == [(an_id(1), "work", 30.0)]


def test_tasks_go_to_the_least_loaded_worker() -> None:
    node = FakeNode(size=3)

    node.give(1, 2, 3, 4)

    by_worker = [len(worker.running) for worker in node.dispatcher.workers.values()]
    assert sorted(by_worker) == [1, 1, 2]


def test_the_running_task_of_a_dead_worker_has_crashed_and_the_rest_is_released() -> None:
    node = FakeNode()
    node.give(1, 2)

    node.dispatcher.process_exited(node.worker, -9, node.now)

    assert isinstance(node.recorder.settled[1], Crashed)
    assert node.recorder.settled[2] == Released()
    node.tick()
    assert len(node.recorder.forked) == 2, "it is replaced at once"


def test_an_exit_status_of_zero_is_a_crash_if_a_task_was_running() -> None:
    node = FakeNode()
    node.give(1)

    node.dispatcher.process_exited(node.worker, 0, node.now)

    outcome = node.recorder.settled[1]
    assert isinstance(outcome, Crashed)
    assert "exit status 0" in outcome.error.message


def test_a_task_that_may_have_crashed_a_worker_runs_alone() -> None:
    node = FakeNode(threads=4)

    node.give(1, crashes=1)
    node.give(2, 3)

    [(_, [first]), *_] = node.recorder.runs
    assert first.slots == 4
    assert [given.claim.id.int for given in node.worker.started] == [1]


def test_an_open_breaker_releases_what_waits_for_its_downstream() -> None:
    node = FakeNode()
    numbers = range(1, DEFAULTS.row + 11)
    node.give(*numbers, rules=Rules(downstream="bank"))

    for ticket in numbers[: DEFAULTS.row]:
        node.done(ticket, error=OOPS)

    released = {number for number, outcome in node.recorder.settled.items() if outcome == Released()}
    assert released == {*numbers[DEFAULTS.row + 1 :]}
    assert [one.claim.id.int for one in node.worker.started] == [DEFAULTS.row + 1], "it began when the last one ended"


def test_a_breaker_that_another_node_has_opened_releases_what_waits_at_the_next_tick() -> None:
    node = FakeNode()
    node.give(1, 2, 3, rules=Rules(downstream="bank"))

    node.breakers.shut = ("bank",)
    node.tick()

    assert node.recorder.settled == {2: Released(), 3: Released()}, "the first one has started"


def test_of_the_tasks_claimed_for_an_open_breaker_only_probes_are_assigned() -> None:
    node = FakeNode()
    node.breakers.shut = ("bank",)
    rules = Rules(downstream="bank")
    node.breakers.record_probes("bank", [claim_of(a_stored_task(id=an_id(1)), Lease(an_id(1), 1, SESSION))], 1)

    node.give(1, 2, rules=rules)

    assert node.recorder.settled == {2: Released()}
    assert [one.claim.id.int for one in node.worker.started] == [1]


def test_deaths_without_any_work_in_between_delay_the_next_start() -> None:
    node = FakeNode()
    starts: list[float] = []

    for _ in range(5):
        node.dispatcher.process_exited(node.worker, 1, node.now)
        before = len(node.recorder.forked)
        while len(node.recorder.forked) == before:
            node.tick(0.05)
        starts.append(node.now)

    waits = [later - sooner for sooner, later in pairwise(starts)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8], abs=0.06)


def test_a_hard_limit_kills_the_worker_and_releases_the_neighbors() -> None:
    node = FakeNode(threads=2)
    node.give(1, rules=Rules(timeout=timedelta(seconds=5)))
    node.give(2)

    node.tick(4.9)
    assert not node.recorder.killed
    node.tick(0.2)
    node.dispatcher.process_exited(node.worker, -9, node.now)

    outcome = node.recorder.settled[1]
    assert isinstance(outcome, Raised)
    assert outcome.error.kind == "Timeout"
    assert node.recorder.settled[2] == Released()
    assert node.recorder.killed == [1]


def test_a_soft_limit_interrupts_once() -> None:
    node = FakeNode()
    node.give(1, rules=Rules(soft_timeout=timedelta(seconds=1)))

    for _ in range(5):
        node.tick(0.5)

    assert [message for _, message in node.recorder.sent if isinstance(message, Interrupt)] == [Interrupt(1, False)]


def test_a_cancel_interrupts_even_after_the_soft_limit_did() -> None:
    node = FakeNode()
    node.give(1, rules=Rules(soft_timeout=timedelta(seconds=1)))
    node.tick(1.1)

    node.dispatcher.cancel([Lease(an_id(1), 1, SESSION)], node.now)
    node.tick(INTERRUPT_AFTER)
    node.tick(0.1)

    interrupts = [message for _, message in node.recorder.sent if isinstance(message, Interrupt)]
    assert interrupts == [Interrupt(1, False), Interrupt(1, True)]


def test_progress_extends_the_heartbeat_timeout() -> None:
    node = FakeNode()
    node.give(1, rules=Rules(heartbeat_timeout=timedelta(seconds=2)))

    for _ in range(5):
        node.tick(1.5)
        node.dispatcher.receive(node.worker, [Heartbeat(1, 0.5, None)], node.now)
    assert (node.recorder.killed, len(node.recorder.beats)) == ([], 5)
    node.tick(2.1)

    assert node.recorder.killed == [1]


def test_a_cancel_asks_then_interrupts_then_kills() -> None:
    node = FakeNode()
    node.give(1)

    node.dispatcher.cancel([Lease(an_id(1), 1, SESSION)], node.now)
    assert node.recorder.tickets(RequestStop) == [1]
    node.tick(INTERRUPT_AFTER)
    assert node.recorder.tickets(Interrupt) == [1]
    node.tick(KILL_AFTER - INTERRUPT_AFTER)
    node.dispatcher.process_exited(node.worker, -9, node.now)

    assert node.recorder.settled[1] == Stopped(State.CANCELLED, "did not stop when asked")


def test_a_cancel_of_another_lease_is_ignored() -> None:
    node = FakeNode()
    node.give(1)

    node.dispatcher.cancel([Lease(an_id(1), 7, SESSION)], node.now)

    assert node.recorder.tickets(RequestStop) == []


def test_a_running_task_that_expires_is_stopped_as_expired() -> None:
    node = FakeNode()
    node.give(1, claimed=0, expires=3_000_000)

    node.tick(2.9)
    assert node.recorder.tickets(RequestStop) == []
    node.tick(0.2)
    node.done(1, stopped="stopped while running")

    assert node.recorder.settled[1] == Stopped(State.EXPIRED, "stopped while running")


def test_what_waits_behind_a_long_task_is_taken_back_and_released() -> None:
    node = FakeNode()
    node.give(1, 2)

    node.tick(RELIEVE_AFTER_SECONDS - 0.01)
    before = dict(node.recorder.settled)
    node.tick(0.02)

    assert (before, node.recorder.settled) == ({}, {2: Released()})
    assert list(node.worker.running) == [1]
    assert node.recorder.killed == [], "the running task has its own limits"


def test_what_waits_behind_a_long_task_goes_to_a_worker_with_room() -> None:
    node = FakeNode(size=2)
    first, second = node.dispatcher.workers.values()
    node.pool.record_run_time(0.0001)
    node.give(1, 2, 3, 4, 5)
    node.tick(RELIEVE_AFTER_SECONDS - 0.01)
    node.dispatcher.complete(second, [(2, 0.0001)], node.now)

    node.tick(0.02)

    assert [one.claim.id.int for one in first.running.values()] == [1]
    assert [one.claim.id.int for one in second.running.values()] == [4, 3, 5], "behind what it has"
    assert node.recorder.settled == {2: Returned()}


def test_a_worker_that_has_not_started_what_it_could_keeps_its_tasks_for_a_second() -> None:
    """On a busy machine a worker may not run for a while. Its tasks are not worth more waiting elsewhere."""
    node = FakeNode()
    node.recorder.hanging.add(1)
    node.give(1, 2)

    node.tick(RELIEVE_AFTER_SECONDS + 0.1)
    kept = list(node.recorder.offered[1])
    node.tick(RECALL_AFTER_SECONDS)

    assert kept == [1, 2], "they are offered again, in their order"
    assert node.recorder.killed == [1], "it started nothing for a second"


def test_an_assignment_that_waits_too_long_is_taken_back_although_no_task_takes_long() -> None:
    node = FakeNode()
    node.give(*range(1, 101))

    for ticket in range(1, 20):
        node.tick(RELIEVE_AFTER_SECONDS / 2)
        node.done(ticket)
    before = len(node.recorder.settled)
    node.tick(RELIEVE_AFTER_SECONDS)

    assert before == 19
    assert {number for number, end in node.recorder.settled.items() if end == Released()} == set(range(21, 101))
    assert list(node.worker.running) == [20]


def test_a_worker_that_starts_nothing_is_killed_and_nothing_is_charged() -> None:
    node = FakeNode()
    node.recorder.hanging.add(1)
    node.give(1, 2, rules=Rules(timeout=timedelta(seconds=0.5)))

    node.tick(0.6)
    node.dispatcher.process_exited(node.worker, -9, node.now)

    assert node.recorder.settled == {1: Released(), 2: Released()}, "limits count from the start of an attempt"
    assert node.recorder.killed == [1]


def test_a_worker_that_starts_nothing_more_gets_no_tasks_until_its_next_message() -> None:
    node = FakeNode(threads=4)
    node.give(1)
    node.tick(RECALL_AFTER_SECONDS + 0.1)
    node.recorder.hanging.add(1)
    node.give(2)
    node.tick(RECALL_AFTER_SECONDS + 0.1)
    assert node.recorder.settled == {2: Released()}

    node.give(3)
    node.dispatcher.receive(node.worker, [Heartbeat(1, None, None)], node.now)
    node.give(4)

    assert node.recorder.settled == {2: Released(), 3: Released()}
    assert [given.claim.id.int for given in node.worker.started] == [1, 4]
    assert node.recorder.killed == []


def test_a_task_with_several_slots_is_offered_when_they_are_free_and_can_be_taken_back_before() -> None:
    node = FakeNode(threads=2)
    node.give(1)
    node.give(2, rules=Rules(slots=2), holds=True)
    node.give(3)
    assert node.recorder.offered == {1: [1]}

    node.done(1)
    assert node.recorder.offered == {1: [1, 2, 3]}
    node.give(4, rules=Rules(slots=2), holds=True)
    node.tick(RECALL_AFTER_SECONDS + 0.1)

    assert list(node.worker.running) == [2]
    assert node.recorder.settled == {1: Returned(None), 3: Released(), 4: Released()}


def test_a_task_with_several_slots_is_given_back_if_they_are_not_free() -> None:
    node = FakeNode(threads=4)
    node.give(1)

    node.give(2, 3, rules=Rules(slots=4))
    node.give(4, 5, 6, rules=Rules(slots=2))

    assert node.recorder.settled == {2: Released(), 3: Released(), 5: Released(), 6: Released()}
    assert [given.claim.id.int for given in node.worker.started] == [1, 4]


def test_one_task_may_wait_for_several_slots_at_a_time() -> None:
    node = FakeNode(threads=4)
    node.give(1)

    node.give(2, 3, rules=Rules(slots=4), holds=True)

    assert node.recorder.settled == {3: Released()}


def test_a_task_that_runs_alone_after_a_crash_waits_for_all_slots() -> None:
    node = FakeNode(threads=4)
    node.give(1)

    node.give(2, crashes=1)

    assert node.recorder.settled == {}
    node.done(1)
    assert [given.claim.id.int for given in node.worker.started] == [2]


def test_a_worker_gets_no_tasks_behind_a_long_running_one() -> None:
    node = FakeNode(size=2)
    node.pool.record_run_time(0.001)
    first, second = node.dispatcher.workers.values()
    node.give(1)
    node.tick(0.1)

    room = node.pool.count_room(node.now)
    node.give(*range(2, 2 + room))

    assert room == 1 + 9, "10 ms of work for the other worker, at a little more than a millisecond each"
    assert [len(first.running), len(second.running)] == [1, room]


def test_nothing_is_assigned_under_a_lease_that_may_have_expired() -> None:
    node = FakeNode()
    node.recorder.until = node.now

    node.give(1)

    assert node.recorder.settled == {1: Released()}
    assert node.recorder.runs == []


def test_a_worker_gets_the_validity_of_its_leases_with_its_tasks_and_after_each_renewal() -> None:
    node = FakeNode()
    node.recorder.until = node.now + 12
    node.give(1)
    node.give(2)
    node.tick()
    node.recorder.until += 3
    node.tick()
    node.tick()

    assert node.recorder.validities == [112.0, 112.0]
    assert [message for _, message in node.recorder.sent] == [Valid(SESSION, 115.0)]


def test_a_task_that_was_taken_back_goes_to_a_free_worker() -> None:
    node = FakeNode(size=2)
    first, second = node.dispatcher.workers.values()
    node.give(1, 2, 3)
    assert len(first.running) == 2
    node.dispatcher.receive(second, [Done(2, 0.01)], node.now)

    node.tick(RECALL_AFTER_SECONDS + 0.1)

    assert [given.claim.id.int for given in second.started] == [3]
    assert 3 not in node.recorder.settled


def test_a_drain_finishes_started_tasks_and_assigns_nothing_new() -> None:
    node = FakeNode()
    node.give(1, 2)

    node.dispatcher.drain(node.now)
    node.give(3)
    node.done(1)
    left = node.recorder.offered[1]
    node.dispatcher.process_exited(node.worker, 0, node.now)
    node.tick()

    assert node.recorder.settled == {2: Released(), 3: Released(), 1: Returned(None)}
    assert left[-1] == EXIT_TICKET
    assert node.moves[-2:] == ["draining", "stopped"]
    assert (node.dispatcher.workers, len(node.recorder.forked)) == ({}, 1)


def test_an_immediate_stop_releases_what_it_kills() -> None:
    node = FakeNode()
    node.give(1)
    node.dispatcher.drain(node.now)

    node.dispatcher.stop_now("the node leaves")
    node.dispatcher.process_exited(node.worker, -9, node.now)

    assert node.recorder.settled == {1: Released()}


def test_tasks_of_a_lost_session_are_killed_and_never_settled() -> None:
    node = FakeNode()
    node.give(1)
    worker = node.worker

    node.dispatcher.drop_session(SESSION, "it could not be renewed in time")
    node.dispatcher.receive(worker, [Done(1, 0.01, result="7")], node.now)
    node.dispatcher.process_exited(worker, -9, node.now)

    assert node.recorder.killed == [1]
    assert node.recorder.settled == {}
    assert node.dispatcher.sessions() == set()


def test_a_worker_is_recycled_after_a_number_of_tasks_and_above_a_memory_limit() -> None:
    worn, fat = FakeNode(recycle_after=1), FakeNode(memory_limit=1 << 20)
    worn.give(1)
    worn.done(1)
    fat.recorder.held = 2 << 20

    worn.tick()
    fat.tick(1.1)

    assert [worn.worker_states(), fat.worker_states()] == [["draining", "starting"], ["draining", "starting"]]


def test_an_empty_pool_runs_nothing_and_a_growing_one_starts_workers() -> None:
    node = FakeNode(size=0)
    node.give(1)
    assert node.recorder.settled == {1: Released()}

    node.dispatcher.resize("default", 2, "by hand")
    node.tick()
    node.dispatcher.resize("default", 1, "by hand")
    node.tick()

    assert node.worker_states() == ["draining", "starting"]


def test_a_worker_whose_socket_closed_has_a_second_to_be_reaped() -> None:
    node = FakeNode()
    node.give(1)

    node.dispatcher.socket_closed(node.worker, node.now)
    node.tick(0.9)
    assert not node.recorder.settled
    node.tick(0.2)

    assert isinstance(node.recorder.settled[1], Crashed)
    assert node.moves[-1] == WorkerState.FAILED


def test_a_worker_that_does_not_exit_is_killed_but_not_while_it_runs_a_task() -> None:
    node = FakeNode()
    node.give(1)
    worker = node.worker
    node.dispatcher.retire(worker, node.now, "worn out")

    node.tick(10 * EXIT_SECONDS)
    assert node.recorder.killed == [], "it still runs a task"
    node.dispatcher.receive(worker, [Done(1, 0.01)], node.now)
    node.tick(EXIT_SECONDS - 1)
    assert node.recorder.killed == []
    node.tick(2)

    assert node.recorder.killed == [worker.number]


def test_a_worker_that_breaks_the_protocol_is_killed_and_charged_once_its_process_is_gone() -> None:
    node = FakeNode()
    node.give(1, 2)
    worker = node.worker

    node.dispatcher.protocol_error(worker, "stray bytes", node.now)
    node.dispatcher.receive(worker, [Done(1, 0.01, result="7")], node.now)
    assert (node.recorder.killed, node.recorder.settled) == ([1], {})
    node.dispatcher.process_exited(worker, -9, node.now)

    outcome = node.recorder.settled[1]
    assert isinstance(outcome, Crashed)
    assert outcome.error.message == "the worker process broke the protocol: stray bytes"
    assert node.recorder.settled[2] == Released()


def test_completed_attempts_are_settled_together() -> None:
    node = FakeNode()
    node.give(1, 2, 3)

    node.dispatcher.complete(node.worker, [(1, 0.5), (2, 0.25)], node.now)

    assert node.recorder.settled == {1: Returned(), 2: Returned()}
    counters = node.pool.counters
    assert (counters.ended, counters.busy, node.worker.ran) == (2, 0.75, 2)
    assert [one.claim.id.int for one in node.worker.started] == [3]
    assert node.dispatcher.held == 1


def test_messages_that_arrive_together_are_handled_in_their_order() -> None:
    node = FakeNode()
    node.give(1, 2, 3)

    node.dispatcher.receive(
        node.worker,
        [Heartbeat(1, 0.5, None), Done(1, 0.5, result="7"), Done(2, 0.25, error=OOPS), Heartbeat(2, 0.9, None)],
        node.now,
    )

    assert node.recorder.settled == {1: Returned("7"), 2: Raised(OOPS)}
    assert node.recorder.beats == [0.5], "the second task had ended"
    assert (node.pool.counters.ended, node.pool.counters.errors, node.worker.ran) == (2, 1, 2)
    assert [one.claim.id.int for one in node.worker.started] == [3]


def test_the_latest_output_of_an_attempt_is_kept_for_an_end_that_brings_none() -> None:
    node = FakeNode(threads=3)
    node.give(1, 2, 3)

    node.dispatcher.receive(node.worker, [Output(1, "one"), Output(1, "one two"), Output(2, "three")], node.now)
    node.dispatcher.receive(node.worker, [Done(1, 0.5, error=OOPS, log="the whole"), Output(1, "late")], node.now)
    node.dispatcher.process_exited(node.worker, -9, node.now)

    assert node.recorder.logs == {1: "the whole", 2: "three", 3: None}
    assert node.recorder.outputs == [1, 1, 2]


def test_an_unknown_end_among_others_breaks_the_protocol() -> None:
    node = FakeNode()
    node.give(1, 2)

    node.dispatcher.receive(node.worker, [Done(1, 0.1), Done(7, 0.1), Done(2, 0.1)], node.now)

    assert node.recorder.settled == {1: Returned()}, "what comes after it is not believed"
    assert node.recorder.killed == [1]


def test_an_unknown_attempt_among_the_completed_ones_breaks_the_protocol() -> None:
    node = FakeNode()
    node.give(1, 2)

    node.dispatcher.complete(node.worker, [(1, 0.1), (7, 0.1), (2, 0.1)], node.now)

    assert node.recorder.settled == {1: Returned()}, "what comes after it is not believed"
    assert node.recorder.killed == [1]


def test_completed_attempts_of_a_lost_session_are_ignored() -> None:
    node = FakeNode(threads=2)
    node.give(1, 2)
    worker = node.worker
    node.dispatcher.drop_session(SESSION, "it was lost")

    node.dispatcher.complete(worker, [(1, 0.1), (2, 0.1)], node.now)

    assert (node.recorder.settled, node.recorder.killed) == ({}, [1])


def test_a_result_for_an_unknown_assignment_breaks_the_protocol() -> None:
    node = FakeNode()
    node.give(1)

    node.done(2)

    assert node.recorder.killed == [1]


def test_a_stray_process_is_ended_after_the_attempts_that_ran_when_it_was_found() -> None:
    node = FakeNode(size=2)
    first, second = node.dispatcher.workers.values()
    node.give(1)
    node.dispatcher.add_strays([4711])
    node.give(2)

    node.tick()
    before = list(node.recorder.strays_ended)
    node.dispatcher.receive(first, [Done(1, 0.01)], node.now)
    node.tick()
    node.tick()

    assert (before, node.recorder.strays_ended) == ([], [4711])
    assert second.running, "attempts that started later do not matter"


def an_autoscaled_node(workers: int) -> FakeNode:
    """Return a node whose workers are all idle and may exit after a minute."""
    node = FakeNode(size=None, min=1, max=8, idle_after=timedelta(minutes=1))
    node.dispatcher.resize("default", workers, "for the test")
    node.tick()
    for worker in node.recorder.forked:
        node.dispatcher.receive(worker, [Hello()], node.now)
    return node


def test_idle_workers_exit_although_the_target_stays() -> None:
    node = an_autoscaled_node(4)

    node.tick(59)
    before = node.worker_states()
    node.tick(2)

    assert before == ["idle"] * 4
    assert node.worker_states() == ["draining", "draining", "draining", "idle"], "one always stays"
    assert (node.pool.target, node.pool.asleep) == (4, 3)
    assert len(node.recorder.forked) == 4, "they are not replaced"


def test_a_sleeping_worker_is_started_when_the_others_are_busy() -> None:
    node = an_autoscaled_node(3)
    node.tick(61)
    for worker in [each for each in node.dispatcher.workers.values() if each.state is WorkerState.DRAINING]:
        node.dispatcher.process_exited(worker, 0, node.now)

    node.give(1)
    node.tick()
    woken = node.pool.asleep
    node.tick()

    assert woken == 1, "only one is started"
    assert node.pool.asleep == 1, "the new worker is still free"
    assert len(node.recorder.forked) == 4


def test_a_pool_of_a_fixed_size_keeps_its_idle_workers() -> None:
    node = FakeNode(size=3, idle_after=timedelta(minutes=1))

    node.tick(3_600)

    assert node.worker_states() == ["idle"] * 3


def test_a_smaller_target_removes_sleeping_workers_first() -> None:
    node = an_autoscaled_node(4)
    node.tick(61)

    node.dispatcher.resize("default", 2, "for the test")
    node.tick()

    assert node.pool.asleep == 1


ONCE = Rules(at_most_once=True, max_crashes=0)


def assert_interrupted(outcome: Outcome, how: str) -> None:
    assert isinstance(outcome, Raised)
    assert (outcome.give_up, outcome.error.kind) == (True, "Interrupted")
    assert outcome.error.message == f"{AT_MOST_ONCE}: its process was ended ({how})"


def test_an_at_most_once_task_is_not_released_after_it_has_started() -> None:
    node = FakeNode(threads=2)
    node.give(1, rules=ONCE)
    node.give(2)
    node.give(3, rules=ONCE)

    node.dispatcher.stop_now("was stopped")
    node.dispatcher.process_exited(node.worker, -9, node.now)

    assert_interrupted(node.recorder.settled[1], "was stopped")
    assert node.recorder.settled[2] == Released()
    assert node.recorder.settled[3] == Released(), "it had not started"


def test_an_at_most_once_task_is_released_if_its_ticket_was_taken_back_in_time() -> None:
    node = FakeNode()
    node.give(1, 2, rules=ONCE)
    node.give(3)
    worker = node.worker

    node.dispatcher.socket_closed(worker, node.now)
    node.tick(REAP_SECONDS + 0.1)

    assert isinstance(node.recorder.settled[1], Crashed)
    assert node.recorder.settled[2] == Released()  # The worker cannot start it any more.
    assert node.recorder.settled[3] == Released()


def test_a_worker_with_another_number_of_threads_is_replaced_before_larger_tasks_run() -> None:
    node = FakeNode(threads=1)

    node.pool.settings = replace(node.pool.settings, threads=2)
    widest = node.pool.find_fit(node.now).slots
    node.tick()

    assert widest == 1, "no worker can run a task of two slots yet"
    assert node.worker_states() == ["draining", "starting"]
    assert [worker.threads for worker in node.recorder.forked] == [1, 2]


def test_a_drained_worker_gets_nothing_new_finishes_and_is_replaced_at_once() -> None:
    node = FakeNode()
    node.give(1)
    drained = node.worker

    is_new = node.dispatcher.drain_worker(drained.number, node.now, "asked to drain by ada")
    node.tick()
    [other] = [worker for worker in node.dispatcher.workers.values() if worker is not drained]
    node.dispatcher.receive(other, [Hello()], node.now)
    node.give(2)

    assert is_new
    assert drained.state is WorkerState.DRAINING
    assert [number for number, _ in node.recorder.runs] == [drained.number, other.number]
    node.dispatcher.receive(drained, [Done(1, 0.01)], node.now)
    node.dispatcher.process_exited(drained, 0, node.now)
    assert node.recorder.settled == {1: Returned()}
    assert node.recorder.killed == []
    assert node.pool.counters.deaths == 0


def test_asking_again_changes_nothing_unless_it_is_for_a_shorter_time() -> None:
    node = FakeNode()
    node.give(1)

    def ask(grace: float | None) -> bool:
        return node.dispatcher.drain_worker(1, node.now, "asked to stop by ada", grace)

    assert [ask(None), ask(None), ask(30), ask(30), ask(60), ask(5), ask(None)] == [
        True,
        False,
        True,
        False,
        False,
        True,
        False,
    ]
    node.tick(4.9)
    assert node.recorder.killed == []
    node.tick(0.2)
    node.tick(1)
    assert node.recorder.killed == [1]


def test_a_worker_that_has_ended_cannot_be_drained() -> None:
    node = FakeNode()

    assert not node.dispatcher.drain_worker(7, node.now, "asked to drain by ada", 0)
    assert node.worker_states() == ["idle"]


def test_a_stopped_worker_releases_its_tasks_and_does_not_count_as_a_death() -> None:
    node = FakeNode(threads=2)
    node.give(1)
    node.give(2, rules=Rules(at_most_once=True))
    stopped = node.worker

    node.dispatcher.drain_worker(stopped.number, node.now, "asked to stop by ada: it hangs", 2)
    node.tick(2)
    node.dispatcher.process_exited(stopped, -9, node.now)

    assert node.recorder.killed == [stopped.number]
    assert node.recorder.settled[1] == Released()
    failed = node.recorder.settled[2]
    assert isinstance(failed, Raised)
    assert (failed.error.kind, failed.give_up) == ("Interrupted", True)
    assert "asked to stop by ada: it hangs" in failed.error.message
    assert node.pool.counters.deaths == 0
    assert node.pool.count_missing(node.now) == 0, "another one was started without a delay"


def test_a_starting_worker_can_be_drained() -> None:
    node = FakeNode()
    node.dispatcher.resize("default", 2, "more load")
    node.tick()
    [starting] = [worker for worker in node.dispatcher.workers.values() if worker.state is WorkerState.STARTING]

    assert node.dispatcher.drain_worker(starting.number, node.now, "asked to drain by ada")

    assert starting.state is WorkerState.DRAINING
    assert node.recorder.offered[starting.number] == [EXIT_TICKET]
