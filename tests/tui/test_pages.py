from __future__ import annotations

import re
from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.support.builders import (
    GAVE_UP,
    HOUR,
    MINUTE,
    SECOND,
    a_session,
    claim_one,
    in_state,
    report,
    run,
    run_all,
    submit_one,
)
from tests.tui.conftest import Open, add_pool, read_again, screen_text, until
from windlass.clock import ManualClock
from windlass.core.breaker import BreakerState
from windlass.core.lifecycle import State
from windlass.core.limits import Limit
from windlass.core.manifest import CronInfo
from windlass.core.ordering import Queue
from windlass.core.retry import Error
from windlass.core.settlement import COMPLETED, Raised
from windlass.operations import breakers, limits, pools, tenants
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.stores.coordination import Entry
from windlass.stores.memory import MemoryStore
from windlass.tui import snapshot
from windlass.tui.app import Top
from windlass.tui.live_table import LiveTable

pytestmark = pytest.mark.anyio
SIZE = (140, 40)


@pytest.mark.parametrize("key", list("123456"))
async def test_an_empty_store_has_pages(top: Open, key: str) -> None:
    async with top().run_test(size=SIZE) as pilot:
        await pilot.press(key)
        texts = {
            "1": "Nothing here yet",
            "2": "no task matches",
            "3": "oldest wait",
            "4": "No pool yet",
            "5": "last seen",
            "6": "No tenant has tasks yet",
        }

        await until(pilot, texts[key])


@pytest.mark.parametrize("size", [(20, 6), (40, 12), (300, 90)])
async def test_the_pages_fit_terminals_of_any_size(top: Open, store: MemoryStore, size: tuple[int, int]) -> None:
    in_state(store, State.FAILED)
    add_pool(store)

    async with top().run_test(size=size) as pilot:
        for key in "123456":
            await pilot.press(key)
        await pilot.press("2", "enter", "escape", "r", "escape", "question_mark", "x", "1")

        await until(pilot, "windlass")


async def test_the_first_page_shows_counts_alerts_and_the_audit_log(
    top: Open, store: MemoryStore, clock: ManualClock
) -> None:
    in_state(store, State.FAILED)
    submit_one(store, queue="mail")
    clock.advance(3 * MINUTE)
    store.note([Entry(subject="queue/bulk", action="resumed", text="resumed queue bulk", by="ops")])
    access = Access(store, clock=clock)
    breakers.hold(access, "payments", BreakerState.OPEN, author=Author("ops", "it is down"), create=True)

    async with top().run_test(size=SIZE) as pilot:
        page = await until(pilot, "Audit log")

    assert "▸ runnable 1   ▶ leased 0   ↻ retrying 0   ◷ scheduled 0   ◇ waiting 0" in page
    assert "✓ completed 0   ✗ failed 1   – cancelled 0   ⧗ expired 0" in page
    assert "oldest wait 3 min" in page
    assert "⚠ Tasks are runnable but no node is running" in page
    assert "✗ 1 failed. `windlass dead ls`" in page
    assert "⚠ payments" in page
    assert "queue/bulk  resumed  resumed queue bulk" in page


async def test_the_completion_rate_is_measured_between_snapshots(
    top: Open, store: MemoryStore, clock: ManualClock
) -> None:
    for _ in range(10):
        submit_one(store)

    async with top().run_test(size=SIZE) as pilot:
        await until(pilot, "runnable 10")
        run_all(store)
        clock.advance(2 * SECOND)

        page = await read_again(pilot, "completed 10")

    assert "5/s completed █" in page


async def test_the_first_page_shows_pools_with_their_targets(top: Open, store: MemoryStore) -> None:
    add_pool(store)

    async with top().run_test(size=SIZE) as pilot:
        await until(pilot, r"mail  2/3 workers, 1 running, 0 runnable  \(sizes itself\)")


@pytest.mark.parametrize("key", list("123456"))
async def test_every_page_shows_who_paused_a_queue_and_why(top: Open, store: MemoryStore, key: str) -> None:
    store.configure(Queue(name="bulk", paused=True, paused_by="ops", paused_why="nightly import"))

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press(key)

        await until(pilot, '⏸ queue bulk paused by ops "nightly import"')


async def test_the_page_of_tasks_has_a_row_per_task(top: Open, store: MemoryStore, clock: ManualClock) -> None:
    submit_one(store, tenant="acme", priority=4)
    run(store, GAVE_UP)
    clock.advance(timedelta(seconds=1))  # Newest first; tasks of the same moment have no order.
    late = submit_one(store, queue="bulk", delay=HOUR)
    clock.advance(3 * MINUTE)

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("2")
        page = await until(pilot, "2 shown")

    rows = [line.split() for line in page.splitlines() if "work " in line]
    assert rows == [
        ["◷", "scheduled", "work", "bulk", "default", "0", "0", "3", "min", "ago", str(late)[-8:]],
        ["✗", "failed", "work", "default", "acme", "4", "1", "3", "min", "ago", rows[1][10], "ValueError:", "oops"],
    ]


async def test_a_task_is_shown_with_attempts_errors_and_why_without_secrets(top: Open, store: MemoryStore) -> None:
    submit_one(store, args={"to": "ann", "password": "hunter2"})
    run(store, GAVE_UP)

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("2")
        await until(pilot, "1 shown")
        await pilot.press("enter")
        page = await until(pilot, "Attempt 1")
        await pilot.press("escape")
        await until(pilot, "1 shown")

    assert '"to":"ann"' in page
    assert "hunter2" not in page
    assert "ValueError: oops" in page
    assert "● end: failed: ValueError: oops" in page


@pytest.mark.parametrize("key", list("123456"))
async def test_no_page_shows_a_secret(top: Open, store: MemoryStore, key: str) -> None:
    text = "password=hunter2hunter2 at postgresql://u:hunter2hunter2@db/x"
    submit_one(store, args={"password": "hunter2hunter2"})
    report(store, claim_one(store), Raised(Error(kind="ValueError", message=text), give_up=True))
    add_pool(store)
    access, author = Access(store), Author("ann", text)
    pools.set_size(access, "mail", 4, author=author)
    pools.pause(access, "mail", author=author)
    breakers.hold(access, "bank", BreakerState.OPEN, author=author, create=True)
    store.configure(Queue(name="bulk", paused=True, paused_by="ann", paused_why=text))
    store.note([Entry(subject="pool/mail", action="set", text=text, by="ann")])

    async with top().run_test(size=(300, 60)) as pilot:
        await pilot.press(key)
        page = await until(pilot, "paused by ann")

    assert "hunter2" not in page
    assert "redacted" in page


async def test_why_shows_only_the_gates(top: Open, store: MemoryStore) -> None:
    submit_one(store)

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("2")
        await until(pilot, "1 shown")
        await pilot.press("w")
        page = await until(pilot, "● node: no node is alive")

    assert "args" not in page


async def test_control_characters_do_not_reach_the_terminal(top: Open, store: MemoryStore) -> None:
    store.note([Entry(subject="pool/x", action="set", text="\x1b[2J[red]boo[/red]", by="x")])

    async with top().run_test(size=SIZE) as pilot:
        page = await until(pilot, "boo")

    assert "�[2J[red]boo[/red]" in page
    assert "\x1b" not in page


async def test_queues_show_counts_oldest_waits_and_pauses(top: Open, store: MemoryStore, clock: ManualClock) -> None:
    submit_one(store, queue="mail")
    clock.advance(90 * SECOND)
    submit_one(store, queue="mail")
    store.configure(Queue(name="bulk", paused=True, paused_by="ops"))

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("3")
        page = await until(pilot, "1.5 min")

    [mail] = [line.split() for line in page.splitlines() if line.startswith(" mail")]
    assert mail == ["mail", "2", "0", "0", "0", "0", "0", "1.5", "min", "–", "priority", "open"]


async def test_a_pool_shows_its_override_and_its_audit_log(top: Open, store: MemoryStore) -> None:
    add_pool(store)
    pools.set_size(Access(store), "mail", 4, author=Author("ops", "sale"))

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("4")
        page = await until(pilot, "Audit log")

    assert "1 to 8, wait goal" in page
    assert "set by hand" in page
    assert "pool/mail  set  set to 4 by ops for 1:00:00: sale" in page


async def test_nodes_are_shown_with_their_pools(top: Open, store: MemoryStore, clock: ManualClock) -> None:
    add_pool(store)
    store.close_session(a_session(store, "node-b"))
    clock.advance(2 * SECOND)

    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("5")
        page = await until(pilot, "node-a")

    rows = {line.split()[0]: line.split()[1:] for line in page.splitlines() if line.startswith(" node-")}
    assert rows["node-a"] == ["mail", "mail", "2/3", "1", "2", "s", "ago", "1", "died"]
    assert rows["node-b"][-2:] == ["✗", "lost"]


@pytest.mark.parametrize(
    ("keys", "text"),
    [("gn", "completed"), ("gt", "shown|matches"), ("gq", "oldest wait"), ("gp", "size by"), ("go", "last seen")],
)
async def test_a_page_is_reached_by_its_letter(top: Open, keys: str, text: str) -> None:
    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("5" if keys == "gn" else "1", *keys)

        await until(pilot, text)


async def test_the_list_of_keys_closes_with_the_next_key(top: Open) -> None:
    async with top().run_test(size=SIZE) as pilot:
        await pilot.press("question_mark")
        await until(pilot, "show these keys")
        await pilot.press("x")

        await until(pilot, "show these keys", gone=True)


async def test_light_and_dark_have_different_colors(top: Open, store: MemoryStore) -> None:
    submit_one(store)
    app = top()

    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("2")
        dark = await until(pilot, "▸ runnable")
        before = state_colors(app)
        await pilot.press("d")
        await pilot.pause()

        assert (before, state_colors(app)) == ({"#50e6f0"}, {"#1463d0"})
        assert screen_text(pilot) == dark


def state_colors(app: Top) -> set[str]:
    """Return the colors of the states in the table of tasks."""
    return {str(cell.style).lower() for cell in app.query_one("#task-rows", LiveTable).get_column("state")}


async def test_tenants_show_shares_limits_and_settings(top: Open, store: MemoryStore) -> None:
    access = Access(store)
    store.configure(Queue(name="fair", fair=True))
    for tenant, seconds in (("acme", 30), ("beta", 10)):
        submit_one(store, queue="fair", tenant=tenant)
        [claim] = store.claim(a_session(store), ["fair"], 1)
        store.settle([(claim.lease, replace(COMPLETED, ran=seconds * 1_000_000))])
        submit_one(store, queue="fair", tenant=tenant)
    tenants.set_weight(access, "beta", 3, Author("ann"))
    limits.put(access, Limit(tenant="acme", max_running=0), Author("ann", "noisy"))

    async with top().run_test(size=(140, 40)) as pilot:
        await pilot.press("6")
        page = await until(pilot, "Fair queues")
        await pilot.press("j")
        other = await until(pilot, "3 by ann")

    assert "fair: last minute due 25.0%, got 75.0%, borrowed 50.0% · last hour due 25.0%" in page
    assert 'tenant acme: 0 at once, 0 running, no more may start, set by ann: "noisy"' in page
    assert "weight     3 by ann" in other


async def test_only_the_busiest_tenants_are_listed(
    top: Open, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "MOST_TENANTS", 2)
    for tenant in ("a", "b", "b", "c"):
        submit_one(store, tenant=tenant)

    async with top().run_test(size=(140, 40)) as pilot:
        await pilot.press("6")
        page = await until(pilot, " b +2")

    assert [line.split()[0] for line in page.splitlines() if "open" in line] == ["a", "b"]


async def test_crons_show_their_next_run_or_why_there_is_none_and_are_paused(top: Open, store: MemoryStore) -> None:
    for name, handler in (("hourly", "work"), ("orphan", "gone")):
        store.put_cron(CronInfo(name=name, handler=handler, schedule="every 1h"), expect=0)
    store.open_session("box", about='{"handlers": ["work"], "crons": []}')

    async with top().run_test(size=(160, 40)) as pilot:
        await pilot.press("7")
        page = await until(pilot, "no live node has the handler gone")
        await pilot.press("p", *"import", "enter")
        paused = await until(pilot, "paused by ann")

    assert re.search(r"hourly +work +every 1h +Every 1h +UTC +run time +\d", page)
    assert 'paused by ann "import"' in paused
    assert [cron.paused for cron in store.crons()] == [True, False]
