"""Autoscaled pools with real workers: load, pauses, overrides, and nodes that start and stop."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.e2e import shop
from tests.support.nodes import PATIENCE, NodeProcess, as_given, await_effect, read_effects
from tests.support.processes import until
from windlass.cli.main import main
from windlass.client.handle import Handle
from windlass.core.lifecycle import State
from windlass.core.task import Task, TaskId
from windlass.operations import pools
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.pools import PoolView
from windlass.stores.protocol import Store

pytestmark = pytest.mark.slow
TTL = 4.0
SHORT = ("--session-ttl", "4s")


@pytest.fixture
def windlass(url: str) -> Callable[..., Result]:
    """Run commands in this process."""

    def run(*words: str) -> Result:
        result = CliRunner().invoke(main, words, env={"WINDLASS_URL": as_given(url)})
        assert result.exit_code == 0, result.output
        return result

    return run


def show(store: Store) -> PoolView:
    return pools.get(Access(store), "default")


def await_first_decision(store: Store) -> None:
    """Wait for the first decision. From then on arrivals are counted."""
    until(lambda: any(view.decided_at for view in pools.get_all(Access(store))), "the pool was sized")


def await_ticks(store: Store, number: int) -> None:
    """Wait for this many more decided seconds. Each is written only while there are tasks to run."""
    reached = show(store).decided_at + number
    until(lambda: show(store).decided_at >= reached, f"{number} more ticks")


def await_all(store: Store, handles: Sequence[Handle[Any]], within: float = 2 * PATIENCE) -> list[Task]:
    """Wait until all tasks have completed, and return them."""
    ids = [handle.id for handle in handles]

    def done() -> bool:
        return all(task is not None and task.state is State.COMPLETED for task in store.get(ids))

    until(done, f"{len(ids)} tasks have completed", within)
    return [task for task in store.get(ids) if task is not None]


def assert_ran_once(effects: Path, ids: Sequence[TaskId], what: str) -> None:
    """Assert that every task has recorded this effect exactly once."""
    ran = Counter(line["task"] for line in read_effects(effects, what))
    assert ran == Counter(str(id) for id in ids)


def charges(tasks: Sequence[Task]) -> set[tuple[int, int, int]]:
    return {(task.attempts, task.crashes, task.losses) for task in tasks}


def sizes(node: NodeProcess) -> list[int]:
    """Return every size that the pool was given, in order."""
    return [each["after"] for each in node.events("PoolResized")]


def test_a_pool_grows_with_load_and_then_shrinks_without_stopping_a_task(
    node: Callable[..., NodeProcess], shop_store: Store, effects: Path
) -> None:
    started = node("--max", "6", "--wait-goal", "4s")
    await_first_decision(shop_store)

    handles = [shop.sleep.enqueue(0.2) for _ in range(110)]
    long = shop.gated_once.enqueue()
    until(lambda: show(shop_store).ready >= 4, "it has grown")
    tasks = await_all(shop_store, handles)
    largest = max(sizes(started))
    until(lambda: show(shop_store).target <= 2, "it shrinks")
    assert long.state is State.LEASED, "a busy worker stays until its task is done"
    effects.with_name("gate").touch()

    assert long.result(PATIENCE) == "first"
    assert 4 <= largest <= 6
    until(lambda: len(started.workers()) <= 2, "the retired workers have exited")
    assert_ran_once(effects, [handle.id for handle in (*handles, long)], "ended")
    assert charges([*tasks, long.task()]) == {(1, 0, 0)}
    assert len(sizes(started)) <= 6, "in few steps"
    actions = [entry.action for entry in pools.history(Access(shop_store), "default").entries]
    assert {"grew", "shrank"} <= {*actions}
    assert {each["after"] for each in started.events("WorkerStateChanged")} <= {"idle", "draining", "stopped"}


def test_a_paused_pool_starts_nothing_shows_it_and_resumes(
    node: Callable[..., NodeProcess], shop_store: Store, windlass: Callable[..., Result]
) -> None:
    started = node("--max", "4")
    await_first_decision(shop_store)

    windlass("pool", "pause", "default", "--why", "a migration")
    until(lambda: started.workers() == [], "all workers have exited")
    handle = shop.add.enqueue(1)
    await_ticks(shop_store, 3)

    assert handle.state is State.RUNNABLE
    output = windlass("pool", "show", "default").stdout
    assert "0/0 workers, 0 running, 1 runnable" in output
    assert "(paused)" in output
    assert "a migration" in output
    windlass("pool", "resume", "default")
    assert handle.result(PATIENCE) == 2
    assert handle.task().attempts == 1


def test_a_pool_with_a_minimum_of_0_starts_for_the_first_task_and_is_empty_again(
    node: Callable[..., NodeProcess], shop_store: Store, windlass: Callable[..., Result]
) -> None:
    started = node("--min", "0", "--max", "4", workers=0)
    await_first_decision(shop_store)
    assert (show(shop_store).target, started.workers()) == (0, [])
    windlass("pool", "tune", "default", "idle=3s")

    assert shop.add.enqueue(1).result(PATIENCE) == 2
    until(lambda: started.workers() == [], "the last worker has exited")

    assert show(shop_store).target == 0
    assert shop.add.enqueue(2).result(PATIENCE) == 3


def test_an_override_on_the_command_line_lasts_for_its_time(
    node: Callable[..., NodeProcess], shop_store: Store, windlass: Callable[..., Result]
) -> None:
    started = node("--max", "2")
    await_first_decision(shop_store)

    windlass("pool", "set", "default", "2", "--for", "4s", "--why", "a sale", "--by", "ann")
    until(lambda: len(started.workers()) == 2, "the override is used")
    until(lambda: len(started.workers()) == 1, "its time is over", 20)

    lines = windlass("pool", "history", "default").stdout
    assert "set to 2 by ann for 0:00:04: a sale" in lines
    assert [each["after"] for each in started.events("PoolResized")] == [2, 1]


def test_a_slow_downstream_is_not_overloaded_and_all_tasks_complete_when_it_recovers(
    node: Callable[..., NodeProcess], shop_store: Store, effects: Path
) -> None:
    started = node("--max", "24", "--wait-goal", "4s")
    await_first_decision(shop_store)
    handles = [shop.look_up.enqueue() for _ in range(60)]
    await_all(shop_store, handles)

    effects.with_name("slow").touch()
    handles += [shop.look_up.enqueue() for _ in range(60)]
    until(lambda: show(shop_store).target > 1, "it tries more workers")
    await_ticks(shop_store, 5)
    effects.with_name("slow").unlink()
    tasks = await_all(shop_store, handles)

    assert max(sizes(started)) <= 18, "it grows in steps until that helps"
    assert charges(tasks) == {(1, 0, 0)}
    assert_ran_once(effects, [task.id for task in tasks], "ended")


def test_two_nodes_share_one_target_and_one_takes_over_when_the_other_is_killed(
    node: Callable[..., NodeProcess], shop_store: Store, effects: Path
) -> None:
    first, second = (node("--max", "6", *SHORT) for _ in range(2))
    await_first_decision(shop_store)
    pools.set_size(Access(shop_store), "default", 6, author=Author("ann"))
    for each in (first, second):
        until(lambda each=each: len(each.workers()) == 3, "each has its share")
    handles = [shop.sleep.enqueue(0.3) for _ in range(80)]
    await_effect(effects, "ended", 6)

    first.kill()

    until(lambda: sizes(second)[-1:] == [6], "it has taken over the share", TTL + 10)
    tasks = await_all(shop_store, handles)
    began = read_effects(effects, "began")
    assert max(Counter((each["task"], each["fence"]) for each in began).values()) == 1
    again = {task for task, times in Counter(each["task"] for each in began).items() if times > 1}
    assert again <= {str(task.id) for task in tasks if task.losses}, "only the tasks of the killed node"
    assert {(task.attempts, task.crashes) for task in tasks} == {(1, 0)}
    if not second.events("SessionEnded"):  # On a machine that was paused for long it may lose its own session too.
        # What it ran on its three workers, and what had ended there but was not written yet.
        assert len(again) <= 6
    assert len(show(shop_store).nodes) == 1


def test_a_node_that_joins_and_leaves_does_not_make_the_other_flap(
    node: Callable[..., NodeProcess], shop_store: Store
) -> None:
    first = node("--max", "4", *SHORT)
    await_first_decision(shop_store)
    pools.set_size(Access(shop_store), "default", 4, author=Author("ann"))
    until(lambda: len(first.workers()) == 4, "it has all workers")
    handles = [
        shop.sleep.enqueue(1) for _ in range(150)
    ]  # More than can run in the test, so that every second is decided.

    second = node("--max", "4", *SHORT)
    until(lambda: len(second.workers()) == 2, "the new one has its share")
    await_ticks(shop_store, 3)
    assert second.terminate() == 0
    until(lambda: len(show(shop_store).nodes) == 1, "it is gone")
    await_ticks(shop_store, 2)

    assert sizes(first) == [4]
    assert [size for size in sizes(second) if size] == [2]
    tasks = shop_store.get([handle.id for handle in handles])
    assert charges([task for task in tasks if task is not None]) <= {(0, 0, 0), (1, 0, 0)}


@pytest.mark.parametrize("seconds", [12, pytest.param(600, marks=pytest.mark.soak)])
def test_no_resize_loses_a_task_or_runs_it_twice(
    node: Callable[..., NodeProcess], shop_store: Store, effects: Path, seconds: int
) -> None:
    started = node("--max", "8")
    await_first_decision(shop_store)
    handles: list[Handle[Any]] = []
    began = time.monotonic()

    for second in range(seconds):
        pools.set_size(Access(shop_store), "default", 8 if second % 2 == 0 else 1, author=Author("ann"))
        handles += [shop.sleep.enqueue(1.4), *(shop.sleep.enqueue(0.05) for _ in range(10))]
        until(lambda due=began + second + 1: time.monotonic() >= due, "the second is over")
    pools.resume(Access(shop_store), "default", author=Author("ann"))

    tasks = await_all(shop_store, handles)
    ids = [task.id for task in tasks]
    assert_ran_once(effects, ids, "began")
    assert_ran_once(effects, ids, "ended")
    assert charges(tasks) == {(1, 0, 0)}
    resized = sizes(started)
    assert len([size for size in resized if size == 8]) >= seconds / 6, "it was resized repeatedly"
    assert {each["after"] for each in started.events("WorkerStateChanged")} <= {"idle", "draining", "stopped"}
    assert started.process.poll() is None
