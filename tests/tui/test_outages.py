from __future__ import annotations

from threading import Event
from typing import Any

import pytest

from tests.support.builders import submit_one
from tests.tui.conftest import Open, read_again, seen, until
from windlass.errors import NotAllowed, StoreUnavailable
from windlass.stores.memory import MemoryStore
from windlass.stores.read_only import READS, read_only
from windlass.tui import app as module

pytestmark = pytest.mark.anyio
SIZE = (140, 40)


class Switched:
    """A store that can be switched off, or made to hang."""

    def __init__(self, store: MemoryStore) -> None:
        self.store, self.off, self.hung = store, False, Event()
        self.hung.set()

    def __getattr__(self, name: str) -> Any:
        if name == "counts":
            self.hung.wait()
        if self.off and name != "close":
            raise StoreUnavailable("the server does not answer")
        return getattr(self.store, name)


async def test_a_store_that_goes_away_is_a_banner_and_the_pages_recover(top: Open, store: MemoryStore) -> None:
    switched = Switched(store)
    submit_one(store)

    async with top(lambda: switched).run_test(size=SIZE) as pilot:
        await until(pilot, "runnable 1")
        switched.off = True
        away = await read_again(pilot, "✗ no answer from the store: the server does not answer")
        submit_one(store)
        switched.off = False
        await read_again(pilot, "runnable 2")

        assert "runnable 1" in away
        assert "no answer" not in seen(pilot)


async def test_a_store_that_is_away_at_the_start_is_opened_later(top: Open, store: MemoryStore) -> None:
    tries: list[int] = []

    def opened() -> MemoryStore:
        tries.append(1)
        if len(tries) == 1:
            raise StoreUnavailable("nobody listens")
        return store

    async with top(opened).run_test(size=SIZE) as pilot:
        await until(pilot, "no answer from the store: nobody listens")

        await read_again(pilot, "nothing here yet")


async def test_keys_go_on_working_while_the_store_hangs(
    top: Open, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SLOW_SECONDS", 0.0)
    switched = Switched(store)
    switched.hung.clear()

    async with top(lambda: switched, every=0.05).run_test(size=SIZE) as pilot:
        await until(pilot, "the store has not answered for")
        await pilot.press("2")
        await until(pilot, "prio")
        monkeypatch.setattr(module, "SLOW_SECONDS", 3_600.0)
        switched.hung.set()

        await until(pilot, "has not answered", gone=True)


async def test_a_task_that_is_shown_says_that_the_store_is_away(top: Open, store: MemoryStore) -> None:
    switched = Switched(store)
    submit_one(store)

    async with top(lambda: switched).run_test(size=SIZE) as pilot:
        await pilot.press("2")
        await until(pilot, "1 shown")
        await pilot.press("enter")
        await until(pilot, "Why")
        switched.off = True
        await read_again(pilot, "✗ no answer from the store")
        switched.off = False

        await read_again(pilot, "no answer", gone=True)


async def test_a_deed_that_the_store_refuses_is_told(top: Open, store: MemoryStore) -> None:
    submit_one(store)
    switched = Switched(store)

    async with top(lambda: switched).run_test(size=SIZE) as pilot:
        await pilot.press("2")
        await until(pilot, "1 shown")
        switched.off = True
        await pilot.press("c", "y")

        await until(pilot, r"^ the server does not answer|\n the server does not answer")


async def test_a_read_only_store_reads_and_writes_nothing(store: MemoryStore) -> None:
    id = submit_one(store)
    shut = read_only(store)

    assert shut.get([id]) == store.get([id])
    for name in set(dir(store)) - READS:
        if not name.startswith("_"):
            with pytest.raises(NotAllowed, match=name):
                getattr(shut, name)()
