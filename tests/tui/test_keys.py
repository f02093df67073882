from __future__ import annotations

import pytest

from tests.support.builders import GAVE_UP, SECOND, in_state, run, state_of, submit_one
from tests.tui.conftest import Open, add_pool, until
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.worker_list import RunningTask, StuckProcess, WorkerList, WorkerProcess, encode_workers
from windlass.operations import audit, nodes, tenants
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.stores.memory import MemoryStore
from windlass.tui.messages import Refresh
from windlass.tui.tasks import TasksPage

pytestmark = pytest.mark.anyio
SIZE = (140, 40)


async def test_tasks_are_filtered(top: Open, store: MemoryStore) -> None:
    submit_one(store, queue="mail")
    submit_one(store, queue="bulk")

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("2")
        await until(pilot, "2 shown")
        await pilot.press("slash", *"-queue:bulk", "enter")
        page = await until(pilot, "1 shown")

    assert [line.split()[3] for line in page.splitlines() if "▸ runnable" in line] == ["mail"]


async def test_an_invalid_filter_is_reported_and_the_old_one_stays(top: Open, store: MemoryStore) -> None:
    submit_one(store)

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("2", "slash", *"colour:red", "enter")
        await until(pilot, 'unknown field "colour"')
        page = await until(pilot, "▸ runnable")

    assert "no task matches" not in page


async def test_the_error_of_a_filter_stays_on_screen_and_disarms_the_keys(top: Open, store: MemoryStore) -> None:
    id = submit_one(store)

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("2", "slash", *"colour:red", "enter")
        await until(pilot, 'unknown field "colour"')
        submit_one(store, queue="mail")
        pilot.app.query_one(TasksPage).post_message(Refresh())
        await until(pilot, "mail")
        page = await until(pilot, 'unknown field "colour"')
        await pilot.press("escape", "c")
        await pilot.pause()
        dialogs = len(pilot.app.screen_stack)
        await pilot.press("slash", *["backspace"] * 10, "enter")
        await until(pilot, "2 shown")
        await pilot.press("c")
        await until(pilot, "Cancel")

    assert "Keys do nothing" in page
    assert dialogs == 1
    assert state_of(store, id) is State.RUNNABLE


async def test_a_command_opens_a_page_with_a_filter(top: Open, store: MemoryStore) -> None:
    in_state(store, State.FAILED)
    submit_one(store)

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("colon", *"tasks", "space", *"state:dead", "enter")
        page = await until(pilot, "1 shown")
        await pilot.press("colon", *"lab", "enter")
        await until(pilot, "'lab' is not a page. Use one of now, tasks, queues, pool, nodes, tenants.")

    assert "✗ failed" in page


async def test_a_worker_and_a_node_are_drained_and_stopped(top: Open, store: MemoryStore, clock: ManualClock) -> None:
    session = add_pool(store)
    task = RunningTask(id=str(session), handler="shop.pay", since=clock.now())
    workers = [
        WorkerProcess(number=1, pool="mail", state="idle", since=clock.now(), pid=41, memory=64 << 20),
        WorkerProcess(number=2, pool="mail", state="busy", since=clock.now(), running=1, tasks=(task,)),
    ]
    stuck = (StuckProcess(pid=4711, since=0),)
    store.renew(session, workers=encode_workers(WorkerList(workers=tuple(workers), stuck=stuck)))

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("5")
        page = await until(pilot, "worker 2")
        await pilot.press("down", "down", "x")
        await until(pilot, "Worker 2 of node-a takes nothing new")
        await pilot.press(*"leaks", "enter")
        await until(pilot, "Worker 2 of node-a drains")
        await until(pilot, "busy, drain requested")
        await pilot.press("up", "X")
        await until(pilot, "Worker 1 of node-a exits; tasks that still run after 5 s are released")
        await pilot.press("enter")
        await until(pilot, "idle, stop requested")
        await pilot.press("up", "x")
        await until(pilot, "The node ends.")
        await pilot.press(*"kernel", "enter")
        await until(pilot, "the node was asked to drain by ann: kernel")

    assert "pid 41, 64 MiB" in page
    assert "process 4711 was killed and does not end" in page
    assert "shop.pay" in page
    found = nodes.read_requests(store.look([], ahead=SECOND).controls)
    assert [(one.worker, one.verb, one.why) for one in found] == [
        (2, "drain", "leaks"),
        (1, "stop", ""),
        (None, "drain", "kernel"),
    ]
    assert [entry.by for entry in store.audit("node/node-a")] == ["ann"] * 3


async def test_a_retry_needs_confirmation_and_takes_a_reason(top: Open, store: MemoryStore) -> None:
    id = in_state(store, State.FAILED)

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("2")
        await until(pilot, "✗ failed")
        await pilot.press("r")
        await until(pilot, f"Retry task {id}?")
        await pilot.press("escape")
        await until(pilot, "Nothing was changed.")
        refused = state_of(store, id)
        await pilot.press("r", *"fixed", "enter")
        await until(pilot, f"Retried task {id}.")
        await until(pilot, "▸ runnable")

    assert (refused, state_of(store, id)) == (State.FAILED, State.RUNNABLE)
    [entry] = store.audit(f"task/{id}")
    assert (entry.action, entry.by, entry.text) == ("retried", "ann", f"retried work {id}: fixed")


async def test_a_retry_of_a_runnable_task_is_refused(top: Open, store: MemoryStore) -> None:
    submit_one(store)

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("2")
        await until(pilot, "▸ runnable")
        await pilot.press("r", "enter")

        await until(pilot, "was not retried")

    assert store.audit() == []


async def test_the_task_under_the_cursor_is_cancelled(top: Open, store: MemoryStore, clock: ManualClock) -> None:
    older = submit_one(store)
    clock.advance(SECOND)
    newer = submit_one(store)

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("2")
        await until(pilot, "2 shown")
        await pilot.press("j", "c", "enter")
        await until(pilot, f"Cancelled task {older}")

    assert (state_of(store, older), state_of(store, newer)) == (State.CANCELLED, State.RUNNABLE)


async def test_the_cursor_stays_on_its_task_when_newer_tasks_appear(
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
        await pilot.press("c", "enter")
        await until(pilot, f"Cancelled task {older}")

    assert state_of(store, older) is State.CANCELLED


async def test_a_task_is_retried_from_its_screen(top: Open, store: MemoryStore) -> None:
    submit_one(store)
    id = run(store, GAVE_UP)

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("2")
        await until(pilot, "✗ failed")
        await pilot.press("enter")
        await until(pilot, "Attempt 1")
        await pilot.press("r", "enter")

        await until(pilot, f"▸ runnable  work  {id}")


async def test_a_queue_is_paused_with_a_reason_and_resumed(top: Open, store: MemoryStore) -> None:
    submit_one(store, queue="mail")

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("3")
        await until(pilot, "open")
        await pilot.press("p", *"import", "enter")
        await until(pilot, '⏸ queue mail paused by ann "import"')
        await pilot.press("u", "enter")
        await until(pilot, "Queue mail is open.")

    assert [(entry.action, entry.text) for entry in store.audit("queue/mail")] == [
        ("resumed", "resumed queue mail"),
        ("paused", "paused queue mail: import"),
    ]
    assert not store.queues()[0].paused


async def test_a_pool_is_set_frozen_paused_and_resumed(top: Open, store: MemoryStore) -> None:
    add_pool(store)

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("4")
        await until(pilot, "sizes itself")
        await pilot.press("s", *"2-6", "space", *"sale", "enter")
        await until(pilot, "Pool mail has size 2 to 6 for 1h.")
        await pilot.press("f", "enter")
        await until(pilot, "Pool mail stays at 3")
        await pilot.press("p", *"fire", "enter")
        await until(pilot, '⏸ pool mail paused by ann "fire"')
        await pilot.press("u", "enter")
        await until(pilot, "Pool mail sizes itself again")

    assert [entry.action for entry in audit.find(Access(store), "pool/mail").entries] == [
        "resumed",
        "paused",
        "set",
        "set",
    ]


async def test_an_invalid_size_is_refused(top: Open, store: MemoryStore) -> None:
    add_pool(store)

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("4")
        await until(pilot, "sizes itself")
        await pilot.press("s", *"many", "enter")
        await until(pilot, "size='many' is not a size")

    assert store.audit("pool/mail") == []


@pytest.mark.parametrize("keys", ["2r", "2c", "3p", "3u", "4s", "4f", "4p", "4u"])
async def test_read_only_refuses_every_change(top: Open, store: MemoryStore, keys: str) -> None:
    id = in_state(store, State.FAILED)
    add_pool(store)
    page, key = keys

    async with top(writable=False).run_test(size=SIZE) as pilot:
        await pilot.press(page)
        await until(pilot, {"2": "✗ failed", "3": "open", "4": "sizes itself"}[page])
        await pilot.press(key)
        page_text = await until(pilot, "Read-only: changes are not allowed.")

    assert "   read-only" in page_text.splitlines()[0]
    assert (state_of(store, id), store.audit()) == (State.FAILED, [])


async def test_a_queue_is_weighted_and_made_fair(top: Open, store: MemoryStore) -> None:
    submit_one(store, queue="mail")

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("3")
        await until(pilot, "open")
        await pilot.press("w", *"many", "enter")
        await until(pilot, "weight='many' is not a weight. Use a number from 1 to 1000.")
        await pilot.press("w", *"3", "space", *"sale", "enter")
        await until(pilot, "priority, weight 3")
        await pilot.press("f", "enter")
        await until(pilot, "priority, fair, weight 3")
        await pilot.press("f")
        await until(pilot, "no longer take turns")
        await pilot.press("enter")
        await until(pilot, "Queue mail is not fair.")

    [queue] = store.queues()
    assert (queue.weight, queue.fair) == (3, False)
    assert store.audit("queue/mail")[-1].text == "set weight=3 of queue mail: sale"


async def test_a_tenant_is_weighted_paused_and_resumed(top: Open, store: MemoryStore) -> None:
    submit_one(store, tenant="acme")

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("6")
        await until(pilot, "acme")
        await pilot.press("w", *"5", "space", *"sale", "enter")
        await until(pilot, "Tenant acme has weight 5.")
        await until(pilot, 'weight +5 by ann: "sale"')
        await pilot.press("p", *"noisy", "enter")
        await until(pilot, '⏸ tenant acme paused by ann "noisy"')
        await pilot.press("u", "enter")
        await until(pilot, "Tenant acme is open.")
        await pilot.press("w", *"none", "enter")
        await until(pilot, "Tenant acme has weight 1.")

    assert [entry.action for entry in store.audit("tenant/acme")] == ["weighted", "resumed", "paused", "weighted"]
    assert store.controls("tenant") == []


async def test_many_paused_tenants_are_one_line(top: Open, store: MemoryStore) -> None:
    for number in range(4):
        tenants.pause(Access(store), f"t{number}", Author("ann"), create=True)

    async with top().run_test(size=SIZE) as pilot:
        page = await until(pilot, "⏸ 4 tenants are paused")

    assert "⏸ tenant" not in page
