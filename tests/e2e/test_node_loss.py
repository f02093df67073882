"""F2, F6, F7 and P18: nodes and workers are killed or paused, and their tasks run elsewhere, once."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e import shop
from tests.support.nodes import PATIENCE, NodeProcess, at, await_effect, gone, read_effects, stopped
from tests.support.processes import until
from windlass.core.lifecycle import State

pytestmark = pytest.mark.slow
TTL = 2.0
SHORT = ("--session-ttl", "2s")


def test_a_killed_node_leaves_no_process_behind_and_another_takes_over(
    node: Callable[..., NodeProcess], effects: Path
) -> None:
    first = node("-n", "3", *SHORT, workers=3)
    childish = [shop.have_children.enqueue(60), shop.have_grandchildren.enqueue(60)]
    long = shop.sleep_once.enqueue(60)
    began = await_effect(effects, "began", 3)
    left = [process.pid for process in first.descendants()]
    left += [pid for each in began for pid in each.get("children", [])]
    assert len(set(left)) >= 8
    node("-n", "3", *SHORT, workers=3)

    killed_at = time.monotonic()
    first.kill()

    until(lambda: all(map(gone, left)), "every descendant is gone", 2)
    assert long.result(PATIENCE) == "again"
    again = [each for each in read_effects(effects, "began") if each["task"] == str(long.id)][-1]
    assert at(again) - killed_at < TTL + 2
    task = long.task()
    assert (task.attempts, task.crashes, task.losses) == (1, 0, 1)
    for handle in childish:
        handle.cancel()


@pytest.mark.parametrize("limit", ["heartbeat_timeout", "timeout"])
def test_a_paused_worker_is_killed_and_its_task_runs_elsewhere(
    node: Callable[..., NodeProcess], effects: Path, limit: str
) -> None:
    node("-n", "2", workers=2)
    # More retries than needed: on a machine that stands still for a second, a later attempt reaches its limit as well.
    handle = shop.sleep_once.using(retries=5, retry=shop.AT_ONCE, **{limit: 1}).enqueue(60)
    [first] = await_effect(effects, "began")

    os.kill(first["pid"], signal.SIGSTOP)

    assert handle.result(PATIENCE) == "again"
    second = read_effects(effects, "began")[-1]
    assert second["fence"] > first["fence"]
    assert gone(first["pid"])
    attempts = shop.app.store.attempts(handle.id)
    assert [attempt.state for attempt in attempts] == [State.RETRYING] * (len(attempts) - 1) + [State.COMPLETED]
    assert handle.task().attempts == len(attempts) >= 2
    assert attempts[0].error is not None
    assert attempts[0].error.kind == {"heartbeat_timeout": "HeartbeatTimeout", "timeout": "Timeout"}[limit]


def test_a_worker_that_wakes_up_after_its_task_ran_elsewhere_changes_nothing(
    node: Callable[..., NodeProcess], effects: Path
) -> None:
    first = node("-n", "1", *SHORT)
    handle = shop.gated_once.enqueue()
    [began] = await_effect(effects, "began")

    with stopped(first.pid, began["pid"]):
        node("-n", "1", *SHORT)
        assert handle.result(PATIENCE) == "again"
        effects.with_name("gate").touch()

    until(lambda: gone(began["pid"]), "the zombie is killed")
    first.await_event("SessionEnded")
    assert handle.task().result == "again"
    ends = shop.app.store.attempts(handle.id)
    assert [end.state for end in ends] == [State.RUNNABLE, State.COMPLETED]


def test_a_node_that_wakes_up_without_its_session_kills_its_workers_and_their_results_do_not_count(
    node: Callable[..., NodeProcess], effects: Path
) -> None:
    first = node("-n", "2", *SHORT, workers=2)
    reported = shop.gated_once.enqueue()
    running = shop.sleep_once.enqueue(60)
    began = await_effect(effects, "began", 2)
    pids = {each["task"]: each["pid"] for each in began}

    with stopped(first.pid):
        node("-n", "2", *SHORT, workers=2)
        assert reported.result(PATIENCE) == "again"
        assert running.result(PATIENCE) == "again"
        effects.with_name("gate").touch()
        [ended] = await_effect(effects, "ended")  # The old attempt ends, and its result waits for the node.
        assert ended["pid"] == pids[str(reported.id)]

    until(lambda: gone(pids[str(running.id)]), "the old worker is killed", 5)
    first.await_event("SessionEnded")
    for handle in (reported, running):
        task = handle.task()
        assert (task.state, task.result, task.attempts, task.losses) == (State.COMPLETED, "again", 1, 1)
    assert shop.add.enqueue(1).result(PATIENCE) == 2
    assert first.process.poll() is None
    assert len(first.await_event("SessionOpened", 2)) == 2, "it continues under a new session"


@pytest.mark.parametrize("both", [False, True], ids=["the node", "node and worker"])
def test_a_task_that_another_node_has_finished_does_not_start_when_its_first_node_wakes_up(
    node: Callable[..., NodeProcess], effects: Path, both: bool
) -> None:
    """Some tasks wait in a worker behind a running one. The paused node wakes up when all have ended elsewhere."""
    first = node("-n", "1", *SHORT)
    assert [shop.add.enqueue(n).result(PATIENCE) for n in range(5)] == [1, 2, 3, 4, 5]
    running, *waiting = shop.app.enqueue_many([shop.gated_once.bind(), *(shop.add.bind(n) for n in range(7))])
    [began] = await_effect(effects, "began")

    with stopped(first.pid):
        with stopped(*([began["pid"]] if both else [])):
            assert State.LEASED in {handle.state for handle in waiting}, "some wait in the worker"
            node("-n", "1", *SHORT)
            assert running.result(PATIENCE) == "again"
            assert [handle.result(PATIENCE) for handle in waiting] == list(range(1, 8))
            effects.with_name("gate").touch()
        await_effect(effects, "ended")  # The worker is free for the tasks that wait behind it.

    first.await_event("SessionOpened", 2)
    runs = Counter(each["task"] for each in read_effects(effects, "add"))
    assert [runs[str(handle.id)] for handle in waiting] == [1] * 7


def test_tasks_that_wait_in_a_paused_worker_run_elsewhere_and_do_not_start_when_it_wakes_up(
    node: Callable[..., NodeProcess], effects: Path
) -> None:
    node("-n", "1", *SHORT)
    assert [shop.add.enqueue(n).result(PATIENCE) for n in range(5)] == [1, 2, 3, 4, 5]
    running, *waiting = shop.app.enqueue_many([shop.gated_once.bind(), *(shop.add.bind(n) for n in range(7))])
    [began] = await_effect(effects, "began")

    with stopped(began["pid"]):
        node("-n", "1", *SHORT)
        assert [handle.result(PATIENCE) for handle in waiting] == list(range(1, 8))
        effects.with_name("gate").touch()

    assert running.result(PATIENCE) == "first", "it had started, and its node renews its lease"
    assert shop.app.enqueue_many([shop.add.bind(n) for n in range(3)])[-1].result(PATIENCE) == 3
    runs = Counter(each["task"] for each in read_effects(effects, "add"))
    assert [runs[str(handle.id)] for handle in waiting] == [1] * 7
