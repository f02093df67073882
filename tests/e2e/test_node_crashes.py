"""F1, F21 and P19: when a worker dies, its task runs again at once, and its neighbors and its node are not affected."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import shop
from tests.support.nodes import PATIENCE, NodeProcess, at, await_effect, gone, read_effects
from tests.support.processes import until
from windlass.client.handle import Handle
from windlass.client.handlers import Bound, Handler
from windlass.core.lifecycle import State

pytestmark = pytest.mark.slow
RECOVERY = 1.0
"""Seconds from the death of a worker to the next attempt of its task."""


def test_a_task_whose_worker_is_killed_runs_again_within_a_second(
    node: Callable[..., NodeProcess], effects: Path
) -> None:
    started = node("-n", "2", workers=2)
    handle = shop.sleep_once.enqueue(60)
    [first] = await_effect(effects, "began")

    killed_at = time.monotonic()
    os.kill(first["pid"], signal.SIGKILL)

    assert handle.result(PATIENCE) == "again"
    second = read_effects(effects, "began")[-1]
    assert at(second) - killed_at < RECOVERY
    assert second["fence"] > first["fence"]
    assert (first["attempt"], second["attempt"]) == (1, 1), "a crash does not count as an attempt"
    task = handle.task()
    assert (task.state, task.attempts, task.crashes, task.losses) == (State.COMPLETED, 1, 1, 0)
    until(lambda: len(started.workers()) == 2, "the dead worker is replaced")


def test_all_tasks_of_a_killed_worker_with_threads_run_again_within_a_second(
    node: Callable[..., NodeProcess], effects: Path
) -> None:
    node("-n", "1", "-t", "4")
    handles = [shop.sleep_once.enqueue(60) for _ in range(4)]
    first = await_effect(effects, "began", 4)
    assert len({each["pid"] for each in first}) == 1

    killed_at = time.monotonic()
    os.kill(first[0]["pid"], signal.SIGKILL)

    assert [handle.result(PATIENCE) for handle in handles] == ["again"] * 4
    again = read_effects(effects, "began")[4:]
    assert max(map(at, again)) - killed_at < RECOVERY
    fences = {each["task"]: each["fence"] for each in first}
    assert all(each["fence"] > fences[each["task"]] for each in again)
    assert {(handle.task().attempts, handle.task().crashes) for handle in handles} == {(1, 1)}


@pytest.mark.parametrize("handler", [shop.nothing, shop.anothing], ids=["def", "async def"])
def test_a_crash_is_not_charged_to_tasks_that_completed_just_before(
    node: Callable[..., NodeProcess], handler: Handler[[], Any, None]
) -> None:
    node("-n", "1")
    short = handler.using(at_most_once=True)
    calls: list[Bound[None]] = [short.bind() for _ in range(300)]
    for place in (150, 200, 250):
        calls.insert(place, shop.crash.bind("segfault"))

    handles = shop.app.enqueue_many(calls)

    states = [handle.wait(PATIENCE) for handle in handles]
    assert states.count(State.FAILED) == 3, "only those that crash the worker"
    ends = {(task.state, task.attempts, task.crashes) for task in (handle.task() for handle in handles)}
    assert ends == {(State.COMPLETED, 1, 0), (State.FAILED, 0, 3)}


def test_a_poison_task_fails_after_three_deaths_and_its_neighbors_complete(
    node: Callable[..., NodeProcess], effects: Path
) -> None:
    started = node("-n", "1", "-t", "4")
    neighbors = [shop.sleep.enqueue(0.2) for _ in range(6)]
    poison = shop.crash.enqueue("kill")
    neighbors += [shop.sleep.enqueue(0.2) for _ in range(6)]

    assert poison.wait(PATIENCE) is State.FAILED

    assert [handle.wait(PATIENCE) for handle in neighbors] == [State.COMPLETED] * 12
    task = poison.task()
    assert (task.attempts, task.crashes) == (0, 3)
    assert "Its process died 3 times" in (task.reason or "")
    assert max(handle.task().crashes for handle in neighbors) <= 1, "a task that was present at one death runs alone"
    assert len([each for each in read_effects(effects, "began") if each["task"] == str(poison.id)]) == 3
    assert started.process.poll() is None


def test_a_storm_of_segfaults_fails_only_the_tasks_that_cause_it(node: Callable[..., NodeProcess]) -> None:
    started = node("-n", "2")
    calls: list[Bound[None]] = [shop.nothing.bind() for _ in range(200)]
    for place in range(0, 200, 10):
        calls.insert(place, shop.crash.bind("segfault"))

    handles = shop.app.enqueue_many(calls)

    states = Counter(handle.wait(PATIENCE) for handle in handles)
    assert states == {State.FAILED: 20, State.COMPLETED: 200}
    crashes = {(task.state, task.crashes) for task in (handle.task() for handle in handles)}
    assert {times for state, times in crashes if state is State.FAILED} == {3}
    assert max(times for state, times in crashes if state is State.COMPLETED) <= 1
    assert started.process.poll() is None


def test_a_process_that_exits_without_a_result_has_crashed(node: Callable[..., NodeProcess]) -> None:
    started = node("-n", "1")
    ways = {"segfault": "SIGSEGV", "abort": "SIGABRT", "exit 0": "exit status 0", "exit 7": "exit status 7"}

    for how, message in ways.items():
        handle = shop.crash.enqueue(how)

        assert handle.wait(PATIENCE) is State.FAILED

        task = handle.task()
        assert (task.attempts, task.crashes) == (0, 3)
        errors = [attempt.error for attempt in shop.app.store.attempts(task.id)]
        assert [error.kind for error in errors if error is not None] == ["WorkerDied"] * 3
        assert all(error is not None and message in error.message for error in errors)
        assert shop.add.enqueue(1).result(PATIENCE) == 2
    assert started.process.poll() is None


def test_an_exit_by_an_exception_ends_the_attempt_and_not_the_worker(
    node: Callable[..., NodeProcess], effects: Path
) -> None:
    node("-n", "1")
    exits = shop.leave.using(retries=0).enqueue("sys.exit")
    interrupts = shop.leave.using(retries=0).enqueue("interrupt")
    in_a_thread = shop.leave.enqueue("in a thread")
    ended: list[Handle[None]] = [exits, interrupts, in_a_thread]

    states = [handle.wait(PATIENCE) for handle in ended]

    assert states == [State.FAILED, State.FAILED, State.COMPLETED]
    assert exits.task().reason == "SystemExit: 3"
    assert interrupts.task().reason == "KeyboardInterrupt"
    assert [handle.task().crashes for handle in ended] == [0, 0, 0]
    assert len({each["pid"] for each in read_effects(effects, "began")}) == 1, "one worker served them all"


def test_all_tasks_run_again_when_the_worker_parent_is_killed(node: Callable[..., NodeProcess], effects: Path) -> None:
    started = node("-n", "3", workers=3)
    handles = [shop.sleep_once.enqueue(60) for _ in range(3)]
    first = await_effect(effects, "began", 3)
    parent = started.worker_parent()

    killed_at = time.monotonic()
    parent.kill()

    assert [handle.result(PATIENCE) for handle in handles] == ["again"] * 3
    recovered_in = max(map(at, read_effects(effects, "began")[3:])) - killed_at
    assert recovered_in < 15, "the app is imported again, without a back-off"
    assert all(gone(each["pid"]) for each in first)
    assert {(handle.task().attempts, handle.task().crashes) for handle in handles} == {(1, 1)}
    assert started.worker_parent().pid != parent.pid


def test_a_task_that_kills_the_worker_parent_is_poison_too(node: Callable[..., NodeProcess]) -> None:
    started = node("-n", "1")
    handle = shop.crash.enqueue("parent")

    assert handle.wait(PATIENCE) is State.FAILED

    assert handle.task().crashes == 3
    assert shop.add.enqueue(1).result(PATIENCE) == 2
    assert started.process.poll() is None


def test_a_handler_that_writes_garbage_to_its_sockets_harms_only_itself(node: Callable[..., NodeProcess]) -> None:
    started = node("-n", "1")
    handle = shop.write_garbage.enqueue()

    assert handle.wait(PATIENCE) is State.FAILED

    assert handle.task().crashes == 3
    assert shop.add.enqueue(1).result(PATIENCE) == 2
    assert started.process.poll() is None
