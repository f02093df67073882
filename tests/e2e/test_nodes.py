from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e import shop
from tests.support.nodes import NodeProcess, as_given, read_effects
from windlass.core.lifecycle import State

pytestmark = pytest.mark.slow
PATIENCE = 30.0


def test_sync_and_async_handlers_run_and_return_results(node: Callable[..., NodeProcess]) -> None:
    node("-n", "2")

    results = [shop.add.enqueue(2, b=3), shop.aadd.enqueue(4, 5), shop.hooks.enqueue()]

    assert [handle.result(PATIENCE) for handle in results] == [5, 9, ["hook"]]


@pytest.mark.parametrize("threads", ["1", "2"])
def test_sync_and_async_handlers_take_turns_in_one_worker(node: Callable[..., NodeProcess], threads: str) -> None:
    node("-n", "1", "-t", threads)
    calls = [(shop.aadd if number // 3 % 2 else shop.add).bind(number, 1) for number in range(120)]

    handles = shop.app.enqueue_many(calls)

    assert [handle.result(PATIENCE) for handle in handles] == list(range(1, 121))
    assert {(handle.task().attempts, handle.task().crashes) for handle in handles} == {(1, 0)}


def test_assignments_that_do_not_fit_into_the_socket_wait_in_the_node(node: Callable[..., NodeProcess]) -> None:
    node("-n", "1")
    short = [shop.length.bind("") for _ in range(50)]  # Short tasks, so that the worker gets many at once.
    large = [shop.length.bind("x" * 100_000) for _ in range(50)]
    calls = [*short, *large, shop.sleep.bind(1.5), *large]

    handles = shop.app.enqueue_many(calls)

    assert {handle.wait(PATIENCE) for handle in handles} == {State.COMPLETED}
    assert handles[-1].result(PATIENCE) == 100_000
    assert {(handle.task().attempts, handle.task().crashes) for handle in handles} == {(1, 0)}


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


def test_workers_have_the_environment_of_the_node(node: Callable[..., NodeProcess], url: str) -> None:
    node("-n", "1", DATABASE_URL=as_given(url), PGPASSWORD="x")

    seen = shop.environment.enqueue().result(PATIENCE)

    assert {"WINDLASS_URL", "DATABASE_URL", "PGPASSWORD", "WINDLASS_EFFECTS"} <= {*seen}


def test_the_url_of_the_store_can_be_hidden_and_the_node_says_what_is_hidden(
    node: Callable[..., NodeProcess], url: str
) -> None:
    started = node("-n", "1", "--hide-store-url", DATABASE_URL=as_given(url), PGPASSWORD="x")

    seen = shop.environment.enqueue().result(PATIENCE)

    assert not {"WINDLASS_URL", "DATABASE_URL"} & {*seen}
    assert {"PGPASSWORD", "WINDLASS_EFFECTS"} <= {*seen}
    assert "workers do not see DATABASE_URL, WINDLASS_URL" in started.log
