"""F35 and P17: a node that drains loses nothing and does nothing twice."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e import shop
from tests.support.nodes import PATIENCE, NodeProcess, await_effect, read_effects
from windlass.core.lifecycle import State
from windlass.stores.protocol import Store

pytestmark = pytest.mark.slow
SHORT = ("--session-ttl", "2s")
MANY = 3_000


def counted(store: Store) -> dict[State, int]:
    """Return how many tasks are in each state."""
    totals: Counter[State] = Counter()
    for count in store.counts():
        totals[count.state] += count.tasks
    return {state: number for state, number in totals.items() if number}


def test_a_drain_under_load_loses_nothing_and_does_nothing_twice(
    node: Callable[..., NodeProcess], effects: Path, shop_store: Store
) -> None:
    handles = shop.app.enqueue_many(shop.add.bind(number) for number in range(MANY))
    long = [shop.sleep.using(priority=10).enqueue(1) for _ in range(2)]
    first = node("-n", "3", "-t", "2", workers=3)
    await_effect(effects, "add", 100)

    status = first.terminate(20)

    assert status == 0
    states = counted(shop_store)
    assert State.LEASED not in states
    assert states.get(State.RUNNABLE, 0) > 0, "the node drained under load"
    assert states[State.RUNNABLE] + states[State.COMPLETED] == MANY + 2
    done = Counter(each["task"] for each in read_effects(effects, "add"))
    tasks = [task for task in shop_store.get([handle.id for handle in handles]) if task is not None]
    assert {str(task.id) for task in tasks if task.state is State.COMPLETED} == {*done}
    given_back = [task for task in tasks if task.state is State.RUNNABLE]
    assert {(task.attempts, task.crashes, task.losses) for task in given_back} == {(0, 0, 0)}
    assert [handle.state for handle in long] == [State.COMPLETED] * 2, "started tasks were finished"

    node("-n", "2")
    assert [handle.wait(PATIENCE) for handle in handles] == [State.COMPLETED] * MANY
    assert set(Counter(each["task"] for each in read_effects(effects, "add")).values()) == {1}


def test_a_second_signal_stops_tasks_soon_and_charges_them_nothing(
    node: Callable[..., NodeProcess], effects: Path
) -> None:
    first = node("-n", "2", workers=2)
    handles = [shop.sleep_once.enqueue(60) for _ in range(2)]
    await_effect(effects, "began", 2)

    first.send(signal.SIGTERM)
    until_draining(first, 2)
    first.send(signal.SIGTERM)

    assert first.process.wait(15) == 0
    tasks = [handle.task() for handle in handles]
    assert {(task.state, task.attempts, task.crashes, task.losses) for task in tasks} == {(State.RUNNABLE, 0, 0, 0)}
    node("-n", "2")
    assert [handle.result(PATIENCE) for handle in handles] == ["again", "again"]


def test_a_third_signal_ends_the_node_at_once(node: Callable[..., NodeProcess], effects: Path) -> None:
    first = node("-n", "1")
    handle = shop.sleep_once.enqueue(60)
    await_effect(effects, "began")

    signalled_at = time.monotonic()
    for _ in range(3):
        first.send(signal.SIGTERM)
        time.sleep(0.1)  # The system merges pending signals of one kind.

    assert first.process.wait(10) == 0
    assert time.monotonic() - signalled_at < 4, "sooner than after a second signal"
    task = handle.task()
    assert (task.state, task.attempts, task.crashes) == (State.RUNNABLE, 0, 0)


def test_tasks_of_a_node_killed_during_its_drain_run_again_after_its_session(
    node: Callable[..., NodeProcess], effects: Path
) -> None:
    first = node("-n", "2", *SHORT, workers=2)
    handles = [shop.sleep_once.enqueue(60) for _ in range(2)]
    await_effect(effects, "began", 2)
    node("-n", "2", *SHORT)

    first.send(signal.SIGTERM)
    until_draining(first, 2)
    first.kill()

    assert [handle.result(PATIENCE) for handle in handles] == ["again", "again"]
    assert {(handle.task().attempts, handle.task().losses) for handle in handles} == {(1, 1)}


def until_draining(node: NodeProcess, workers: int) -> None:
    node.await_event("WorkerStateChanged", workers * 2)  # each was idle, then draining
    moves = [each["after"] for each in node.events("WorkerStateChanged")]
    assert moves.count("draining") == workers


def test_a_signal_to_every_process_of_the_service_drains_too(node: Callable[..., NodeProcess], effects: Path) -> None:
    """By default, systemd sends it to the node, the worker parent and the workers."""
    first = node("-n", "1")
    handle = shop.sleep.enqueue(1)
    await_effect(effects, "began")

    for process in first.descendants():
        process.send_signal(signal.SIGTERM)
    status = first.terminate(20)

    assert status == 0
    task = handle.task()
    assert (task.state, task.attempts, task.crashes) == (State.COMPLETED, 1, 0)
    assert len(read_effects(effects, "began")) == 1


def test_a_child_of_a_handler_can_still_be_terminated(node: Callable[..., NodeProcess]) -> None:
    node("-n", "1")

    assert shop.terminate_children.enqueue().result(PATIENCE) == [-signal.SIGTERM, -signal.SIGTERM]
