"""Workers that run either one `def` task, or several `async def` tasks at once, and handlers that wait for tasks."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.test_async_runner import Runner
from tests.unit.test_dispatcher import FakeNode
from windlass.core.assignment import Assignment
from windlass.core.manifest import HandlerInfo
from windlass.core.settlement import Raised, Released, Returned
from windlass.core.task import Rules
from windlass.events import HandlerWaits
from windlass.worker.async_runner import AsyncRunner
from windlass.worker.dispatcher import CANCEL_SECONDS
from windlass.worker.pool import GROWING_SECONDS, HOLD_FOR_DEF_SECONDS, STAND_INS
from windlass.worker.wire import Hello, Interrupt, Waiting

HANDLERS = (HandlerInfo(name="fetch", is_async=True), HandlerInfo(name="work"))
NAMES = frozenset(handler.name for handler in HANDLERS)
SECOND = Rules(timeout=timedelta(seconds=1))


class SharedNode(FakeNode):
    """A node whose app has handlers of both kinds."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(*HANDLERS, **{"async_tasks": 4, **settings})

    def fetch(self, *numbers: int, **task: Any) -> None:
        self.give(*numbers, handler="fetch", **task)

    def work(self, *numbers: int, **task: Any) -> None:
        self.give(*numbers, handler="work", **task)

    def started(self, worker: int = 1) -> list[int]:
        return [one.claim.id.int for one in self.dispatcher.workers[worker].started]

    def hello(self) -> None:
        """Let every worker that was forked be ready."""
        for worker in self.recorder.forked:
            if worker.number in self.dispatcher.workers:
                self.dispatcher.receive(worker, [Hello()], self.now)


def test_async_tasks_run_at_once_and_a_def_task_runs_alone_in_its_turn() -> None:
    node = SharedNode()
    node.fetch(1, 2)
    node.work(3)
    node.fetch(4)
    assert (node.started(), node.recorder.offered) == ([1, 2], {1: [1, 2]})

    node.done(1)
    assert node.started() == [2]
    node.done(2)

    assert (node.started(), node.recorder.offered) == ([3], {1: [1, 2, 3, 4]})
    node.done(3)
    assert node.started() == [4]


def test_def_tasks_wait_in_the_worker_and_it_takes_one_after_another() -> None:
    """As in a pool without `async def` handlers, so that short tasks are as fast."""
    node = SharedNode()

    node.work(1, 2, 3)

    assert (node.started(), node.recorder.offered) == ([1], {1: [1, 2, 3]})


@pytest.mark.parametrize("alone", [{"crashes": 1}, {"rules": Rules(at_most_once=True)}])
def test_an_async_task_that_others_must_not_affect_runs_alone(alone: dict[str, Any]) -> None:
    node = SharedNode()
    node.fetch(1)

    node.fetch(2, **alone)
    node.fetch(3)

    assert node.started() == [1]
    node.done(1)
    assert node.started() == [2]


@pytest.mark.parametrize(
    ("settings", "slots", "shares"), [({}, 4, True), ({"async_tasks": 1}, 1, False), ({"threads": 3}, 3, False)]
)
def test_the_settings_say_how_many_tasks_run_at_once(settings: dict[str, Any], slots: int, shares: bool) -> None:
    node = SharedNode(**settings)

    assert (node.worker.threads, node.worker.shares_loop) == (slots, shares)
    assert FakeNode(HANDLERS[1], **settings).worker.threads == settings.get("threads", 1), "without async handlers"


def test_a_pool_is_sized_by_its_slots_only_if_all_of_its_handlers_are_async() -> None:
    mixed = SharedNode()
    pure = FakeNode(HANDLERS[0], HandlerInfo(name="work", queue="other"), async_tasks=4)

    assert mixed.pool.report(mixed.now, 8).threads == 1
    assert pure.pool.report(pure.now, 8).threads == 4
    assert (mixed.pool.count_claimable(0.0), pure.pool.count_claimable(0.0)) == (1, 4), "before the first claim"


def test_a_def_task_behind_async_ones_moves_to_an_idle_worker() -> None:
    node = SharedNode(size=2)
    node.fetch(1, 2)
    node.work(3)
    [first, second] = node.dispatcher.workers
    assert node.started(first) == [1]

    node.dispatcher.complete(node.dispatcher.workers[second], [(2, 0.1)], node.now)
    node.tick(0.2)

    assert node.started(second) == [3]
    assert node.recorder.settled == {2: Returned()}


@pytest.mark.parametrize(
    ("settings", "hold"), [({"size": 1}, HOLD_FOR_DEF_SECONDS), ({"size": None, "min": 1, "max": 2}, GROWING_SECONDS)]
)
def test_a_def_task_holds_a_worker_for_some_time_and_is_then_released(settings: dict[str, Any], hold: float) -> None:
    node = SharedNode(**settings)
    node.fetch(1)
    node.work(2)

    node.tick(hold - 0.1)
    assert (node.recorder.settled, node.pool.choose_handlers(NAMES, node.now)) == ({}, NAMES)
    node.tick(0.2)

    assert node.recorder.settled == {2: Released()}
    assert node.pool.choose_handlers(NAMES, node.now) == {"fetch"}, "claimed again, it would wait again"
    assert node.pool.choose_handlers(NAMES, node.now + hold) == NAMES
    node.done(1)
    assert node.pool.choose_handlers(NAMES, node.now) == NAMES, "its worker is idle"


def test_an_overrun_of_one_of_several_tasks_cancels_it_before_the_worker_is_killed() -> None:
    node = SharedNode()
    node.fetch(1)
    node.fetch(2, 3, rules=SECOND)

    node.tick(1.1)
    assert (node.recorder.tickets(Interrupt), node.recorder.killed) == ([2, 3], [])
    node.done(2, stopped="cancelled")
    assert isinstance(node.recorder.settled[2], Raised)
    assert "timeout" in str(node.recorder.settled[2])

    node.tick(CANCEL_SECONDS + 0.1)
    assert node.recorder.killed == [1], "the other one did not end"


def test_an_overrun_of_the_only_task_kills_its_worker_at_once() -> None:
    node = SharedNode()
    node.fetch(1, rules=SECOND)

    node.tick(1.1)

    assert (node.recorder.tickets(Interrupt), node.recorder.killed) == ([], [1])


def test_a_worker_whose_task_waits_for_another_one_gets_a_stand_in() -> None:
    node = SharedNode()
    warned: list[HandlerWaits] = []
    node.events.listen(lambda event: warned.append(event) if isinstance(event, HandlerWaits) else None)
    node.work(1)
    [first] = node.dispatcher.workers.values()

    node.dispatcher.receive(first, [Waiting(1, True), Waiting(1, True)], node.now)
    node.tick()
    node.hello()
    assert [worker.number for worker in node.recorder.forked] == [1, 2]
    node.work(2)
    assert node.started(2) == [2]

    node.dispatcher.receive(first, [Waiting(1, False)], node.now)
    node.dispatcher.complete(node.dispatcher.workers[2], [(2, 0.1)], node.now)
    node.tick()

    assert node.worker_states() == ["busy", "draining"]
    assert [event.handler for event in warned] == ["work"], "one warning"
    node.dispatcher.receive(first, [Waiting(9, True)], node.now)
    assert first.waiting == 0, "it has no such attempt"


def test_the_number_of_stand_ins_is_limited() -> None:
    node = SharedNode(size=STAND_INS + 3)
    node.work(*range(1, STAND_INS + 4))

    for worker in list(node.dispatcher.workers.values()):
        node.dispatcher.receive(worker, [Waiting(ticket, True) for ticket in worker.running], node.now)

    assert node.pool.wanted == node.pool.target + STAND_INS


def test_the_loop_takes_tasks_while_others_run_and_returns_what_is_not_async() -> None:
    node, (reader, writer) = Runner(), os.pipe2(os.O_NONBLOCK)
    seen: list[str] = []
    node.runner = AsyncRunner(
        node.app, node, node.interrupts, node._report, lambda: _take(node, reader), slots=3, tickets=reader
    )
    release = asyncio.Event()

    async def first() -> None:
        node.queue.extend(others)
        os.write(writer, b"123")
        await release.wait()

    async def second() -> None:
        seen.append("second")
        await release.wait()

    async def third() -> None:
        seen.append("third")
        release.set()

    def fourth() -> None: ...

    begin, *others = node.assign(first, second, third, fourth)
    try:
        left = node.runner.run(begin)
    finally:
        node.runner.close()
        os.close(reader)
        os.close(writer)

    assert (left and left.handler, seen) == ("fourth", ["second", "third"]), "all three ran at once"
    assert sorted(ticket for ticket, _ in node.outcomes) == [1, 2, 3]


def _take(node: Runner, reader: int) -> Assignment | None:
    try:
        os.read(reader, 1)
    except BlockingIOError:
        return None
    return node.queue.popleft()
