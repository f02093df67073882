from __future__ import annotations

from threading import Event
from typing import Any

import pytest

from tests.support.builders import submit_one
from tests.tui.conftest import Open, read_again, screen_text, until
from windlass.errors import NotAllowed, StoreUnavailable
from windlass.stores.memory import MemoryStore
from windlass.stores.read_only import READS, read_only
from windlass.tui import app as module

pytestmark = pytest.mark.anyio
SIZE = (140, 40)


class UnreliableStore:
    """A store that can be made unavailable, or made to hang."""

    def __init__(self, store: MemoryStore) -> None:
        self.store, self.off, self.hung = store, False, Event()
        self.hung.set()

    def __getattr__(self, name: str) -> Any:
        if name == "counts":
            self.hung.wait()
        if self.off and name != "close":
            raise StoreUnavailable("the server does not answer")
        return getattr(self.store, name)


async def test_an_unavailable_store_shows_a_banner_and_the_pages_recover(top: Open, store: MemoryStore) -> None:
    unreliable = UnreliableStore(store)
    submit_one(store)

    async with top(lambda: unreliable).run_test(size=SIZE) as pilot:
        await until(pilot, "runnable 1")
        unreliable.off = True
        away = await read_again(pilot, "✗ The store is unavailable: the server does not answer")
        submit_one(store)
        unreliable.off = False
        await read_again(pilot, "runnable 2")

        assert "runnable 1" in away
        assert "unavailable" not in screen_text(pilot)


async def test_a_store_that_is_unavailable_at_the_start_is_opened_later(top: Open, store: MemoryStore) -> None:
    tries: list[int] = []

    def opened() -> MemoryStore:
        tries.append(1)
        if len(tries) == 1:
            raise StoreUnavailable("nobody listens")
        return store

    async with top(opened).run_test(size=SIZE) as pilot:
        await until(pilot, "The store is unavailable: nobody listens")

        await read_again(pilot, "Nothing here yet")


async def test_keys_work_while_the_store_hangs(top: Open, store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLOW_SECONDS", 0.0)
    unreliable = UnreliableStore(store)
    unreliable.hung.clear()

    async with top(lambda: unreliable, every=0.05).run_test(size=SIZE) as pilot:
        await until(pilot, "The store has not answered for")
        await pilot.press("2")
        await until(pilot, "prio")
        monkeypatch.setattr(module, "SLOW_SECONDS", 3_600.0)
        unreliable.hung.set()

        await until(pilot, "has not answered", gone=True)


async def test_the_task_screen_warns_about_an_unavailable_store(top: Open, store: MemoryStore) -> None:
    unreliable = UnreliableStore(store)
    submit_one(store)

    async with top(lambda: unreliable).run_test(size=SIZE) as pilot:
        await pilot.press("2")
        await until(pilot, "1 shown")
        await pilot.press("enter")
        await until(pilot, "Why")
        unreliable.off = True
        await read_again(pilot, "✗ The store is unavailable")
        unreliable.off = False

        await read_again(pilot, "unavailable", gone=True)


async def test_an_error_of_a_change_is_shown(top: Open, store: MemoryStore) -> None:
    submit_one(store)
    unreliable = UnreliableStore(store)

    async with top(lambda: unreliable).run_test(size=SIZE) as pilot:
        await pilot.press("2")
        await until(pilot, "1 shown")
        unreliable.off = True
        await pilot.press("c", "enter")

        await until(pilot, r"^ the server does not answer|\n the server does not answer")


async def test_a_read_only_store_refuses_writes(store: MemoryStore) -> None:
    id = submit_one(store)
    guarded = read_only(store)

    assert guarded.get([id]) == store.get([id])
    for name in set(dir(store)) - READS:
        if not name.startswith("_"):
            with pytest.raises(NotAllowed, match=name):
                getattr(guarded, name)()
