from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.dashboard.conftest import Browser
from tests.support.builders import a_session, a_task, claim_all, complete, submit
from windlass.autoscale.observe import NodeReport, PoolReport
from windlass.autoscale.stored_state import (
    OVERRIDES,
    POOL,
    PoolDecision,
    PoolOverrides,
    decode_document,
    encode_document,
)
from windlass.clock import ManualClock
from windlass.core.task import SessionId
from windlass.core.worker_list import RunningTask, StuckProcess, WorkerList, WorkerProcess, encode_workers
from windlass.dashboard.pages import lab
from windlass.operations import nodes, pool_history, pool_simulation
from windlass.operations.access import Access
from windlass.operations.caller import Scope
from windlass.stores.coordination import Entry
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Filter

pytestmark = pytest.mark.anyio
Browse = Callable[..., Browser]
Token = Callable[..., str]
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def session(store: MemoryStore, clock: ManualClock) -> SessionId:
    """A node with a pool named mail, which has decided."""
    found = a_session(store, ttl=timedelta(hours=1), about='{"pools": {"mail": {"queues": ["mail"]}}}')
    report = NodeReport(pools={"mail": PoolReport(queues=("mail",), min=1, max=8, target=3, ready=3, running=1)})
    store.report(found, msgspec.json.encode(report).decode())
    decision = PoolDecision(
        tick=clock.now() // 1_000_000, target=3, queues=("mail",), needs=2.6, sentence="▲ 2→3", by="node-1"
    )
    assert store.put_control(POOL, "mail", encode_document(decision), expect=0)
    return found


def note(store: MemoryStore, action: str, before: int, after: int, needs: float) -> None:
    data = msgspec.json.encode({"before": before, "after": after, "needs": needs}).decode()
    text = f"▲ {before}→{after}  {HOSTILE}: needs {needs}"
    store.note([Entry(subject="pool/mail", action=action, text=text, by="node-1", data=data)])


def overrides(store: MemoryStore) -> PoolOverrides:
    [control] = store.controls(OVERRIDES)
    return decode_document(control.value, PoolOverrides)


async def test_without_a_pool_the_pages_say_how_to_get_one(browser: Browser) -> None:
    assert "No pool yet." in await browser.open("/pool")
    assert "No pool yet" in await browser.open("/lab")


@pytest.mark.usefixtures("session")
async def test_the_page_shows_sizes_the_ledger_and_the_bounds(
    browser: Browser, store: MemoryStore, clock: ManualClock
) -> None:
    note(store, "grew", 1, 2, 1.7)
    clock.advance(timedelta(minutes=2))
    note(store, "grew", 2, 3, 2.6)
    store.note([Entry(subject="pool/mail", action="alert", text="at_max", by="node-1")])
    clock.advance(timedelta(minutes=2))

    page = await browser.open("/pool")

    assert "Workers of mail: needed, had, and forecast" in page
    assert "1 to 8" in page
    assert "2→3  &lt;img src=x" in page
    assert HOSTILE not in page
    assert "The goal needs more workers than the maximum allows." in page
    assert "style=" not in page
    assert (await browser.client.get("/pool?name=nothing")).status_code == 404


@pytest.mark.usefixtures("session")
async def test_the_history_has_sizes_since_the_ledger_began(store: MemoryStore, clock: ManualClock) -> None:
    note(store, "grew", 1, 2, 1.7)
    first = clock.now()
    clock.advance(timedelta(minutes=20))
    note(store, "held", 2, 2, 5.5)
    note(store, "grew", 2, 4, 3.6)
    second = clock.now()

    whole = pool_history.read_history(Access(store, clock=clock), "mail", last=timedelta(hours=1))
    short = pool_history.read_history(Access(store, clock=clock), "mail", last=timedelta(minutes=5))

    assert whole.sizes == [(first, 1.0), (first, 2.0), (second, 4.0)]
    assert whole.needed == [(first, 1.7), (second, 5.5), (second, 3.6), (second, 2.6)]
    assert short.sizes == [(second - 300_000_000, 2.0), (second, 4.0)]
    assert short.forecast is None


async def test_workers_are_listed_with_their_state_task_and_memory(
    browser: Browser, store: MemoryStore, clock: ManualClock, session: SessionId
) -> None:
    task = RunningTask(id="0" * 32, handler=HOSTILE, since=clock.now() - 2_000_000)
    workers = (
        WorkerProcess(
            number=1, pool="mail", state="busy", since=clock.now(), pid=77, memory=90 << 20, running=1, tasks=(task,)
        ),
        WorkerProcess(number=2, pool="other", state="idle", since=clock.now(), pid=78),
    )
    store.renew(session, workers=encode_workers(WorkerList(workers=workers)))

    page = await browser.open("/pool")

    assert "90 MiB" in page
    assert "&lt;img" in page
    assert HOSTILE not in page
    assert ">77<" in page
    assert ">78<" not in page


@pytest.mark.usefixtures("session")
async def test_the_ledger_has_pages(browser: Browser, store: MemoryStore, clock: ManualClock) -> None:
    for number in range(40):
        clock.advance(timedelta(seconds=1))
        note(store, "held", 3, 3, number)

    first = await browser.open("/pool")
    assert "needs 39" in first
    assert "needs 5<" not in first.replace(" <span", "<")
    second = await browser.open(f"/pool?name=mail&before={store.audit('pool/mail', limit=30)[-1].number}")
    assert "needs 9 " in second
    assert "needs 39" not in second


@pytest.mark.usefixtures("session")
async def test_people_override_freeze_pause_and_resume_with_reason_and_expiry(
    browser: Browser, store: MemoryStore, clock: ManualClock
) -> None:
    await browser.open("/pool")

    done = await browser.post("/pool/set", name="mail", min="2", max="6", lasts="4h", why="sale")
    override = overrides(store).override
    assert override is not None
    assert (override.min, override.max, override.author, override.why) == (2, 6, "local", "sale")
    assert override.until == clock.now() / 1e6 + 4 * 3_600
    assert "Pool mail has 2 to 6 workers for 4h." in done.text
    await browser.post("/pool/freeze", name="mail", lasts="", why="")
    frozen = overrides(store).override
    assert frozen is not None
    assert (frozen.min, frozen.max) == (3, 3)
    paused = await browser.post("/pool/pause", name="mail", why="database moves")
    assert "Paused by local" in paused.text
    assert "database moves" in paused.text
    await browser.post("/pool/resume", name="mail")
    assert (overrides(store).override, overrides(store).paused) == (None, None)
    assert [entry.action for entry in store.audit("pool/mail")] == ["resumed", "paused", "set", "set"]


async def test_workers_and_nodes_are_drained_and_stopped(
    browser: Browser, store: MemoryStore, session: SessionId
) -> None:
    workers = (WorkerProcess(number=number, pool="mail", state="busy", since=0) for number in (1, 2))
    stuck = (StuckProcess(pid=4711, since=0),)
    store.renew(session, workers=encode_workers(WorkerList(workers=tuple(workers), stuck=stuck)))
    before = await browser.open("/pool")

    drained = await browser.post("/workers/drain", name="mail", session=session, worker="1", why=HOSTILE)
    stopped = await browser.post("/workers/stop", name="mail", session=session, worker="2", grace="0s")
    node = await browser.post("/nodes/drain", name="mail", session=session, why="new kernel")
    again = await browser.post("/nodes/stop", name="mail", session=session, grace="")
    unknown = await browser.post("/workers/drain", name="mail", session=session, worker="9")

    assert "Drain worker 1 of node-1" in before
    assert "process 4711 was killed and does not end" in before
    assert "Worker 1 of node-1 drains" in drained.text
    assert "busy, drain requested" in drained.text
    assert "Tasks that still run after 0 s are released" in stopped.text
    assert "asked to drain by local: new kernel" in node.text
    assert "Stop node node-1" in node.text
    assert "Node node-1 stops. Tasks that still run after 5 s are released" in again.text
    assert "Stop node node-1" not in again.text
    assert (unknown.status_code, "Its workers are 1, 2." in unknown.text) == (404, True)
    found = nodes.read_requests(store.look([], ahead=timedelta(0)).controls)
    assert [(one.worker, one.grace) for one in found] == [(1, None), (2, 0.0), (None, 5.0)]
    assert [entry.action for entry in store.audit("node/node-1")] == ["stopped", "drained", "stopped", "drained"]
    assert HOSTILE not in await browser.open("/pool")


@pytest.mark.usefixtures("session")
async def test_goal_and_bounds_are_changed_and_restored(browser: Browser, store: MemoryStore) -> None:
    await browser.open("/pool")

    await browser.post("/pool/tune", name="mail", wait="2s", min="", max="12", why="more")
    assert overrides(store).tuned == {"wait": 2.0, "max": 12}
    await browser.post("/pool/tune", name="mail", wait="2s", min="", max="", why="")
    assert overrides(store).tuned == {"wait": 2.0}
    await browser.post("/pool/tune", name="mail", wait="", min="", max="")
    nothing = await browser.post("/pool/tune", name="mail", wait="", min="", max="")

    assert overrides(store).tuned == {}
    assert "Nothing to change" in nothing.text


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(
    ("path", "fields", "message"),
    [
        ("/pool/set", {"min": "many"}, "is not a whole number"),
        ("/pool/set", {"min": "5", "max": "2"}, "out of range"),
        ("/pool/set", {"min": "5", "lasts": "soon"}, "soon"),
        ("/pool/tune", {"wait": "later"}, "later"),
        ("/pool/set", {"min": " "}, "min is empty"),
        ("/pool/set", {"min": "-1"}, "out of range"),
        ("/lab/run", {"pool": "mail", "max": "x"}, "is not a whole number"),
        ("/lab/run", {"pool": "mail", "since": "2h"}, "since"),
        ("/lab/run", {"pool": "mail", "policy": "magic"}, "magic"),
        ("/lab/run", {"pool": "mail", "wait": "later"}, "wait"),
        ("/lab/run", {"pool": "mail", "until": "yesterday"}, "until="),
        ("/lab/run", {"pool": "mail", "until": "2099-01-01T10:00"}, "is in the future"),
        ("/lab/run", {"pool": "mail", "until": "2020-01-01T10:00"}, "until=2020-01-01 10:00 UTC: "),
    ],
)
async def test_bad_input_is_refused_and_changes_nothing(
    browser: Browser, store: MemoryStore, path: str, fields: dict[str, Any], message: str
) -> None:
    await browser.open("/pool")

    answer = await browser.post(path, **({"name": "mail"} if path.startswith("/pool") else {}), **fields)

    assert answer.status_code == 422
    assert message in answer.text
    assert store.controls(OVERRIDES) == []


def work(store: MemoryStore, clock: ManualClock, number: int) -> None:
    worker = a_session(store)
    for _ in range(number):
        submit(store, a_task(queue="mail"))
        claims = claim_all(store, worker, queues=["mail"])
        clock.advance(timedelta(seconds=1))
        complete(store, *claims)


@pytest.mark.usefixtures("session")
async def test_the_lab_compares_the_pool_as_it_is_with_a_trial(
    browser: Browser, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab, "_kept", lab.KeptRuns(most=1))
    work(store, clock, 30)
    await browser.open("/lab")

    first = await browser.post("/lab/run", pool="mail", since="15m", wait="1s", min="", max="2")
    address = str(first.url)
    result = first.text
    again = await browser.open(address)
    await browser.post("/lab/run", pool="mail", since="15m")
    gone = await browser.open(address)

    assert "30 tasks in" in result
    assert "Worker-hours" in result
    assert "Longest wait, second by second" in result
    assert "30 tasks in" in again
    assert 'value="1s"' in again
    assert "This result is no longer kept." in gone


@pytest.mark.usefixtures("session")
async def test_the_lab_replays_what_happened_yesterday(
    browser: Browser, store: MemoryStore, clock: ManualClock
) -> None:
    work(store, clock, 30)  # At 08:00 UTC on 15 January 2027.
    ids = [task.id for task in store.find(Filter(), limit=100).tasks]
    clock.advance(timedelta(hours=20))
    browser.client.cookies.set("windlass_zone", "Asia/Kolkata")
    await browser.open("/lab")

    now = await browser.post("/lab/run", pool="mail", since="1h")
    await browser.open("/lab")
    then = await browser.post("/lab/run", pool="mail", since="15m", until="2027-01-15T13:40", max="2")
    store.purge(ids[:10])
    await browser.open("/lab")
    partly = await browser.post("/lab/run", pool="mail", since="15m", until="2027-01-15T13:40")

    assert (now.status_code, "completed 0 tasks" in now.text) == (422, True)
    words = re.sub(r"(<[^>]+>|\s)+", " ", then.text)
    assert "30 tasks in" in words
    assert re.search(r"From 2027-01-15 13:25:00 \+05:30 .* to 2027-01-15 13:40:00 \+05:30", words), words
    assert "are not replayed" not in words
    assert 'value="2027-01-15T13:40"' in then.text
    assert "10 more arrived then and are not replayed" in re.sub(r"(<[^>]+>|\s)+", " ", partly.text)


@pytest.mark.usefixtures("session")
async def test_trials_differ_only_in_what_they_change(store: MemoryStore, clock: ManualClock) -> None:
    work(store, clock, 30)
    trials = [pool_simulation.Trial(), pool_simulation.Trial(min=9, max=9)]

    found = pool_simulation.compare(Access(store, clock=clock), "mail", trials, since="15m")

    now, other = found.results
    assert (found.tasks, now.goal, other.goal) == (30, 5.0, 5.0)
    assert set(other.timeline.ready[5:]) == {9}
    assert other.worker_seconds > now.worker_seconds
    with pytest.raises(pool_simulation.InvalidLoad, match="trials has 0 entries"):
        pool_simulation.compare(Access(store), "mail", [])


@pytest.mark.usefixtures("session")
async def test_limited_tokens_see_no_pools_and_readers_no_buttons(
    browse: Browse, token: Token, store: MemoryStore
) -> None:
    limited, reader = browse(), browse()
    await limited.log_in(token(Scope.OPERATE, tenant="acme"))
    await reader.log_in(token(Scope.READ))

    home = await limited.open("/workflows")
    assert 'data-go="p"' not in home
    for path in ("/pool", "/lab"):
        assert (await limited.client.get(path)).status_code == 403
    assert (await limited.post("/pool/pause", name="mail")).status_code == 403
    page = await reader.open("/pool")
    assert "Pause" not in page
    assert (await reader.post("/pool/pause", name="mail")).status_code == 403
    assert store.controls(OVERRIDES) == []
