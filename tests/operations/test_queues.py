"""What people change of a queue through operations."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.core.ordering import Queue
from windlass.errors import ChangedMeanwhile, InvalidTask
from windlass.operations import queues
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.conflicts import TRIES
from windlass.stores.memory import MemoryStore

ANN = Author("ann")


class Busy(MemoryStore):
    """A store in which somebody else changes the same queue after each of the first reads."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left = times

    def queues(self) -> list[Queue]:
        found = super().queues()
        if self.left:
            self.left -= 1
            self.configure(Queue(name="mail", weight=500 - self.left))
        return found


def test_a_pause_keeps_other_settings() -> None:
    store = MemoryStore()
    access = Access(store)
    store.configure(Queue(name="mail", weight=3))

    paused = queues.pause(access, "mail", ANN)

    assert paused.settings == Queue(name="mail", weight=3, paused=True, paused_by="ann")
    assert queues.resume(access, "mail", ANN).settings == Queue(name="mail", weight=3)
    assert [(entry.action, entry.by) for entry in store.audit()] == [("resumed", "ann"), ("paused", "ann")]


@pytest.mark.parametrize("settings", [queues.RESUMED, {"weight": 1}, {}], ids=str)
def test_a_change_to_the_current_settings_is_not_logged(settings: dict[str, Any]) -> None:
    store = MemoryStore()

    queues.change(Access(store), "mail", settings, ANN)

    assert store.audit() == []


def test_an_invalid_setting_is_refused() -> None:
    store = MemoryStore()

    with pytest.raises(InvalidTask, match="weight"):
        queues.change(Access(store), "mail", {"weight": 0}, ANN)

    assert (store.queues(), store.audit()) == ([], [])


def test_a_concurrent_change_is_kept() -> None:
    store = Busy(TRIES - 1)

    queues.pause(Access(store), "mail", Author("ann", "down"))

    assert store.queues() == [Queue(name="mail", weight=500, paused=True, paused_by="ann", paused_why="down")]
    assert len(store.audit()) == 1


def test_a_change_that_always_conflicts_is_refused() -> None:
    store = Busy(TRIES)

    with pytest.raises(ChangedMeanwhile, match="mail"):
        queues.pause(Access(store), "mail", Author("ann", "down"))

    assert (store.queues(), store.audit()) == ([Queue(name="mail", weight=500)], [])
