"""Stores that many processes share: `url` is where each of them lives, for `tests.support.processes.open_store`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

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
