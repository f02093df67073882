from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.values import a_stored_task, an_id
from windlass.config import PoolSettings
from windlass.core.assignment import assignment_of
from windlass.core.lifecycle import State
from windlass.core.settlement import AT_MOST_ONCE, Crashed, Outcome, Raised, Released, Returned, Stopped
from windlass.core.task import Claim, Lease, Rules, SessionId
from windlass.events import Events
from windlass.worker.dispatcher import EXIT_SECONDS, REAP_SECONDS, RECALL_AFTER_SECONDS, Dispatcher
from windlass.worker.tickets import LEAVE
from windlass.worker.wire import Call, Done, Heartbeat, Hello, Interrupt, RequestStop, Run, ToWorker, Valid
from windlass.worker.worker import INTERRUPT_AFTER, KILL_AFTER, ReadyTask, Worker, WorkerState

SESSION = SessionId(an_id(999))


class Recorder:
    """An outlet that only remembers."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, ToWorker]] = []
        self.forked: list[Worker] = []
        self.killed: list[int] = []
        self.settled: dict[int, Outcome] = {}
        self.beats: list[float | None] = []
        self.held = 0
        self.until = float("inf")
        self.offered: dict[int, list[int]] = {}
        self.standing_still: set[int] = set()
        self.strays_ended: list[int] = []

    def send(self, worker: Worker, message: ToWorker) -> None:
        self.sent.append((worker.number, message))

    def offer(self, worker: Worker, tickets: list[int]) -> bool:
        self.offered.setdefault(worker.number, []).extend(tickets)
        return True

    def take_back(self, worker: Worker) -> list[int]:
        """A worker has taken what it had a free slot for, unless it stands still."""
        offered = self.offered.pop(worker.number, [])
        waiting = [ticket for ticket in offered if (one := worker.running.get(ticket)) and one.begun_at is None]
        return offered if worker.number in self.standing_still else waiting

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

    def settle(self, claim: Claim, outcome: Outcome, *, seconds: float, log: str | None) -> None:
        assert claim.task.id.int not in self.settled, "settled twice"
        self.settled[claim.task.id.int] = outcome

    def progress(self, lease: Lease, share: float | None, message: str | None) -> None:
        self.beats.append(share)

    def call(self, worker: Worker, lease: Lease | None, call: Call) -> None: ...

    def tickets(self, kind: type[ToWorker]) -> list[int]:
        """The tickets of which a message of this kind spoke."""
        found: list[int] = []
        for _, message in self.sent:
            if isinstance(message, kind):
                match message:
                    case Run(orders):
                        found += [ticket for ticket, _ in orders]
                    case RequestStop(ticket) | Interrupt(ticket):
                        found.append(ticket)
                    case _:
                        pass
        return found


class Floor:
    """A crew with a clock in the test's hand."""

    def __init__(self, **settings: Any) -> None:
        self.outlet = Recorder()
        self.moves: list[str] = []
        events = Events(lambda event: self.moves.append(getattr(event, "after", "")))
        self.crew = Dispatcher([PoolSettings(**{"size": 1, **settings})], self.outlet, events)
        self.crew.has_parent = True
        [self.pool] = self.crew.pools.values()
        self.now = 100.0
        self.tick(0)
        for worker in list(self.outlet.forked):
            self.crew.receive(worker, Hello(), self.now)

    @property
    def worker(self) -> Worker:
        [worker] = self.crew.workers.values()
        return worker

    def worker_states(self) -> list[str]:
        return sorted(worker.state.value for worker in self.crew.workers.values())

    def tick(self, seconds: float = 0.1) -> None:
        self.now += seconds
        self.crew.tick(self.now)

    def give(self, *numbers: int, **task: Any) -> None:
        """Hand out tasks with these numbers."""
        work: list[ReadyTask] = []
        for number in numbers:
            stored = a_stored_task(id=an_id(number), **task)
            claim = Claim(Lease(stored.id, 1, SESSION), stored)
            work.append(ReadyTask(claim, assignment_of(claim), self.now))
        self.crew.assign(self.pool, work, self.now)

    def done(self, ticket: int, **said: Any) -> None:
        self.crew.receive(self.worker, Done(ticket, 0.01, **said), self.now)


def test_a_task_is_sent_runs_and_is_settled() -> None:
    floor = Floor()
    floor.give(1)

    floor.done(1, result="7")

    assert floor.outlet.settled == {1: Returned("7")}
    assert floor.moves == ["idle", "busy", "idle"]
    assert floor.crew.held == 0


def test_tasks_go_to_the_least_loaded_worker() -> None:
    floor = Floor(size=3)

    floor.give(1, 2, 3, 4)

    by_worker = [len(worker.running) for worker in floor.crew.workers.values()]
    assert sorted(by_worker) == [1, 1, 2]


def test_what_a_worker_ran_when_it_died_has_crashed_and_the_rest_goes_on() -> None:
    floor = Floor()
    floor.give(1, 2)

    floor.crew.process_exited(floor.worker, -9, floor.now)

    assert isinstance(floor.outlet.settled[1], Crashed)
    assert floor.outlet.settled[2] == Released()
    floor.tick()
    assert len(floor.outlet.forked) == 2, "it is replaced at once"


def test_an_exit_status_of_zero_is_a_crash_as_long_as_something_ran() -> None:
    floor = Floor()
    floor.give(1)

    floor.crew.process_exited(floor.worker, 0, floor.now)

    outcome = floor.outlet.settled[1]
    assert isinstance(outcome, Crashed)
    assert "exit status 0" in outcome.error.message


def test_a_suspect_runs_alone_and_its_worker_knows() -> None:
    floor = Floor(threads=4)

    floor.give(1, crashes=1)
    floor.give(2, 3)

    [_, (_, first), *_] = floor.outlet.sent
    assert isinstance(first, Run)
    assert first.assignments[0][1].slots == 4
    assert [given.work.claim.task.id.int for given in floor.worker.started] == [1]


def test_deaths_without_any_work_between_them_put_off_the_next_start() -> None:
    floor = Floor()
    starts: list[float] = []

    for _ in range(5):
        floor.crew.process_exited(floor.worker, 1, floor.now)
        before = len(floor.outlet.forked)
        while len(floor.outlet.forked) == before:
            floor.tick(0.05)
        starts.append(floor.now)

    waits = [later - sooner for sooner, later in pairwise(starts)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8], abs=0.06)


def test_a_hard_limit_kills_and_the_neighbours_are_released() -> None:
    floor = Floor(threads=2)
    floor.give(1, rules=Rules(timeout=timedelta(seconds=5)))
    floor.give(2)

    floor.tick(4.9)
    assert not floor.outlet.killed
    floor.tick(0.2)
    floor.crew.process_exited(floor.worker, -9, floor.now)

    outcome = floor.outlet.settled[1]
    assert isinstance(outcome, Raised)
    assert outcome.error.kind == "Timeout"
    assert floor.outlet.settled[2] == Released()
    assert floor.outlet.killed == [1]


def test_a_soft_limit_interrupts_once() -> None:
    floor = Floor()
    floor.give(1, rules=Rules(soft_timeout=timedelta(seconds=1)))

    for _ in range(5):
        floor.tick(0.5)

    assert [message for _, message in floor.outlet.sent if isinstance(message, Interrupt)] == [Interrupt(1, False)]


def test_a_cancel_interrupts_although_the_soft_limit_has() -> None:
    floor = Floor()
    floor.give(1, rules=Rules(soft_timeout=timedelta(seconds=1)))
    floor.tick(1.1)

    floor.crew.cancel([Lease(an_id(1), 1, SESSION)], floor.now)
    floor.tick(INTERRUPT_AFTER)
    floor.tick(0.1)

    interrupts = [message for _, message in floor.outlet.sent if isinstance(message, Interrupt)]
    assert interrupts == [Interrupt(1, False), Interrupt(1, True)]


def test_progress_puts_off_the_end_by_silence() -> None:
    floor = Floor()
    floor.give(1, rules=Rules(heartbeat_timeout=timedelta(seconds=2)))

    for _ in range(5):
        floor.tick(1.5)
        floor.crew.receive(floor.worker, Heartbeat(1, 0.5, None), floor.now)
    assert (floor.outlet.killed, len(floor.outlet.beats)) == ([], 5)
    floor.tick(2.1)

    assert floor.outlet.killed == [1]


def test_a_cancel_asks_then_interrupts_then_kills() -> None:
    floor = Floor()
    floor.give(1)

    floor.crew.cancel([Lease(an_id(1), 1, SESSION)], floor.now)
    assert floor.outlet.tickets(RequestStop) == [1]
    floor.tick(INTERRUPT_AFTER)
    assert floor.outlet.tickets(Interrupt) == [1]
    floor.tick(KILL_AFTER - INTERRUPT_AFTER)
    floor.crew.process_exited(floor.worker, -9, floor.now)

    assert floor.outlet.settled[1] == Stopped(State.CANCELLED, "did not stop when asked")


def test_a_cancel_under_another_lease_is_not_for_this_attempt() -> None:
    floor = Floor()
    floor.give(1)

    floor.crew.cancel([Lease(an_id(1), 7, SESSION)], floor.now)

    assert floor.outlet.tickets(RequestStop) == []


def test_what_expires_while_it_runs_is_stopped_as_expired() -> None:
    floor = Floor()
    floor.give(1, claimed=0, expires=3_000_000)

    floor.tick(2.9)
    assert floor.outlet.tickets(RequestStop) == []
    floor.tick(0.2)
    floor.done(1, stopped="stopped while running")

    assert floor.outlet.settled[1] == Stopped(State.EXPIRED, "stopped while running")


def test_an_order_that_does_not_get_its_turn_is_taken_back_and_released() -> None:
    floor = Floor()
    floor.give(1, 2)

    floor.tick(RECALL_AFTER_SECONDS - 0.1)
    before = dict(floor.outlet.settled)
    floor.tick(0.2)

    assert (before, floor.outlet.settled) == ({}, {2: Released()})
    assert list(floor.worker.running) == [1]
    assert floor.outlet.killed == [], "what it runs is judged by its own limits"


def test_a_worker_that_begins_nothing_of_what_it_was_given_is_killed_and_nothing_is_charged() -> None:
    floor = Floor()
    floor.outlet.standing_still.add(1)
    floor.give(1, 2, rules=Rules(timeout=timedelta(seconds=0.5)))

    floor.tick(0.6)
    floor.crew.process_exited(floor.worker, -9, floor.now)

    assert floor.outlet.settled == {1: Released(), 2: Released()}, "a limit counts from when an attempt has begun"
    assert floor.outlet.killed == [1]


def test_a_worker_that_runs_something_but_begins_nothing_more_is_given_nothing_until_it_is_heard() -> None:
    floor = Floor(threads=4)
    floor.give(1)
    floor.tick(RECALL_AFTER_SECONDS + 0.1)
    floor.outlet.standing_still.add(1)
    floor.give(2)
    floor.tick(RECALL_AFTER_SECONDS + 0.1)
    assert floor.outlet.settled == {2: Released()}

    floor.give(3)
    floor.crew.receive(floor.worker, Heartbeat(1, None, None), floor.now)
    floor.give(4)

    assert floor.outlet.settled == {2: Released(), 3: Released()}
    assert [given.work.claim.task.id.int for given in floor.worker.started] == [1, 4]
    assert floor.outlet.killed == []


def test_what_needs_several_slots_is_offered_when_they_are_free_and_can_be_taken_back_before() -> None:
    floor = Floor(threads=2)
    floor.give(1)
    floor.give(2, rules=Rules(slots=2))
    floor.give(3)
    assert floor.outlet.offered == {1: [1]}

    floor.done(1)
    assert floor.outlet.offered == {1: [1, 2, 3]}
    floor.give(4, rules=Rules(slots=2))
    floor.tick(RECALL_AFTER_SECONDS + 0.1)

    assert list(floor.worker.running) == [2]
    assert floor.outlet.settled == {1: Returned(None), 3: Released(), 4: Released()}


def test_nothing_more_is_given_to_a_worker_behind_what_runs_for_long() -> None:
    floor = Floor(size=2)
    floor.pool.record_run_time(0.001)
    first, second = floor.crew.workers.values()
    floor.give(1)
    floor.tick(0.1)

    room = floor.pool.room(floor.now)
    floor.give(*range(2, 2 + room))

    assert room == 1 + 50
    assert [len(first.running), len(second.running)] == [1, room]


def test_nothing_is_handed_out_under_a_lease_that_may_have_run_out() -> None:
    floor = Floor()
    floor.outlet.until = floor.now

    floor.give(1)

    assert floor.outlet.settled == {1: Released()}
    assert floor.outlet.tickets(Run) == []


def test_a_worker_is_told_until_when_its_leases_hold_before_its_orders_and_after_each_renewal() -> None:
    floor = Floor()
    floor.outlet.until = floor.now + 12
    floor.give(1)
    floor.give(2)
    floor.tick()
    floor.outlet.until += 3
    floor.tick()
    floor.tick()

    said = [message for _, message in floor.outlet.sent]

    assert isinstance(said[0], Valid)
    assert isinstance(said[1], Run)
    assert [message.until for message in said if isinstance(message, Valid)] == [112.0, 115.0]


def test_what_comes_back_goes_to_whoever_is_free() -> None:
    floor = Floor(size=2)
    first, second = floor.crew.workers.values()
    floor.give(1, 2, 3)
    assert len(first.running) == 2
    floor.crew.receive(second, Done(2, 0.01), floor.now)

    floor.tick(RECALL_AFTER_SECONDS + 0.1)

    assert [given.work.claim.task.id.int for given in second.started] == [3]
    assert 3 not in floor.outlet.settled


def test_a_drain_lets_what_has_begun_end_and_takes_nothing_new() -> None:
    floor = Floor()
    floor.give(1, 2)

    floor.crew.drain(floor.now)
    floor.give(3)
    floor.done(1)
    left = floor.outlet.offered[1]
    floor.crew.process_exited(floor.worker, 0, floor.now)
    floor.tick()

    assert floor.outlet.settled == {2: Released(), 3: Released(), 1: Returned(None)}
    assert left[-1] == LEAVE
    assert floor.moves[-2:] == ["draining", "stopped"]
    assert (floor.crew.workers, len(floor.outlet.forked)) == ({}, 1)


def test_a_hurried_drain_releases_what_it_stops() -> None:
    floor = Floor()
    floor.give(1)
    floor.crew.drain(floor.now)

    floor.crew.stop_now("the node leaves")
    floor.crew.process_exited(floor.worker, -9, floor.now)

    assert floor.outlet.settled == {1: Released()}


def test_what_ran_under_a_lost_session_is_killed_and_never_reported() -> None:
    floor = Floor()
    floor.give(1)
    worker = floor.worker

    floor.crew.drop_session(SESSION, "it could not be renewed in time")
    floor.crew.receive(worker, Done(1, 0.01, result="7"), floor.now)
    floor.crew.process_exited(worker, -9, floor.now)

    assert floor.outlet.killed == [1]
    assert floor.outlet.settled == {}
    assert floor.crew.sessions() == set()


def test_a_worker_is_recycled_after_so_many_tasks_and_above_so_much_memory() -> None:
    worn, fat = Floor(recycle_after=1), Floor(memory_limit=1 << 20)
    worn.give(1)
    worn.done(1)
    fat.outlet.held = 2 << 20

    worn.tick()
    fat.tick(1.1)

    assert [worn.worker_states(), fat.worker_states()] == [["draining", "starting"], ["draining", "starting"]]


def test_a_pool_of_none_runs_nothing_and_one_that_grows_starts_workers() -> None:
    floor = Floor(size=0)
    floor.give(1)
    assert floor.outlet.settled == {1: Released()}

    floor.crew.resize("default", 2, "by hand")
    floor.tick()
    floor.crew.resize("default", 1, "by hand")
    floor.tick()

    assert floor.worker_states() == ["draining", "starting"]


def test_a_worker_whose_socket_closed_is_given_a_second_to_be_buried() -> None:
    floor = Floor()
    floor.give(1)

    floor.crew.socket_closed(floor.worker, floor.now)
    floor.tick(0.9)
    assert not floor.outlet.settled
    floor.tick(0.2)

    assert isinstance(floor.outlet.settled[1], Crashed)
    assert floor.moves[-1] == WorkerState.FAILED


def test_a_worker_that_does_not_leave_is_killed_but_not_while_it_runs_something() -> None:
    floor = Floor()
    floor.give(1)
    worker = floor.worker
    floor.crew.retire(worker, floor.now, "worn out")

    floor.tick(10 * EXIT_SECONDS)
    assert floor.outlet.killed == [], "it still runs a task"
    floor.crew.receive(worker, Done(1, 0.01), floor.now)
    floor.tick(EXIT_SECONDS - 1)
    assert floor.outlet.killed == []
    floor.tick(2)

    assert floor.outlet.killed == [worker.number]


def test_a_worker_that_breaks_the_protocol_is_killed_and_charged_once_its_process_is_gone() -> None:
    floor = Floor()
    floor.give(1, 2)
    worker = floor.worker

    floor.crew.protocol_error(worker, "stray bytes", floor.now)
    floor.crew.receive(worker, Done(1, 0.01, result="7"), floor.now)
    assert (floor.outlet.killed, floor.outlet.settled) == ([1], {})
    floor.crew.process_exited(worker, -9, floor.now)

    outcome = floor.outlet.settled[1]
    assert isinstance(outcome, Crashed)
    assert outcome.error.message == "the worker process broke the protocol: stray bytes"
    assert floor.outlet.settled[2] == Released()


def test_the_end_of_an_order_that_a_worker_does_not_have_breaks_the_protocol() -> None:
    floor = Floor()
    floor.give(1)

    floor.done(2)

    assert floor.outlet.killed == [1]


def test_a_stray_process_is_ended_when_nothing_runs_any_more_that_ran_when_it_was_found() -> None:
    floor = Floor(size=2)
    first, second = floor.crew.workers.values()
    floor.give(1)
    floor.crew.found_strays([4711])
    floor.give(2)

    floor.tick()
    before = list(floor.outlet.strays_ended)
    floor.crew.receive(first, Done(1, 0.01), floor.now)
    floor.tick()
    floor.tick()

    assert (before, floor.outlet.strays_ended) == ([], [4711])
    assert second.running, "what began later is not waited for"


def a_floor_that_sizes_itself(workers: int) -> Floor:
    """All of its workers are idle, and may leave after a minute of that."""
    floor = Floor(size=None, min=1, max=8, idle_after=timedelta(minutes=1))
    floor.crew.resize("default", workers, "for the test")
    floor.tick()
    for worker in floor.outlet.forked:
        floor.crew.receive(worker, Hello(), floor.now)
    return floor


def test_workers_that_nobody_needs_leave_though_the_target_stays() -> None:
    floor = a_floor_that_sizes_itself(4)

    floor.tick(59)
    before = floor.worker_states()
    floor.tick(2)

    assert before == ["idle"] * 4
    assert floor.worker_states() == ["draining", "draining", "draining", "idle"], "one stays: the floor"
    assert (floor.pool.target, floor.pool.asleep) == (4, 3)
    assert len(floor.outlet.forked) == 4, "and nobody is started in their place"


def test_a_worker_that_sleeps_is_woken_when_the_others_have_their_hands_full() -> None:
    floor = a_floor_that_sizes_itself(3)
    floor.tick(61)
    for worker in [each for each in floor.crew.workers.values() if each.state is WorkerState.DRAINING]:
        floor.crew.process_exited(worker, 0, floor.now)

    floor.give(1)
    floor.tick()
    woken = floor.pool.asleep
    floor.tick()

    assert woken == 1, "one more than is busy, and not both"
    assert floor.pool.asleep == 1, "the one that starts has its hands free"
    assert len(floor.outlet.forked) == 4


def test_a_pool_of_a_given_size_keeps_its_idle_workers() -> None:
    floor = Floor(size=3, idle_after=timedelta(minutes=1))

    floor.tick(3_600)

    assert floor.worker_states() == ["idle"] * 3


def test_a_smaller_target_lets_the_sleepers_go_first() -> None:
    floor = a_floor_that_sizes_itself(4)
    floor.tick(61)

    floor.crew.resize("default", 2, "for the test")
    floor.tick()

    assert floor.pool.asleep == 1


def test_a_worker_that_is_heard_before_its_birth_is_reported_has_its_process_id() -> None:
    floor = Floor()
    floor.crew.resize("default", 2, "for the test")
    floor.tick()
    worker = floor.outlet.forked[-1]

    floor.crew.receive(worker, Hello(4711), floor.now)

    assert (worker.pid, worker.state) == (4711, WorkerState.IDLE)


ONCE = Rules(at_most_once=True, max_crashes=0)


def assert_interrupted(outcome: Outcome, how: str) -> None:
    assert isinstance(outcome, Raised)
    assert (outcome.give_up, outcome.error.kind) == (True, "Interrupted")
    assert outcome.error.message == f"{AT_MOST_ONCE}: its process was ended ({how})"


def test_what_may_run_only_once_is_not_released_after_it_has_begun() -> None:
    floor = Floor(threads=2)
    floor.give(1, rules=ONCE)
    floor.give(2)
    floor.give(3, rules=ONCE)

    floor.crew.stop_now("was stopped")
    floor.crew.process_exited(floor.worker, -9, floor.now)

    assert_interrupted(floor.outlet.settled[1], "was stopped")
    assert floor.outlet.settled[2] == Released()
    assert floor.outlet.settled[3] == Released(), "it waited for its turn"


def test_what_may_run_only_once_runs_elsewhere_when_its_ticket_was_taken_back_in_time() -> None:
    floor = Floor()
    floor.give(1, 2, rules=ONCE)
    floor.give(3)
    worker = floor.worker

    floor.crew.socket_closed(worker, floor.now)
    floor.tick(REAP_SECONDS + 0.1)

    assert isinstance(floor.outlet.settled[1], Crashed)
    assert floor.outlet.settled[2] == Released()  # The worker cannot begin it any more, alive or not.
    assert floor.outlet.settled[3] == Released()


def test_a_worker_with_another_number_of_threads_is_replaced_and_wide_tasks_wait_for_that() -> None:
    floor = Floor(threads=1)

    floor.pool.settings = replace(floor.pool.settings, threads=2)
    widest = floor.pool.widest
    floor.tick()

    assert widest == 1, "no worker can run a task of two slots yet"
    assert floor.worker_states() == ["draining", "starting"]
    assert [worker.threads for worker in floor.outlet.forked] == [1, 2]
