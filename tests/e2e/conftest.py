"""Stores that many processes share. `url` is for `tests.support.processes.open_store`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e import shop
from tests.support.nodes import NodeProcess, as_given
from tests.support.processes import ProcessGroup, open_store
from windlass.stores.protocol import Store


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a new, empty store on disk."""
    if request.param == "sqlite":
        return str(tmp_path / "windlass.db")
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """Open the store for the test, and migrate it before other processes open it."""
    store = open_store(url)
    yield store
    store.close()


@pytest.fixture
def group(store: Store) -> Iterator[ProcessGroup]:
    """Start processes that end with the test, before its store is closed."""
    with ProcessGroup() as group:
        yield group


@pytest.fixture
def effects(tmp_path: Path) -> Path:
    """Return the file in which the handlers of `tests.e2e.shop` record what they did."""
    return tmp_path / "effects.jsonl"


@pytest.fixture
def shop_store(url: str) -> Iterator[Store]:
    """Open the store of `tests.e2e.shop`, for the test and for its nodes."""
    store = open_store(url)
    shop.app.use_store(store)
    yield store
    shop.app.use_store(None)
    store.close()


@pytest.fixture
def node(url: str, effects: Path, shop_store: Store) -> Iterator[Callable[..., NodeProcess]]:
    """Start nodes of `tests.e2e.shop` that end with the test."""
    with ExitStack() as nodes:

        def start(*flags: str, workers: int = 1, **variables: str) -> NodeProcess:
            """Start a node and wait until this many of its workers are ready."""
            node = nodes.enter_context(NodeProcess(as_given(url), effects, *flags, **variables))
            node.await_workers(workers)
            return node

        yield start
