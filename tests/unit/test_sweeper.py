from __future__ import annotations

from datetime import timedelta
from typing import cast

import pytest

from windlass.clock import SystemClock
from windlass.core.times import micros
from windlass.events import Events
from windlass.stores.protocol import Store, Swept
from windlass.sweeper import Sweeper


class Turned:
    """Only notes how long it was to wait."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)


class QuietStore:
    """A store with nothing to do before a task is due, so long from now by our clock."""

    def __init__(self, due_in: timedelta) -> None:
        self._due_in = due_in

    def sweep(self) -> Swept:
        return Swept(next_due=SystemClock().now() + micros(self._due_in))


@pytest.mark.parametrize(
    ("due_in", "least", "most"),
    [
        (timedelta(seconds=0.2), 0.1, 0.2),
        (timedelta(minutes=1), 0.5, 0.5),
        (timedelta(milliseconds=-5), 0.01, 0.01),
        (timedelta(minutes=-1), 0.5, 0.5),
    ],
    ids=["soon", "later", "just now", "a clock that is ahead of the store's"],
)
def test_the_sweeper_sleeps_until_something_is_due(due_in: timedelta, least: float, most: float) -> None:
    sweeper = Sweeper(cast("Store", QuietStore(due_in)), Events())
    turned = Turned()
    sweeper.turned = turned  # type: ignore[assignment]

    sweeper.step()

    [waited] = turned.waited
    assert least <= waited <= most
