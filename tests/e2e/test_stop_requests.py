"""People drain and stop workers and nodes: what runs ends by the rules, and nothing is charged for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from tests.e2e import shop
from tests.support.nodes import PATIENCE, NodeProcess, await_effect, gone, read_effects
from tests.support.processes import until
from windlass.core.lifecycle import State
from windlass.core.stop_requests import KIND, NAME, decode_requests
from windlass.core.worker_list import WorkerProcess
from windlass.operations import nodes
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.nodes import NodeView
from windlass.stores.protocol import Store

pytestmark = pytest.mark.slow
ONE_STORE = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
"""One kind of store is enough, because the node decides."""
ADA = Author("ada", "it leaks")


def running(store: Store) -> list[NodeView]:
    return [view for view in nodes.get_all(Access(store)) if not view.session.lost]


def worker_of(store: Store, task: UUID) -> tuple[str, WorkerProcess]:
    """Wait until a node lists the worker that runs this task. Return the name of the node and the worker."""

    def found() -> list[tuple[str, WorkerProcess]]:
        return [
            (view.session.node, worker)
            for view in running(store)
            for worker in view.workers.workers
            if any(each.id == str(task) for each in worker.tasks)
        ]

    until(lambda: bool(found()), "a node lists the worker of the task")
    return found()[0]


def listed(store: Store) -> dict[int, str]:
    """Return the states of the workers of the only running node."""
    [view] = running(store)
    return {worker.number: worker.state for worker in view.workers.workers}


def test_a_drained_worker_finishes_its_task_once_and_is_replaced(
    node: Callable[..., NodeProcess], shop_store: Store, effects: Path
) -> None:
    started = node("-n", "1")
    handle = shop.pass_gate.enqueue()
    [began] = await_effect(effects, "began")
    name, worker = worker_of(shop_store, handle.id)

    nodes.drain(Access(shop_store), name, worker.number, author=ADA)

    until(lambda: listed(shop_store).get(worker.number) == "draining", "it is listed as draining")
    other = shop.add.enqueue(1)
    assert other.result(PATIENCE) == 2, "another process takes over"
    assert handle.state is State.LEASED, "the drained worker still runs its task"
    effects.with_name("gate").touch()
    assert handle.result(PATIENCE) == "passed"
    until(lambda: gone(began["pid"]), "the process exits")
    [effect] = read_effects(effects, "add")
    assert effect["pid"] != began["pid"]
    assert len(read_effects(effects, "began")) == 1
    assert handle.task().attempts == 1

    def changes() -> list[tuple[str, str]]:
        found = [each for each in started.events("WorkerStateChanged") if each["worker"] == worker.number]
        return [(each["after"], each["why"]) for each in found]

    until(lambda: changes()[-1] == ("stopped", "left"), "the node logs that it left")
    assert changes()[-2] == ("draining", "asked to drain by ada: it leaks")
    [entry] = shop_store.audit(f"node/{name}")
    assert (entry.action, entry.by) == ("drained", "ada")


def test_a_stopped_worker_releases_a_hanging_task_and_nothing_counts_as_a_crash(
    node: Callable[..., NodeProcess], shop_store: Store, effects: Path
) -> None:
    started = node("-n", "2", workers=2)
    handle = shop.sleep_once.enqueue(600)
    [began] = await_effect(effects, "began")
    name, worker = worker_of(shop_store, handle.id)

    nodes.stop(Access(shop_store), name, worker.number, author=ADA, grace="200ms")

    assert handle.result(PATIENCE) == "again"
    until(lambda: gone(began["pid"]), "its process was killed")
    task = handle.task()
    assert (task.attempts, task.crashes, task.losses) == (1, 0, 0), "only the second attempt counts"
    until(lambda: len(started.workers()) == 2, "it was replaced")
    until(lambda: worker.number not in listed(shop_store), "it is no longer listed")
    [view] = running(shop_store)
    assert view.report is not None
    assert [pool.deaths for pool in view.report.pools.values()] == [0]
    [end] = [each for each in started.events("WorkerStateChanged") if each["after"] == "failed"]
    assert end["why"] == "was killed: it was asked to stop by ada: it leaks"


@ONE_STORE
def test_a_task_that_may_run_only_once_fails_when_its_worker_is_stopped(
    node: Callable[..., NodeProcess], shop_store: Store, effects: Path
) -> None:
    node("-n", "2", workers=2)
    handle = shop.sleep_once.using(at_most_once=True).enqueue(600)
    await_effect(effects, "began")
    name, worker = worker_of(shop_store, handle.id)

    nodes.stop(Access(shop_store), name, worker.number, author=ADA, grace=0)

    assert handle.wait(PATIENCE) is State.FAILED
    assert "asked to stop by ada" in (handle.task().reason or "")
    assert len(read_effects(effects, "began")) == 1


@ONE_STORE
def test_a_drained_worker_can_still_be_stopped(
    node: Callable[..., NodeProcess], shop_store: Store, effects: Path
) -> None:
    node("-n", "2", workers=2)
    handle = shop.sleep_once.enqueue(600)
    await_effect(effects, "began")
    name, worker = worker_of(shop_store, handle.id)
    nodes.drain(Access(shop_store), name, worker.number, author=ADA)
    until(lambda: listed(shop_store).get(worker.number) == "draining", "it is listed as draining")

    nodes.stop(Access(shop_store), name, worker.number, author=ADA, grace=0)

    assert handle.result(PATIENCE) == "again"


@ONE_STORE
def test_an_idle_worker_exits_at_once_and_is_replaced(node: Callable[..., NodeProcess], shop_store: Store) -> None:
    started = node("-n", "1")
    until(lambda: bool(running(shop_store)) and listed(shop_store) != {}, "the worker is listed")
    [number], [before] = listed(shop_store), started.workers()

    nodes.drain(Access(shop_store), running(shop_store)[0].session.node, number, author=ADA)

    until(lambda: gone(before.pid), "it exits")
    assert shop.add.enqueue(1).result(PATIENCE) == 2
    until(lambda: list(listed(shop_store)) == [number + 1], "another one is listed")


def test_a_drained_node_finishes_and_ends_and_another_one_takes_over(
    node: Callable[..., NodeProcess], shop_store: Store, effects: Path
) -> None:
    first = node("-n", "1", "--name", "first")
    handle = shop.pass_gate.enqueue()
    await_effect(effects, "began")
    second = node("-n", "1", "--name", "second")

    nodes.drain(Access(shop_store), "first", author=ADA)
    first.await_event("NodeDraining")
    effects.with_name("gate").touch()

    assert first.process.wait(PATIENCE) == 0
    assert handle.state is State.COMPLETED
    assert "asked to drain by ada: it leaks" in first.events("NodeDraining")[0]["why"]
    assert [view.session.node for view in running(shop_store)] == ["second"]
    assert shop.add.enqueue(1).result(PATIENCE) == 2
    assert second.process.poll() is None
    until(lambda: "idle" in listed(shop_store).values(), "its worker is listed")
    number = next(number for number, state in listed(shop_store).items() if state == "idle")
    nodes.drain(Access(shop_store), "second", number, author=ADA)
    [control] = [each for each in shop_store.controls(KIND) if each.name == NAME]
    assert [one.worker for one in decode_requests(control.value)] == [number], (
        "the request to the node that ended is gone"
    )


@ONE_STORE
def test_a_stopped_node_releases_what_runs_even_if_it_drains_already(
    node: Callable[..., NodeProcess], shop_store: Store, effects: Path
) -> None:
    first = node("-n", "1", "--name", "first", "--drain-timeout", "0")
    handle = shop.sleep_once.enqueue(600)
    await_effect(effects, "began")
    nodes.drain(Access(shop_store), "first", author=ADA)
    first.await_event("NodeDraining")

    nodes.stop(Access(shop_store), "first", author=ADA, grace="100ms")

    assert first.process.wait(PATIENCE) == 0
    task = handle.task()
    assert (task.state, task.attempts, task.crashes, task.losses) == (State.RUNNABLE, 0, 0, 0)
