from __future__ import annotations

import threading
from datetime import timedelta
from typing import cast

import pytest

from windlass.clock import ManualClock
from windlass.core.times import Micros, micros
from windlass.events import Events
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Store, Swept
from windlass.worker.sweeper import Sweeper


class QuietStore:
    """A store with nothing to do before the next task is due."""

    def __init__(self, due: Micros) -> None:
        self._due = due
        self.unresolved = threading.Event()

    def sweep(self) -> Swept:
        return Swept(next_due=self._due)


@pytest.mark.parametrize(
    ("due_in", "waits"),
    [
        (timedelta(seconds=0.2), 0.2),
        (timedelta(minutes=1), 0.5),
        (timedelta(milliseconds=-5), 0.01),
        (timedelta(minutes=-1), 0.5),
    ],
    ids=["soon", "later", "just now", "a clock that is ahead of the store's"],
)
def test_the_sweeper_waits_until_something_is_due(due_in: timedelta, waits: float) -> None:
    clock = ManualClock()
    started = clock.monotonic()

    Sweeper(cast("Store", QuietStore(clock.now() + micros(due_in))), Events(), clock).step()

    assert clock.monotonic() - started == pytest.approx(waits, abs=1e-5)


def test_the_sweeper_runs_at_once_when_a_settle_has_left_work_for_it() -> None:
    store = MemoryStore()
    sweeper = Sweeper(store, Events(), ManualClock())
    swept: list[Swept] = []
    sweep = store.sweep

    def sweep_during_settle() -> Swept:
        swept.append(sweep())
        if len(swept) == 1:
            store.unresolved.set()
        return swept[-1]

    store.sweep = sweep_during_settle  # type: ignore[method-assign]

    sweeper.step()
    assert store.unresolved.wait(0)
    sweeper.step()

    assert len(swept) == 2
    assert not store.unresolved.wait(0)
