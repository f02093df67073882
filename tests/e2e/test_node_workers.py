"""What a running node reports about its worker processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e import shop
from tests.e2e.test_node_reload import write
from tests.support.nodes import NodeProcess, await_effect
from tests.support.processes import until
from windlass.core.payload import json_object
from windlass.core.worker_list import WorkerProcess, decode_workers
from windlass.stores.protocol import Store

pytestmark = pytest.mark.slow


def listed(store: Store) -> list[WorkerProcess]:
    """Return the workers of the only running node."""
    [session] = [each for each in store.sessions(workers=True) if not each.lost]
    return [*decode_workers(session.workers).workers]


def test_every_worker_process_is_listed_with_its_task(
    node: Callable[..., NodeProcess], shop_store: Store, effects: Path
) -> None:
    started = node("-n", "2", "--session-ttl", "2s", workers=2)
    handle = shop.wait_for_cancel.enqueue()
    await_effect(effects, "began")

    until(lambda: {each.state for each in listed(shop_store)} == {"busy", "idle"}, "one is listed as busy")
    workers = listed(shop_store)
    busy = next(each for each in workers if each.state == "busy")

    assert {each.pid for each in workers} == {process.pid for process in started.workers()}
    assert [(task.id, task.handler) for task in busy.tasks] == [(str(handle.id), shop.wait_for_cancel.name)]
    assert all(each.memory > 1 << 20 for each in workers)
    assert abs(time.time() - busy.tasks[0].since / 1e6) < 60

    handle.cancel()
    until(lambda: sorted(each.tasks_run for each in listed(shop_store)) == [0, 1], "its end is listed")


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_reload_changes_the_queues_of_the_session(
    node: Callable[..., NodeProcess], shop_store: Store, tmp_path: Path
) -> None:
    config = tmp_path / "settings.yaml"
    write(config, "pools: {mail: {size: 1}}")
    node("--config", str(config), "--session-ttl", "2s")

    write(config, "pools: {mail: {size: 1, queues: [mail, news]}}")

    def queues() -> list[list[str]]:
        # On a busy machine a session this short may be lost, and opened again by the node.
        return [json_object(session.about)["queues"] for session in shop_store.sessions() if not session.lost]

    until(lambda: queues() == [["mail", "news"]], "the new queues are listed")
