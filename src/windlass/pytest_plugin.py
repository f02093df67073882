"""Pytest fixtures for applications that use Windlass. Pytest finds them when Windlass is installed.

Imports are inside the fixtures, because every pytest run in the environment reads this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from windlass.client.app import App
    from windlass.clock import ManualClock


@pytest.fixture
def windlass_clock() -> ManualClock:
    """A clock that starts at the current time and moves only when the test advances it."""
    from windlass.clock import SystemClock
    from windlass.testing import TickingClock

    return TickingClock(SystemClock().now())


@pytest.fixture
def windlass_app(windlass_clock: ManualClock) -> Iterator[Callable[[App], App]]:
    """Give an app an empty memory store for the duration of the test, with `windlass_clock` as its clock.

    >>> def test_welcome(windlass_app, windlass_clock):
    ...     windlass_app(app)
    ...     sign_up("a@b.c")
    ...     drain(app, clock=windlass_clock, advance=True)
    """
    from windlass.wiring import open_store

    with ExitStack() as stack:

        def use(app: App) -> App:
            store = open_store("memory:", clock=windlass_clock)
            stack.callback(store.close)
            stack.enter_context(app.app_store.replaced_by(store))
            return app

        yield use
