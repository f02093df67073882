"""F20, F22, F23, F24: handlers that exhaust memory, fork, block, spin or return nonsense; time limits; progress."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e import shop
from tests.support.nodes import PATIENCE, NodeProcess, await_effect, gone, read_effects
from tests.support.processes import until
from windlass.client.handle import Handle
from windlass.core.lifecycle import State

pytestmark = pytest.mark.slow


def kind_of(handle: Handle[object]) -> str:
    """Return the class of the error of the latest attempt."""
    error = shop.app.store.attempts(handle.id)[-1].error
    assert error is not None
    return error.kind


def test_a_result_that_cannot_be_stored_fails_the_attempt_but_not_the_worker(
    node: Callable[..., NodeProcess], effects: Path
) -> None:
    node("-n", "1")

    handles = [shop.give_back.enqueue(what) for what in ("object", "nan", "large", "cycle")]

    assert [handle.wait(PATIENCE) for handle in handles] == [State.FAILED] * 4
    assert shop.add.enqueue(1).result(PATIENCE) == 2
    assert [handle.task().attempts for handle in handles] == [1, 1, 1, 1], "a retry would not help"
    assert all("The result cannot be stored" in (handle.task().reason or "") for handle in handles)
    assert len({each["pid"] for each in read_effects(effects)}) == 1, "one worker served them all"


def test_a_handler_that_runs_out_of_memory_fails_its_attempt(node: Callable[..., NodeProcess]) -> None:
    started = node("-n", "1")

    handle = shop.eat_memory.using(retries=0).enqueue(1_000)

    assert handle.wait(PATIENCE) is State.FAILED
    assert kind_of(handle) == "OutOfMemory"
    assert shop.add.enqueue(1).result(PATIENCE) == 2
    assert started.process.poll() is None


def test_child_processes_of_a_killed_worker_are_gone(node: Callable[..., NodeProcess], effects: Path) -> None:
    node("-n", "2", workers=2)
    handles = [
        shop.have_children.using(retries=0, timeout=1).enqueue(60),
        shop.have_grandchildren.using(retries=0, timeout=1).enqueue(60),
    ]
    children = [pid for each in await_effect(effects, "began", 2) for pid in each["children"]]

    assert [handle.wait(PATIENCE) for handle in handles] == [State.FAILED, State.FAILED]

    until(lambda: all(map(gone, children)), "every grandchild is gone", 2)


def test_a_closed_standard_output_does_not_affect_other_tasks(node: Callable[..., NodeProcess]) -> None:
    node("-n", "1")

    assert shop.close_stdout.enqueue().wait(PATIENCE) is State.COMPLETED

    later = shop.speak.enqueue("hello")
    assert later.wait(PATIENCE) is State.COMPLETED
    [log] = shop.app.store.logs(later.id)
    assert "out hello" in log.text


def test_a_soft_limit_is_raised_in_the_handler(node: Callable[..., NodeProcess], effects: Path) -> None:
    node("-n", "1")
    limits = shop.catch_soft_limit.using(soft_timeout=0.2), shop.acatch_soft_limit.using(soft_timeout=0.2)
    caught = [limited.enqueue() for limited in limits]
    uncaught = [
        shop.sleep.using(soft_timeout=0.2, retries=0).enqueue(60),
        shop.nap.using(soft_timeout=0.2, retries=0).enqueue(60),
        shop.spin.using(soft_timeout=0.2, retries=0).enqueue(),
    ]

    assert [handle.result(PATIENCE) for handle in caught] == ["cleaned up", "cleaned up"]

    assert [handle.wait(PATIENCE) for handle in uncaught] == [State.FAILED] * 3
    assert [kind_of(handle) for handle in uncaught] == ["SoftTimeout"] * 3
    assert len({each["pid"] for each in read_effects(effects, "began")}) == 1, "no worker was killed"


def test_a_handler_that_ignores_its_soft_limit_is_killed(node: Callable[..., NodeProcess], effects: Path) -> None:
    started = node("-n", "2", workers=2)
    limits = {"soft_timeout": 0.3, "timeout": 1, "retries": 0}
    handles = [shop.spin_on.using(**limits).enqueue(), shop.block_in_c.using(**limits).enqueue(60)]

    assert [handle.wait(PATIENCE) for handle in handles] == [State.FAILED, State.FAILED]

    assert [kind_of(handle) for handle in handles] == ["Timeout", "Timeout"]
    assert [(handle.task().attempts, handle.task().crashes) for handle in handles] == [(1, 0), (1, 0)]
    assert all(gone(each["pid"]) for each in read_effects(effects, "began"))
    assert shop.add.enqueue(1).result(PATIENCE) == 2
    assert started.process.poll() is None


def test_the_neighbors_of_a_killed_attempt_are_charged_nothing(node: Callable[..., NodeProcess], effects: Path) -> None:
    node("-n", "1", "-t", "4")
    neighbors = [shop.sleep_once.enqueue(60) for _ in range(3)]
    await_effect(effects, "began", 3)
    blocked = shop.block_in_c.using(timeout=1, retries=0).enqueue(60)

    assert blocked.wait(PATIENCE) is State.FAILED

    assert [handle.result(PATIENCE) for handle in neighbors] == ["again"] * 3
    tasks = [handle.task() for handle in neighbors]
    assert {(task.attempts, task.crashes, task.losses) for task in tasks} == {(1, 0, 0)}


def test_progress_keeps_an_attempt_alive_and_missing_progress_ends_it(node: Callable[..., NodeProcess]) -> None:
    node("-n", "2", workers=2)
    alive = shop.beat.using(heartbeat_timeout=1).enqueue(25)
    silent = shop.sleep.using(heartbeat_timeout=1, retries=0).enqueue(60)
    store = shop.app.store

    until(lambda: store.progress_of([alive.id])[0] is not None, "progress is visible")
    [seen] = store.progress_of([alive.id])

    assert seen is not None
    assert seen.share is not None
    assert 0 <= seen.share < 1
    assert (seen.message or "").endswith("of 25")
    assert silent.wait(PATIENCE) is State.FAILED
    assert kind_of(silent) == "HeartbeatTimeout"
    assert alive.result(PATIENCE) == 25
    assert alive.task().attempts == 1
