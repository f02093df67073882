"""How many tasks a worker runs at once, and handlers that wait for other tasks, in a pool of one worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e import shop
from tests.support.nodes import PATIENCE, NodeProcess, await_effect, read_effects
from tests.support.processes import until
from windlass import State, TaskFailed

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("url", ["sqlite"], indirect=True)]


@pytest.fixture
def one_worker(node: Callable[..., NodeProcess]) -> NodeProcess:
    return node("-n", "1")


def test_async_tasks_share_a_worker_and_def_tasks_have_one_alone(one_worker: NodeProcess, effects: Path) -> None:
    together = shop.app.enqueue_many(shop.meet.bind(5) for _ in range(5))
    assert len({handle.result(PATIENCE) for handle in together}) == 1, "five at once, in one process"

    naps = shop.app.enqueue_many(shop.nap.bind(0.4) for _ in range(2))
    await_effect(effects, "began", 2)
    alone, late = shop.sleep.enqueue(0.1), shop.run_too_long.enqueue()
    assert alone.result(PATIENCE) == "slept"
    assert late.wait(PATIENCE) is State.FAILED

    began, ended = read_effects(effects, "began"), read_effects(effects, "ended")
    slept = next(line for line in began if line["task"] == str(alone.id))
    assert slept["at"] >= max(line["at"] for line in ended if line["task"] != str(alone.id)), "after the naps"
    assert [nap.task().attempts for nap in naps] == [1, 1]


def test_an_overrun_cancels_one_task_and_not_its_neighbors(one_worker: NodeProcess, effects: Path) -> None:
    neighbors = shop.app.enqueue_many(shop.nap.bind(1.2) for _ in range(3))
    await_effect(effects, "began", 3)
    late = shop.run_too_long.enqueue()

    with pytest.raises(TaskFailed, match="Timeout: ran longer than its timeout"):
        late.result(PATIENCE)

    assert {neighbor.wait(PATIENCE) for neighbor in neighbors} == {State.COMPLETED}
    assert {(each.task().attempts, each.task().losses, each.task().crashes) for each in neighbors} == {(1, 0, 0)}
    assert len({line["pid"] for line in read_effects(effects, "ended")}) == 1, "the worker was not killed"


def test_handlers_that_wait_for_their_children_get_stand_ins(one_worker: NodeProcess) -> None:
    assert shop.wait_for_child.enqueue(3).result(PATIENCE) == 3
    assert shop.await_child.enqueue(2).result(PATIENCE) == 2

    warned = [event["handler"].rpartition(".")[2] for event in one_worker.events("HandlerWaits")]
    assert warned == ["wait_for_child", "await_child"], "once for each handler"
    until(lambda: len(one_worker.workers()) == 1, "the stand-ins have left")


def test_an_async_handler_may_not_block_the_event_loop(one_worker: NodeProcess) -> None:
    with pytest.raises(TaskFailed, match="Write `await handle` instead"):
        shop.block_the_loop.enqueue().result(PATIENCE)


def test_a_handler_inspects_and_changes_tasks_of_its_tenant(one_worker: NodeProcess) -> None:
    shop.app.enqueue_many(shop.nothing.using(queue="idle").bind() for _ in range(3))
    shop.nothing.using(queue="idle", tenant="other").enqueue()

    found = shop.inspect_and_change.enqueue("idle").result(PATIENCE)

    assert found == {
        "states": ["runnable"] * 3,
        "cancelled": 3,
        "counted": 3,
        "retried": True,
        "reads": [[], [], None],
        "errors": ["app.queues", "app.pools", "app.dead", "app.tasks.find(...).purge"],
    }
