"""Reads are bounded in work and memory, and one that nobody waits for stops."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from tests.server.conftest import API, Client, Connect, problem
from tests.support.builders import a_task, submit, submit_one
from tests.support.processes import until
from windlass import call_limits
from windlass.call_limits import CallLimits, check_canceled, limited
from windlass.core.fingerprint import fingerprint
from windlass.core.query import MOST_SEARCHES, MOST_VALUES_IN_ALL, parse
from windlass.core.retry import Error
from windlass.errors import InvalidFilter, Refused, StoreUnavailable
from windlass.operations import tasks
from windlass.operations.access import Access
from windlass.server.http.store_executor import FAILURES, Outage, StoreExecutor
from windlass.server.routes import sessions, tasks_stream
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Filter, Store
from windlass.stores.sqlite import SQLiteStore, database
from windlass.wire.tasks import MAX_LISTED

pytestmark = pytest.mark.anyio


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Store]:
    store = SQLiteStore(tmp_path / "tasks.db")
    yield store
    store.close()


async def test_a_filter_that_costs_too_much_is_400(client: Client) -> None:
    too_many = " ".join(f"-word{n}" for n in range(MOST_SEARCHES // 2 + 1)) + " args.x:" + ",".join("abc" * 9)

    found = problem(await client.get(f"{API}/tasks", params={"q": too_many}), 400, "invalid_filter")

    assert str(MOST_SEARCHES) in found["detail"]


@pytest.mark.parametrize(
    ("text", "good"),
    [
        (" ".join(["-a"] * MOST_SEARCHES), True),
        ("a," * MOST_SEARCHES + "a", False),
        ("args.x:" + "a," * MOST_SEARCHES + "a", False),
        (" ".join(["handler:" + "a," * 99 + "a"] * (MOST_VALUES_IN_ALL // 100)), True),
        (" ".join(["handler:" + "a," * 99 + "a"] * (MOST_VALUES_IN_ALL // 100) + ["queue:a"]), False),
    ],
)
def test_the_values_of_a_filter_are_limited_together(text: str, good: bool) -> None:
    if good:
        parse(text)
        return
    with pytest.raises(InvalidFilter, match="use fewer"):
        parse(text)


def test_a_search_reads_a_bounded_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    ids = submit(store, *(a_task(args={"x": "a" * 1_000}) for _ in range(300)))
    monkeypatch.setattr(tasks, "MAX_SEARCHED", 50_000)
    judged: list[object] = []
    redact = tasks.redact_task
    monkeypatch.setattr(tasks, "redact_task", lambda task, catalog: judged.append(task) or redact(task, catalog))
    access, filter = Access(store), Filter(query=parse("-nothing -at -all"))

    first = tasks.find(access, filter, limit=300)

    assert first.after is not None
    assert len(judged) - len(first.tasks) <= 50_000 // (3 * 1_000) + 1
    assert {task.id for task in tasks.each(access, filter)} == set(ids)  # Nothing is lost, only later.


async def test_a_list_cuts_large_arguments_and_says_so(client: Client, store: Store) -> None:
    large = submit_one(store, args={"small": 1, "blob": "a" * 200_000, "to": "ann"})
    many = submit_one(store, args={f"n{n}": n for n in range(5_000)})
    small = submit_one(store, args={"x": "a" * 1_000})

    answer = await client.get(f"{API}/tasks")
    whole = await client.get(f"{API}/tasks/{large}")

    found = {task["id"]: task for task in answer.json()["tasks"]}
    assert found[str(large)]["args"] == {"small": 1, "blob": "[cut: 200,002 bytes]", "to": "ann"}
    assert 0 < len(found[str(many)]["args"]) < 5_000
    assert found[str(small)]["args"] == {"x": "a" * 1_000}
    assert [found[str(id)]["cut"] for id in (large, many, small)] == [["args"], ["args"], []]
    assert len(answer.content) < 4 * MAX_LISTED
    assert (len(whole.json()["args"]["blob"]), whole.json()["cut"]) == (200_000, [])


def test_a_page_has_a_bounded_size_and_the_next_one_continues(sqlite: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = submit(sqlite, *(a_task(args={"x": "a" * 10_000}) for _ in range(250)))
    monkeypatch.setattr(tasks, "MAX_PAGE_BYTES", 500_000)
    monkeypatch.setattr(tasks, "CHUNK_BYTES", 100_000)
    read: list[int] = []
    find = sqlite.find
    monkeypatch.setattr(sqlite, "find", lambda filter, **how: read.append(how["limit"]) or find(filter, **how))

    page = tasks.find(Access(sqlite), Filter(), limit=1_000)

    assert len(page.tasks) == 50
    assert page.after is not None
    assert [task.id for task in tasks.each(Access(sqlite), Filter())] == ids[::-1]
    assert max(read) == tasks.FIRST_CHUNK  # The chunks do not grow while tasks are large.


async def test_an_atomic_stream_has_a_size_limit_and_keeps_no_lines(
    client: Client, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks_stream, "MAX_ATOMIC", 50_000)
    line = b'{"handler":"work","args":{"x":"' + b"a" * 1_000 + b'"}}\n'
    parsed: list[int] = []
    parse_lines: Callable[..., Any] = tasks_stream._parse
    monkeypatch.setattr(tasks_stream, "_parse", lambda *given: parsed.append(len(given[3])) or parse_lines(*given))

    async def lines(number: int) -> Any:
        for _ in range(number):
            yield line

    async def send(number: int) -> httpx.Response:
        headers = {"Content-Type": "application/x-ndjson"}
        return await client.post(f"{API}/tasks:stream?atomic=true", content=lines(number), headers=headers)

    good, too_large = await send(40), await send(100)

    assert len(good.text.splitlines()) == 40
    problem(too_large, 413, "body_too_large")
    assert sum(count.tasks for count in store.counts()) == 40
    assert max(parsed) < 40  # Lines are parsed as they arrive.


async def test_a_claim_returns_a_bounded_number_of_bytes(
    client: Client, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MAX_CLAIM_BYTES", 50_000)
    submit(store, *(a_task(args={"x": "a" * 20_000}) for _ in range(10)))
    session = (await client.post(f"{API}/sessions", json={"node": "n"})).json()["session"]

    counts: list[int] = []
    while not counts or counts[-1]:
        claimed = await client.post(f"{API}/sessions/{session}/claim", json={"limit": 10})
        counts.append(len(claimed.json()["tasks"]))

    assert counts == [3, 3, 3, 1, 0]


def test_a_fingerprint_reads_a_traceback_of_empty_lines_once() -> None:
    # A quadratic expression needs minutes for this; the limit of the whole test would end it.
    assert fingerprint(Error(kind="E", message="m", traceback="\n" * 500_000 + " " * 500_000))


def test_a_canceled_call_stops_at_the_next_check() -> None:
    limits = CallLimits()
    with limited(limits):
        check_canceled()
        limits.canceled = True
        with pytest.raises(Refused):
            check_canceled()
        with pytest.raises(Refused):
            list(tasks.each(Access(MemoryStore()), Filter()))
    check_canceled()


async def test_a_read_that_times_out_is_canceled_and_a_write_is_not() -> None:
    threads = StoreExecutor(2, 2, 20.0)
    release, seen = threading.Event(), list[bool]()

    def work() -> None:
        assert release.wait(30)
        seen.append(call_limits.is_canceled())

    for reads in (True, False):
        release.clear()
        with pytest.raises(Refused, match=r"did not answer within 0\.05 s"):
            await threads.run(work, 0.05, reads=reads)
        release.set()
        await anyio.to_thread.run_sync(until, lambda: threads.is_idle, "the call ends")

    assert seen == [True, False]


@pytest.mark.parametrize("how", ["too long", "canceled"])
def test_a_read_of_sqlite_is_interrupted(sqlite: Store, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    submit(sqlite, *(a_task() for _ in range(2_000)))
    limits = CallLimits()
    if how == "too long":
        monkeypatch.setattr(database, "READ_SECONDS", -1.0)
    else:
        monkeypatch.setattr(database, "check_canceled", lambda: None)  # The statement must be interrupted itself.
        limits.canceled = True
    monkeypatch.setattr(database, "STEPS", 10)
    other = SQLiteStore(Path(sqlite._db._path))  # Its connection checks every ten steps.

    with limited(limits), pytest.raises(Refused) as error:
        other.find(Filter(), limit=1_000)
    other.close()

    assert error.value.code == "timed_out"


def test_a_write_of_sqlite_is_not_interrupted(sqlite: Store) -> None:
    limits = CallLimits()
    limits.canceled = True

    with limited(limits):
        id = submit_one(sqlite)

    assert sqlite.get([id]) != [None]


async def test_expensive_reads_delay_neither_work_nor_operators(connect: Connect) -> None:
    class Slow(MemoryStore):
        release = threading.Event()

        def find(self, *given: Any, **how: Any) -> Any:
            assert self.release.wait(60)
            return super().find(*given, **how)

    store = Slow()
    client = connect(over=store, threads=4, backlog=100)
    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(client.get, f"{API}/tasks")
        await anyio.sleep(0)
        submitted = await client.post(f"{API}/tasks?unchecked=true", json={"handler": "work"})
        paused = await client.post(f"{API}/queues/default/pause")
        ready = await client.get("/readyz")
        metrics = await client.get("/metrics")
        store.release.set()

    assert [each.status_code for each in (submitted, paused, ready, metrics)] == [201, 200, 200, 200]


def test_an_outage_is_known_after_a_few_failures_and_ends_with_a_success() -> None:
    now = 0.0
    outage = Outage(lambda: now)

    def is_open() -> bool:
        try:
            outage.check()
        except StoreUnavailable:
            return False
        return True

    for _ in range(FAILURES - 1):
        outage.note(StoreUnavailable("gone"))
    outage.note(InvalidFilter("", 0, "says nothing about the store"))
    before = is_open()
    outage.note(StoreUnavailable("gone"))
    during = is_open()
    now = 1.5
    probe, others = is_open(), is_open()
    outage.note(None)

    assert (before, during, probe, others, is_open()) == (True, False, True, False, True)
