from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e import shop
from tests.support.nodes import NodeProcess, read_effects
from windlass.core.lifecycle import State

pytestmark = pytest.mark.slow
PATIENCE = 30.0


def test_sync_and_async_handlers_run_and_return_results(node: Callable[..., NodeProcess]) -> None:
    node("-n", "2")

    results = [shop.add.enqueue(2, b=3), shop.aadd.enqueue(4, 5), shop.hooks.enqueue()]

    assert [handle.result(PATIENCE) for handle in results] == [5, 9, ["hook"]]


def test_a_handler_enqueues_through_its_node(node: Callable[..., NodeProcess], effects: Path) -> None:
    node("-n", "2")

    ids = shop.enqueue_more.enqueue(3).result(PATIENCE)

    assert [shop.app.handle(id).result(PATIENCE) for id in ids] == [1, 2, 3]
    assert len(read_effects(effects, "add")) == 3


def test_a_workflow_passes_results_to_dependents(node: Callable[..., NodeProcess]) -> None:
    node("-n", "2")

    with shop.app.workflow("sums") as wf:
        parts = [wf.add(shop.add, n) for n in range(10)]
        last = wf.add(shop.total, parts)

    assert shop.app.handle(last.id).result(PATIENCE) == 55


def test_output_and_logs_of_a_handler_are_kept_with_its_attempt(node: Callable[..., NodeProcess]) -> None:
    node("-n", "1")

    handle = shop.speak.enqueue("hello")

    assert handle.wait(PATIENCE) is State.COMPLETED
    [log] = shop.app.store.logs(handle.id)
    assert "out hello" in log.text
    assert "err hello" in log.text
    assert "log hello" in log.text
    assert "ours hello" in log.text


def test_workers_do_not_see_the_url_of_the_store(node: Callable[..., NodeProcess]) -> None:
    node("-n", "1")

    seen = shop.environment.enqueue().result(PATIENCE)

    assert "WINDLASS_URL" not in seen
    assert "WINDLASS_EFFECTS" in seen


def test_workers_see_the_url_of_the_store_if_allowed(node: Callable[..., NodeProcess]) -> None:
    node("-n", "1", "--pass-store-url")

    assert "WINDLASS_URL" in shop.environment.enqueue().result(PATIENCE)
