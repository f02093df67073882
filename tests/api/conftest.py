"""Apps for tests: on memory with a clock that the test controls, and on a SQLite file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass import App
from windlass.clock import ManualClock
from windlass.testing import TickingClock
from windlass.wiring import open_store


@pytest.fixture
def clock() -> ManualClock:
    return TickingClock()


@pytest.fixture
def app(clock: ManualClock) -> App:
    """An app on memory, with the test's clock."""
    return App(store=open_store("memory:", clock=clock))


@pytest.fixture(params=["memory", "sqlite"])
def real_app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[App]:
    """An app on a SQLite store."""
    app = App("memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'tasks.db'}")
    yield app
    app.close()
