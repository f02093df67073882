from __future__ import annotations

import pytest

from tests.support.builders import GAVE_UP, SECOND, in_state, run, state_of, submit_one
from tests.tui.conftest import Open, until, with_pool
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.operations import pools
from windlass.operations.access import Access
from windlass.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio
SIZE = (140, 40)


async def test_the_filter_is_the_one_language(top: Open, store: MemoryStore) -> None:
    submit_one(store, queue="mail")
    submit_one(store, queue="bulk")

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("2")
        await until(pilot, "2 shown")
        await pilot.press("slash", *"-queue:bulk", "enter")
        page = await until(pilot, "1 shown")

    assert [line.split()[3] for line in page.splitlines() if "▸ runnable" in line] == ["mail"]


async def test_a_filter_that_cannot_be_understood_is_told_and_the_old_one_stays(top: Open, store: MemoryStore) -> None:
    submit_one(store)

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("2", "slash", *"colour:red", "enter")
        await until(pilot, 'unknown field "colour"')
        page = await until(pilot, "▸ runnable")

    assert "no task matches" not in page


async def test_a_page_and_a_filter_can_be_said_in_words(top: Open, store: MemoryStore) -> None:
    in_state(store, State.FAILED)
    submit_one(store)

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("colon", *"tasks", "space", *"state:dead", "enter")
        page = await until(pilot, "1 shown")
        await pilot.press("colon", *"lab", "enter")
        await until(pilot, "lab is no page; give one of now, tasks, queues, pool, nodes")

    assert "✗ failed" in page


async def test_a_retry_waits_for_a_yes(top: Open, store: MemoryStore) -> None:
    id = in_state(store, State.FAILED)

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("2")
        await until(pilot, "✗ failed")
        await pilot.press("r")
        await until(pilot, f"Retry {id}?")
        await pilot.press("n")
        await until(pilot, "nothing was changed")
        refused = state_of(store, id)
        await pilot.press("r", "y")
        await until(pilot, f"retried {id}")
        await until(pilot, "▸ runnable")

    assert (refused, state_of(store, id)) == (State.FAILED, State.RUNNABLE)
    assert [(entry.action, entry.by) for entry in store.audit(f"task/{id}")] == [("retried", "ann")]


async def test_a_retry_of_what_has_not_ended_badly_says_so(top: Open, store: MemoryStore) -> None:
    submit_one(store)

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("2")
        await until(pilot, "▸ runnable")
        await pilot.press("r", "y")

        await until(pilot, "was not retried")

    assert store.audit() == []


async def test_the_task_under_the_cursor_is_the_one_that_is_cancelled(
    top: Open, store: MemoryStore, clock: ManualClock
) -> None:
    older = submit_one(store)
    clock.advance(SECOND)
    newer = submit_one(store)

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("2")
        await until(pilot, "2 shown")
        await pilot.press("j", "c", "y")
        await until(pilot, f"cancelled {older}")

    assert (state_of(store, older), state_of(store, newer)) == (State.CANCELLED, State.RUNNABLE)


async def test_the_cursor_stays_on_its_task_when_newer_ones_come(
    top: Open, store: MemoryStore, clock: ManualClock
) -> None:
    older = submit_one(store)

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("2")
        await until(pilot, "1 shown")
        clock.advance(SECOND)
        submit_one(store)
        await pilot.press("2")
        await until(pilot, "2 shown")
        await pilot.press("c", "y")
        await until(pilot, f"cancelled {older}")

    assert state_of(store, older) is State.CANCELLED


async def test_a_task_is_retried_from_its_own_page(top: Open, store: MemoryStore) -> None:
    submit_one(store)
    id = run(store, GAVE_UP)

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("2")
        await until(pilot, "✗ failed")
        await pilot.press("enter")
        await until(pilot, "Attempt 1")
        await pilot.press("r", "y")

        await until(pilot, f"▸ runnable  work  {id}")


async def test_a_queue_is_paused_with_a_reason_and_resumed(top: Open, store: MemoryStore) -> None:
    submit_one(store, queue="mail")

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("3")
        await until(pilot, "open")
        await pilot.press("p", *"import", "enter")
        await until(pilot, '⏸ queue mail paused by ann "import"')
        await pilot.press("u", "enter")
        await until(pilot, "mail is open again")

    assert [(entry.action, entry.text) for entry in store.audit("queue/mail")] == [
        ("resumed", "resumed the queue mail"),
        ("paused", "paused the queue mail: import"),
    ]
    assert not store.queues()[0].paused


async def test_a_pool_is_set_frozen_paused_and_resumed(top: Open, store: MemoryStore) -> None:
    with_pool(store)

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("4")
        await until(pilot, "sizes itself")
        await pilot.press("s", *"2-6", "space", *"sale", "enter")
        await until(pilot, "mail is set to 2 to 6 for 1h")
        await pilot.press("f", "enter")
        await until(pilot, "mail stays at 3")
        await pilot.press("p", *"fire", "enter")
        await until(pilot, '⏸ pool mail paused by ann "fire"')
        await pilot.press("u", "enter")
        await until(pilot, "mail sizes itself again")

    assert [entry.action for entry in pools.history(Access(store), "mail").entries] == [
        "resumed",
        "paused",
        "set",
        "set",
    ]


async def test_a_size_that_is_none_is_refused(top: Open, store: MemoryStore) -> None:
    with_pool(store)

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("4")
        await until(pilot, "sizes itself")
        await pilot.press("s", *"many", "enter")
        await until(pilot, "size='many' is no size")

    assert pools.history(Access(store), "mail").entries == []


@pytest.mark.parametrize("keys", ["2r", "2c", "3p", "3u", "4s", "4f", "4p", "4u"])
async def test_read_only_refuses_every_change(top: Open, store: MemoryStore, keys: str) -> None:
    id = in_state(store, State.FAILED)
    with_pool(store)
    page, key = keys

    async with top(writable=False).run_test(size=SIZE) as pilot:
        await pilot.press(page)
        await until(pilot, {"2": "✗ failed", "3": "open", "4": "sizes itself"}[page])
        await pilot.press(key)
        said = await until(pilot, "read-only: nothing is changed from here")

    assert "   read-only" in said.splitlines()[0]
    assert (state_of(store, id), store.audit()) == (State.FAILED, [])
