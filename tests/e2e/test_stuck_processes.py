"""A process that does not die when it is killed blocks neither its node, nor its pool, nor a drain."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.e2e import shop
from tests.support.nodes import PATIENCE, NodeProcess, await_effect
from tests.support.processes import until
from tests.support.unkillable import frozen, held_by_debugger
from windlass.core.lifecycle import State
from windlass.operations import nodes
from windlass.operations.access import Access
from windlass.stores.protocol import Store

pytestmark = pytest.mark.slow
ONE_STORE = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
"""One kind of store is enough, because the node decides."""


def stuck(store: Store) -> list[int]:
    """Return the processes that the only running node lists as stuck."""
    [view] = [view for view in nodes.get_all(Access(store)) if not view.session.lost]
    return [process.pid for process in view.workers.stuck]


@ONE_STORE
def test_an_orphan_that_does_not_die_is_reported_and_blocks_nothing(
    node: Callable[..., NodeProcess], shop_store: Store, effects: Path
) -> None:
    started = node("-n", "1")
    handle = shop.leave_daemon.enqueue()
    [left] = await_effect(effects, "left")
    daemon: int = left["daemon"]

    with held_by_debugger(daemon):
        effects.with_name("gate").touch()
        assert handle.result(PATIENCE) is None
        until(lambda: psutil.Process(daemon).status() == psutil.STATUS_ZOMBIE, "the daemon was killed")

        os.kill(left["pid"], signal.SIGKILL)

        assert shop.add.enqueue(1).result(PATIENCE) == 2, "the worker was replaced"
        [event] = started.await_event("ProcessStuck")
        assert event["pid"] == daemon
        until(lambda: stuck(shop_store) == [daemon], "the process is listed")

    until(lambda: stuck(shop_store) == [], "it is no longer listed once it has died")
    assert shop.add.enqueue(1).result(PATIENCE) == 2


@ONE_STORE
def test_a_drain_ends_although_an_orphan_does_not_die(node: Callable[..., NodeProcess], effects: Path) -> None:
    started = node("-n", "1")
    shop.leave_daemon.enqueue()
    [left] = await_effect(effects, "left")

    with held_by_debugger(left["daemon"]):
        effects.with_name("gate").touch()
        started.await_event("ProcessStuck")

        assert started.terminate(PATIENCE) == 0


@ONE_STORE
def test_a_worker_parent_that_does_not_die_is_replaced(node: Callable[..., NodeProcess]) -> None:
    started = node("-n", "1")
    parent = started.worker_parent().pid

    with held_by_debugger(parent):
        os.kill(parent, signal.SIGKILL)

        assert shop.add.enqueue(1).result(PATIENCE) == 2
        assert started.terminate(PATIENCE) == 0


@ONE_STORE
def test_the_task_of_a_killed_worker_in_uninterruptible_sleep_runs_elsewhere(
    node: Callable[..., NodeProcess], shop_store: Store, effects: Path
) -> None:
    started = node("-n", "1")
    handle = shop.sleep_once.using(timeout="1s", retry=shop.AT_ONCE).enqueue(600)
    [began] = await_effect(effects, "began")

    with frozen(began["pid"], f"windlass-test-{os.getpid()}"):
        assert handle.result(PATIENCE) == "again"
        assert psutil.Process(began["pid"]).status() == psutil.STATUS_DISK_SLEEP
        [first, _] = handle.attempts()
        assert first.error is not None
        assert first.error.kind == "Timeout"
        [event] = started.await_event("ProcessStuck")
        assert (event["pid"], event["worker"]) == (began["pid"], 1)
        until(lambda: stuck(shop_store) == [began["pid"]], "the process is listed")
        assert handle.state is State.COMPLETED

        assert started.terminate(PATIENCE) == 0, "it does not block the end of the node either"
