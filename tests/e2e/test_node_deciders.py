"""A pool that is sized by a function of its app, with real workers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.nodes import NodeProcess
from tests.support.processes import until
from windlass.operations import pools
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.stores.protocol import Store

pytestmark = pytest.mark.slow


def test_a_pool_follows_a_function_of_its_app_and_keeps_its_size_when_that_fails(
    node: Callable[..., NodeProcess], shop_store: Store, effects: Path, tmp_path: Path
) -> None:
    wanted, config = effects.with_name("workers"), tmp_path / "settings.yaml"
    wanted.write_text("3")
    config.write_text("pools: {default: {min: 1, max: 4, scale: {deciders: ['app:by_file']}}}")
    started = node("--config", str(config))

    until(lambda: bool(pools.get_all(Access(shop_store))), "the pool is known")
    until(
        lambda: pools.get(Access(shop_store), "default").ready == 3, "the pool has as many workers as the app asks for"
    )
    assert any("app:by_file asks for 3" in entry.text for entry in pools.history(Access(shop_store), "default").entries)

    wanted.write_text("nonsense")
    started.await_event("SignalFailed")
    until(lambda: "app:by_file: ValueError" in pools.get(Access(shop_store), "default").degraded, "the error is shown")
    view = pools.get(Access(shop_store), "default")
    assert (view.target, view.ready) == (3, 3), "the size is kept"

    wanted.write_text("40")
    until(lambda: pools.get(Access(shop_store), "default").ready == 4, "the bounds hold")
    until(lambda: not pools.get(Access(shop_store), "default").degraded, "the error is gone")

    pools.tune(Access(shop_store), "default", {"deciders": ["slo"]}, author=Author("test"))
    until(lambda: "app:by_file" not in pools.get(Access(shop_store), "default").sentence, "the decider was removed")
