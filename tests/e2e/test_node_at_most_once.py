"""A task that may run at most once fails when its process is killed for any reason; its effect happens once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e import shop
from tests.support.nodes import PATIENCE, NodeProcess, await_effect, gone, read_effects
from tests.support.processes import until
from windlass.client.handle import Handle
from windlass.core.lifecycle import State

pytestmark = pytest.mark.slow
ONE_STORE = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
"""One kind of store is enough, because the node decides."""
MAY_HAVE_STARTED = "Not retried because at_most_once is set and the attempt may have started: "


def assert_failed_once(handle: Handle[str], effects: Path, reason: str) -> None:
    assert handle.wait(PATIENCE) is State.FAILED
    task = handle.task()
    assert (task.reason or "").endswith(reason)
    assert task.attempts + task.crashes + task.losses == 1
    assert len([each for each in read_effects(effects, "began") if each["task"] == str(handle.id)]) == 1


@ONE_STORE
def test_it_fails_when_its_worker_is_killed(node: Callable[..., NodeProcess], effects: Path) -> None:
    node("-n", "2", workers=2)
    handle = shop.sleep_once.using(at_most_once=True).enqueue(60)
    [began] = await_effect(effects, "began")

    os.kill(began["pid"], signal.SIGKILL)

    assert_failed_once(handle, effects, f"{MAY_HAVE_STARTED}its process died (WorkerDied).")


def test_it_fails_when_its_node_is_killed(node: Callable[..., NodeProcess], effects: Path) -> None:
    first = node("-n", "1", "--session-ttl", "3s")
    handle = shop.sleep_once.using(at_most_once=True).enqueue(60)
    [began] = await_effect(effects, "began")
    node("-n", "1", "--session-ttl", "3s")

    first.kill()

    until(lambda: gone(began["pid"]), "its worker dies with it")
    assert_failed_once(handle, effects, f"{MAY_HAVE_STARTED}its node was lost.")
    assert shop.add.enqueue(1).result(PATIENCE) == 2, "the other node continues"
    assert len(read_effects(effects, "began")) == 1


@ONE_STORE
def test_it_fails_when_its_node_stops_without_waiting_for_it(node: Callable[..., NodeProcess], effects: Path) -> None:
    leaving = node("-n", "1", "--drain-timeout", "100ms")
    handle = shop.sleep_once.using(at_most_once=True).enqueue(60)
    await_effect(effects, "began")

    assert leaving.terminate(PATIENCE) == 0

    assert_failed_once(
        handle,
        effects,
        f"{MAY_HAVE_STARTED}its process was ended (the node shuts down, and its drain timeout of 0.1 s is over)",
    )


@ONE_STORE
def test_it_fails_when_another_task_gets_its_worker_killed(node: Callable[..., NodeProcess], effects: Path) -> None:
    node("-n", "1", "-t", "2")
    handle = shop.sleep_once.using(at_most_once=True).enqueue(60)
    await_effect(effects, "began")

    shop.sleep.using(timeout=0.5, retries=0).enqueue(60).wait(PATIENCE)

    assert handle.wait(PATIENCE) is State.FAILED
    assert MAY_HAVE_STARTED in (handle.task().reason or "")
    assert len([each for each in read_effects(effects, "began") if each["task"] == str(handle.id)]) == 1
