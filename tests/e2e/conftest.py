"""Stores that many processes share: `url` is where each of them lives, for `tests.support.processes.open_store`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e import shop
from tests.support.nodes import NodeProcess, as_given
from tests.support.processes import Crew, open_store
from windlass.stores.protocol import Store


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store of its own, on disk."""
    if request.param == "sqlite":
        return str(tmp_path / "windlass.db")
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """The test's own way into the store, migrated before any other process comes."""
    store = open_store(url)
    yield store
    store.close()


@pytest.fixture
def crew(store: Store) -> Iterator[Crew]:
    """Processes that end with the test, before its store does."""
    with Crew() as crew:
        yield crew


@pytest.fixture
def effects(tmp_path: Path) -> Path:
    """Where the handlers of `tests.e2e.shop` say what they did."""
    return tmp_path / "effects.jsonl"


@pytest.fixture
def shop_store(url: str) -> Iterator[Store]:
    """The store of `tests.e2e.shop`, for the test and for its nodes."""
    store = open_store(url)
    shop.app.use_store(store)
    yield store
    shop.app.use_store(None)
    store.close()


@pytest.fixture
def node(url: str, effects: Path, shop_store: Store) -> Iterator[Callable[..., NodeProcess]]:
    """Starts nodes of `tests.e2e.shop`; they end with the test."""
    with ExitStack() as nodes:

        def start(*flags: str, workers: int = 1, **variables: str) -> NodeProcess:
            """A node, once so many of its workers are ready."""
            node = nodes.enter_context(NodeProcess(as_given(url), effects, *flags, **variables))
            node.await_workers(workers)
            return node

        yield start
