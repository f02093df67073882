from __future__ import annotations

from datetime import timedelta
from typing import cast

import pytest

from windlass.clock import SystemClock
from windlass.core.times import micros
from windlass.events import Events
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Store, Swept
from windlass.worker.sweeper import Sweeper


class Turned:
    """Only notes how long it was to wait."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    def clear(self) -> None:
        pass

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)


class QuietStore:
    """A store with nothing to do before a task is due, so long from now by our clock."""

    def __init__(self, due_in: timedelta) -> None:
        self._due_in = due_in
        self.unresolved = Turned()

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
    store = QuietStore(due_in)

    Sweeper(cast("Store", store), Events()).step()

    [waited] = store.unresolved.waited
    assert least <= waited <= most


def test_the_sweeper_comes_at_once_when_a_settle_has_left_something_to_it() -> None:
    store = MemoryStore()
    sweeper = Sweeper(store, Events())
    swept: list[Swept] = []
    sweep = store.sweep

    def settled_meanwhile() -> Swept:
        swept.append(sweep())
        if len(swept) == 1:
            store.unresolved.set()
        return swept[-1]

    store.sweep = settled_meanwhile  # type: ignore[method-assign]

    sweeper.step()
    assert store.unresolved.wait(0)
    sweeper.step()

    assert len(swept) == 2
    assert not store.unresolved.wait(0)
