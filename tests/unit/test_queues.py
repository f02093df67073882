from __future__ import annotations

from typing import Any

import pytest

from windlass.core.ordering import Queue
from windlass.errors import ChangedMeanwhile, InvalidTask
from windlass.operations.queues import RESUMED, TRIES, change_queue, paused, queue_of
from windlass.stores.coordination import Entry
from windlass.stores.memory import MemoryStore

DONE = Entry(subject="queue/mail", action="set", text="set it", by="ann")


class Busy(MemoryStore):
    """A store in which somebody else sets the same queue after it was read, so many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left = times

    def queues(self) -> list[Queue]:
        found = super().queues()
        if self.left:
            self.left -= 1
            self.configure(Queue(name="mail", weight=500 - self.left))
        return found


def test_what_is_not_named_stays_as_it_is() -> None:
    store = MemoryStore()
    store.configure(Queue(name="mail", weight=3))

    assert change_queue(store, "mail", paused("ann", ""), DONE)

    assert queue_of(store, "mail") == Queue(name="mail", weight=3, paused=True, paused_by="ann")
    assert change_queue(store, "mail", RESUMED, DONE)
    assert queue_of(store, "mail") == Queue(name="mail", weight=3)
    assert len(store.audit()) == 2


@pytest.mark.parametrize("settings", [RESUMED, {"weight": 1}, {}], ids=str)
def test_setting_what_is_set_already_changes_nothing(settings: dict[str, Any]) -> None:
    store = MemoryStore()

    assert not change_queue(store, "mail", settings, DONE)

    assert store.audit() == []


def test_a_setting_that_cannot_be_followed_is_refused() -> None:
    store = MemoryStore()

    with pytest.raises(InvalidTask, match="weight"):
        change_queue(store, "mail", {"weight": 0}, DONE)

    assert (store.queues(), store.audit()) == ([], [])


def test_what_another_has_set_meanwhile_is_kept() -> None:
    store = Busy(TRIES - 1)

    assert change_queue(store, "mail", paused("ann", "down"), DONE)

    assert store.queues() == [Queue(name="mail", weight=500, paused=True, paused_by="ann", paused_why="down")]
    assert len(store.audit()) == 1


def test_who_is_overtaken_again_and_again_is_told() -> None:
    store = Busy(TRIES)

    with pytest.raises(ChangedMeanwhile, match="mail"):
        change_queue(store, "mail", paused("ann", "down"), DONE)

    assert (store.queues(), store.audit()) == ([Queue(name="mail", weight=500)], [])
