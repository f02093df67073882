"""Event streams on a real socket: what they send, to whom, and what happens to clients that do not keep up."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import httpx
import jsonschema_rs
import msgspec
import pytest
from msgspec.structs import replace

from tests.server.conftest import API, MANIFEST
from tests.server.running import running
from tests.support.builders import GAVE_UP, a_task, claim_one, report, submit, submit_one
from tests.support.tokens import create_token, revoke_token
from windlass.core.settlement import COMPLETED
from windlass.core.task import Progress
from windlass.errors import Refused, StoreUnavailable
from windlass.operations import tokens
from windlass.operations.caller import Scope
from windlass.operations.handler_catalog import HandlerCatalog
from windlass.server.events import broadcaster
from windlass.server.events.broadcaster import Broadcaster, Snapshot, Subscriber
from windlass.server.events.topics import Overview, TaskTopic, WorkflowTopic, read_states
from windlass.server.http import event_stream
from windlass.server.http.openapi import document
from windlass.server.http.routing import Mode
from windlass.server.http.serving import DRAIN_SECONDS
from windlass.server.http.store_executor import StoreExecutor
from windlass.server.http.streaming import Live
from windlass.server.routes.table import TABLE
from windlass.stores.coordination import Entry, EntrySeen
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Store
from windlass.wire.events import AuditEvent, CountsEvent, QueueCounts

DOCUMENT: dict[str, Any] = json.loads(json.dumps(document(TABLE)))


@pytest.fixture(autouse=True)
def short_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcaster, "POLL_SECONDS", 0.02)


@pytest.fixture
def busy() -> Iterator[Store]:
    store = MemoryStore()
    store.publish(MANIFEST)
    yield store
    store.close()


class Events:
    """The events of one open stream, each as `{"event": …, "id": …, "data": …}`."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.iter_lines()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        found: dict[str, Any] = {}
        for line in self._lines:
            field, _, value = line.partition(":")
            if line.startswith(":"):
                yield {"event": "comment", "data": line}
            elif line:
                found[field] = json.loads(value) if field == "data" else value.strip()
            elif found:
                yield found
                found = {}

    def next(self, kind: str) -> dict[str, Any]:
        """Return the next event of this kind."""
        return next(event for event in self if event.get("event") == kind)


@contextmanager
def listen(address: str, token: str = "", since: str = "", path: str = "/events", **params: str) -> Iterator[Events]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if since:
        headers["Last-Event-ID"] = since
    with (
        httpx.Client(timeout=20) as client,
        client.stream("GET", f"{address}{API}{path}", params=params, headers=headers) as response,
    ):
        yield Events(response)


def note(store: Store, subject: str, data: str = '{"tenant":"default"}') -> int:
    store.note([Entry(subject=subject, action="paused", text="paused", by="ann", data=data)])
    return store.audit(limit=1)[0].number


def test_counts_are_sent_when_they_change(busy: Store) -> None:
    submit_one(busy, queue="mail")

    with running(busy) as address, listen(address) as events:
        first = events.next("counts")
        submit(busy, a_task(queue="mail"), a_task(queue="bulk"))
        second = events.next("counts")

    assert events.response.headers["content-type"].startswith("text/event-stream")
    assert first["data"] == {"queues": {"mail": {"runnable": 1}}}
    assert second["data"] == {"queues": {"bulk": {"runnable": 1}, "mail": {"runnable": 2}}}


def test_a_client_resumes_after_the_last_audit_entry_it_has_seen(busy: Store) -> None:
    note(busy, "queue/old")
    with running(busy) as address:
        with listen(address) as events:
            events.next("counts")
            number = note(busy, "queue/a")
            first = events.next("audit")
        missed = [note(busy, "queue/b"), note(busy, "pool/c")]
        with listen(address, since=first["id"]) as events:
            later = [events.next("audit"), events.next("audit")]
            newest = note(busy, "queue/d")
            last = events.next("audit")

    assert (first["id"], first["data"]["subject"]) == (str(number), "queue/a")
    assert [event["id"] for event in later] == list(map(str, missed))
    assert last["id"] == str(newest)


def test_an_id_from_the_future_hides_no_entries(busy: Store) -> None:
    note(busy, "queue/old")
    with running(busy) as address, listen(address, since="9" * 18) as one, listen(address) as other:
        one.next("counts")
        other.next("counts")
        number = str(note(busy, "queue/a"))
        found = [one.next("audit")["id"], other.next("audit")["id"]]

    assert found == [number, number]


@pytest.mark.anyio
async def test_a_client_that_resumes_during_the_first_read_misses_no_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    store, threads = MemoryStore(), StoreExecutor(4, 10, 20.0)
    first = note(store, "queue/a")
    reading, resumed = threading.Event(), threading.Event()
    audit = store.audit

    def slow_audit(**options: Any) -> Any:
        if not reading.is_set():
            reading.set()
            assert resumed.wait(20)
        return audit(**options)

    monkeypatch.setattr(store, "audit", slow_audit)
    live = Broadcaster(store, threads)
    await live.join(Overview())
    assert await asyncio.to_thread(reading.wait, 20)
    subscriber = await live.join(Overview(), since=first)
    missed = note(store, "queue/b")
    resumed.set()  # Only now the first read sees the newest entry.

    async with asyncio.timeout(20):
        while not isinstance(event := await subscriber.events.get(), AuditEvent):
            pass
    live.close()
    threads.close()
    store.close()

    assert event.id == str(missed)


def test_a_stream_of_one_queue_has_nothing_of_other_queues(busy: Store) -> None:
    submit(busy, a_task(queue="mail"), a_task(queue="bulk"))

    with running(busy) as address, listen(address, queue="mail") as events:
        counts = events.next("counts")
        note(busy, "queue/bulk")
        number = note(busy, "queue/mail")
        entry = events.next("audit")

    assert counts["data"] == {"queues": {"mail": {"runnable": 1}}}
    assert entry["id"] == str(number)


def test_a_limited_token_gets_only_the_counts_of_its_own_tasks(busy: Store) -> None:
    token = create_token(busy, "acme", [Scope.READ], tenant="acme")
    submit(busy, a_task(tenant="acme"), a_task(tenant="beta"))

    with running(busy) as address, listen(address, token, since="0", seconds="0.5") as events:
        found = [event for event in events if event.get("event") not in (None, "comment")]

    assert [(event["event"], event["data"]) for event in found] == [
        ("counts", {"queues": {"default": {"runnable": 1}}})
    ]


def test_a_task_stream_sends_the_task_its_progress_and_its_audit_entries(busy: Store) -> None:
    id, other = submit_one(busy, handler="mail", args={"to": "ann", "pin": "1234"}), submit_one(busy, queue="bulk")

    with running(busy) as address, listen(address, path=f"/tasks/{id}/events") as events:
        waiting = events.next("task")
        claim = claim_one(busy)
        running_now = events.next("task")
        busy.progress([Progress(lease=claim.lease, share=0.5, message="half")])
        progress = events.next("progress")
        note(busy, f"task/{other}")
        number = note(busy, f"task/{id}")
        entry = events.next("audit")
        report(busy, claim, GAVE_UP)
        failed = events.next("task")

    assert [each["data"]["state"] for each in (waiting, running_now, failed)] == ["runnable", "leased", "failed"]
    assert {each["data"]["id"] for each in (waiting, running_now, failed)} == {str(id)}
    assert "1234" not in str(waiting)
    assert (progress["data"]["share"], progress["data"]["message"]) == (0.5, "half")
    assert (entry["id"], entry["data"]["subject"]) == (str(number), f"task/{id}")


def test_a_task_stream_sends_the_output_of_a_running_attempt_and_the_whole_of_it_at_the_end(busy: Store) -> None:
    id = submit_one(busy)
    claim = claim_one(busy)
    long = "".join(f"line {number}\n" for number in range(3_000))

    with running(busy) as address, listen(address, path=f"/tasks/{id}/events") as events:
        busy.record_output([(claim.lease, "one\npassword=abc\n")])
        first = events.next("output")["data"]
        busy.record_output([(claim.lease, long)])
        second = events.next("output")["data"]
        busy.settle([(claim.lease, replace(COMPLETED, log="done\n"))])
        last = events.next("output")["data"]

    fence = claim.lease.fence
    assert first == {"fence": fence, "text": "one\npassword=[redacted]\n", "running": True}
    assert second == {"fence": fence, "text": "".join(long.splitlines(keepends=True)[-1_000:]), "running": True}
    assert last == {"fence": fence, "text": "done\n", "running": False}


def test_a_task_stream_resumes_like_the_main_stream(busy: Store) -> None:
    id = submit_one(busy)
    first = note(busy, f"task/{id}")
    note(busy, "queue/a")
    missed = note(busy, f"task/{id}")

    with running(busy) as address, listen(address, since=str(first), path=f"/tasks/{id}/events") as events:
        entry = events.next("audit")
        task = events.next("task")

    assert entry["id"] == str(missed)
    assert task["data"]["id"] == str(id)


def test_a_workflow_stream_sends_its_counts_by_state(busy: Store) -> None:
    submit(busy, a_task(workflow="daily", key="a"), a_task(workflow="daily", key="b"), a_task(workflow="other"))

    with running(busy) as address, listen(address, path="/workflows/daily/events") as events:
        first = events.next("workflow")
        claim_one(busy)
        second = events.next("workflow")
        note(busy, "workflow/other", '{"tenant":"default"}')
        note(busy, "workflow/daily", '{"tenant":"acme"}')
        number = note(busy, "workflow/daily", '{"tenant":"default"}')
        entry = events.next("audit")

    assert first["data"] == {"workflow": "daily", "tenant": "default", "tasks": {"runnable": 2}}
    assert second["data"]["tasks"] == {"runnable": 1, "leased": 1}
    assert entry["id"] == str(number)


@pytest.mark.parametrize("scope", [{"tenant": "acme"}, {"queue": "mail"}])
def test_streams_outside_of_the_tokens_scope_do_not_exist(busy: Store, scope: dict[str, str]) -> None:
    token = create_token(busy, "limited", [Scope.READ], **scope)
    own = submit_one(busy, tenant="acme", queue="mail", workflow="own")
    other = submit_one(busy, tenant="beta", queue="bulk", workflow="other")
    note(busy, f"task/{own}")
    note(busy, "workflow/own")
    headers = {"Authorization": f"Bearer {token}", "Last-Event-ID": "0"}

    with running(busy) as address, httpx.Client(base_url=f"{address}{API}", headers=headers) as client:
        refused = [client.get(f"/tasks/{other}/events"), client.get("/workflows/other/events")]
        allowed = [client.get(f"{path}/events?seconds=0.3") for path in (f"/tasks/{own}", "/workflows/own")]

    assert [(each.status_code, each.json()["code"]) for each in refused] == [
        (404, "unknown_task"),
        (404, "unknown_workflow"),
    ]
    assert [each.status_code for each in allowed] == [200, 200]
    assert ["event: task" in allowed[0].text, "event: workflow" in allowed[1].text] == [True, True]
    assert not any("event: audit" in each.text for each in allowed)


def test_a_workflow_that_grows_into_another_queue_is_no_longer_sent() -> None:
    store = MemoryStore()
    submit(store, a_task(workflow="w", queue="own"))
    topic = WorkflowTopic(name="w", tenant="default", queue="own", unrestricted=False)
    before = read_states(store, HandlerCatalog(store), [topic])
    submit(store, a_task(workflow="w", queue="other"))

    assert before[topic]
    assert read_states(store, HandlerCatalog(store), [topic]) == {topic: []}


def test_streams_go_on_after_an_unexpected_error(
    busy: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    errors = [ValueError("damaged")]
    read = broadcaster.read_states

    def damaged(*given: Any) -> Any:
        if errors:
            raise errors.pop()
        return read(*given)

    monkeypatch.setattr(broadcaster, "read_states", damaged)
    with running(busy) as address, listen(address, seconds="5") as events:
        assert events.next("counts")

    assert "ValueError: damaged" in caplog.text


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("error", "stays"),
    [
        (StoreUnavailable("away"), True),
        (Refused("timed_out", "slow"), True),
        (Refused("overloaded", "busy"), True),
        (Refused("unauthorized", "revoked"), False),
        (Refused("forbidden", "changed"), False),
    ],
)
async def test_a_stream_stays_open_while_its_token_cannot_be_checked(
    error: Exception, stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "HEARTBEAT_SECONDS", 0.01)
    store, threads = MemoryStore(), StoreExecutor(1, 1, 5.0)

    async def check() -> None:
        raise error

    live = Live(threads, Broadcaster(store, threads), check)
    stream = event_stream.EventStream[Any](topic=Overview(), seconds=0.2)
    parts = [part async for part in event_stream.send_events(live, stream, None)]

    assert (b": heartbeat\n\n" in parts) is stays


def test_a_task_stream_ends_when_the_task_is_deleted(busy: Store) -> None:
    id = submit_one(busy)

    with running(busy) as address, listen(address, path=f"/tasks/{id}/events") as events:
        events.next("task")
        busy.cancel([id], reason="test")
        busy.purge([id])
        rest = [event["event"] for event in events]

    assert set(rest) <= {"task"}
    assert events.response.is_stream_consumed


def test_everything_that_is_streamed_is_as_the_document_says(busy: Store) -> None:
    """Validate every event of every stream against the schema that the document has for it."""
    id = submit_one(busy, workflow="daily", args={"x": 1})
    lease = claim_one(busy).lease
    busy.progress([Progress(lease=lease, share=0.5, message="half")])
    busy.record_output([(lease, "a line\n")])
    busy.put_control("pool", "daily", "{}", expect=0)
    for subject in ("queue/a", f"task/{id}", "workflow/daily"):
        note(busy, subject)
    streams = [route for route in TABLE if route.mode is Mode.EVENTS]
    seen: dict[str, set[str]] = {}

    with running(busy) as address:
        for route in streams:
            content = DOCUMENT["paths"][route.path]["get"]["responses"]["200"]["content"]
            components = {"components": DOCUMENT["components"]}
            schema = content["text/event-stream"]["schema"] | components
            validator = jsonschema_rs.validator_for(schema)
            documented = {name: ref.rpartition("/")[2] for name, ref in schema["discriminator"]["mapping"].items()}
            path = route.path.removeprefix(API).format(id=id, name="daily")
            with listen(address, since="0", path=path, seconds="0.5") as events:
                for event in events:
                    if "event" in event and event["event"] != "comment":
                        validator.validate(event | {"data": json.dumps(event["data"])})
                        shape = DOCUMENT["components"]["schemas"][documented[event["event"]]]["properties"]["data"]
                        assert shape["contentMediaType"] == "application/json"
                        jsonschema_rs.validator_for(shape["contentSchema"] | components).validate(event["data"])
                        seen.setdefault(path, set()).add(event["event"])
            assert seen[path] == documented.keys()
            assert {each["$ref"].rpartition("/")[2] for each in schema["oneOf"]} == set(documented.values())
            with pytest.raises(jsonschema_rs.ValidationError):
                validator.validate({"event": "unknown", "data": "{}"})

    assert len(streams) == 3
    assert set().union(*seen.values()) == {"counts", "pools", "audit", "task", "progress", "output", "workflow"}


def test_a_stream_ends_when_its_token_is_revoked(busy: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr(tokens, "REMEMBERED", 0.0)
    create_token(busy, "admin", [Scope.ADMIN])
    token = create_token(busy, "reader", [Scope.READ])
    id = submit_one(busy)

    with running(busy) as address:
        for path in ("/events", f"/tasks/{id}/events"):
            with listen(address, token, path=path) as events:
                events.next("comment")
                if path == "/events":
                    continue
                revoke_token(busy, "reader")
                note(busy, "queue/after")
                comments = [event for event in events if event["event"] == "comment"]

    assert events.response.is_stream_consumed
    assert len(comments) < 20


def test_all_subscribers_share_one_read_and_the_server_stops_in_time(busy: Store) -> None:
    reads: list[int] = []
    read = busy.counts

    def counts() -> Any:
        reads.append(1)
        return read()

    busy.counts = counts  # pyright: ignore[reportAttributeAccessIssue]
    with running(busy) as address:
        parts = urlsplit(address)
        request = f"GET {API}/events HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode()
        sockets = [socket.create_connection((parts.hostname, parts.port), timeout=20) for _ in range(40)]
        for each in sockets:
            each.sendall(request)
        with listen(address) as events:
            events.next("counts")
            before = len(reads)
            for number in range(3):
                submit_one(busy, queue=f"q{number}")
                events.next("counts")
            after = len(reads)
        stopping = time.monotonic()
    stopped_in = time.monotonic() - stopping
    for each in sockets:
        text = b""
        while part := each.recv(65_536):
            text += part
        assert b"event: counts" in text
        each.close()

    assert after - before < 40
    assert stopped_in < DRAIN_SECONDS / 2


def test_a_large_workflow_is_read_less_often(busy: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcaster, "MAX_COST", 1e-9)  # As if one read took hours of the time it may take.
    reads: list[str] = []
    read = busy.workflow_groups

    def workflow_groups(name: str, **options: Any) -> Any:
        reads.append(name)
        return read(name, **options)

    monkeypatch.setattr(busy, "workflow_groups", workflow_groups)
    submit_one(busy, workflow="daily")
    with running(busy) as address, listen(address, path="/workflows/daily/events") as events:
        events.next("workflow")
        assert reads
        reads.clear()
        note(busy, "workflow/daily")
        events.next("audit")
        note(busy, "workflow/daily")
        events.next("audit")

    assert reads == []


def entry(number: int, subject: str = "queue/a") -> EntrySeen:
    return EntrySeen(subject=subject, action="paused", text="", number=number, at=0)


def drain(subscriber: Subscriber) -> list[Any]:
    return [subscriber.events.get_nowait() for _ in range(subscriber.events.qsize())]


def test_a_subscriber_that_falls_behind_is_disconnected() -> None:
    subscriber = Subscriber(Overview())
    kept = [subscriber.update(Snapshot(states={}, entries=[entry(number)])) for number in range(1, 200)]

    subscriber.end()

    assert kept.count(True) == broadcaster.MAX_WAITING + 1
    assert drain(subscriber) == [None]


def test_a_burst_of_entries_does_not_end_the_stream_of_a_client_that_reads() -> None:
    subscriber = Subscriber(Overview())
    bursts = [[entry(number) for number in range(first, first + 900)] for first in (1, 901, 1_801)]

    sent: list[str] = []
    for burst in bursts:
        assert subscriber.update(Snapshot(states={}, entries=burst))
        sent += [event.id for event in drain(subscriber)]

    assert sent == [str(number) for number in range(1, 2_701)]
    assert subscriber.update(Snapshot(states={}, entries=[entry(n) for n in range(2_701, 2_800)]))
    assert not subscriber.update(Snapshot(states={}, entries=[entry(2_800)]))  # It read nothing meanwhile.


def test_a_missed_entry_is_not_sent_again() -> None:
    subscriber = Subscriber(Overview(pool="p", queue="a"), [entry(5)], 4)

    subscriber.update(Snapshot(states={}, entries=[entry(5), entry(6)]))

    assert [event.id for event in subscriber.missed if isinstance(event, AuditEvent)] == ["5"]
    assert [event.id for event in drain(subscriber)] == ["6"]


def test_an_unchanged_state_is_sent_once() -> None:
    topic = Overview()
    one, two = (CountsEvent(data=QueueCounts(queues={"a": {"runnable": number}})) for number in (1, 2))
    subscriber = Subscriber(topic)

    for event in (one, msgspec.structs.replace(one), two, two):
        assert subscriber.update(Snapshot(states={topic: [event]}))

    assert drain(subscriber) == [one, two]


def test_a_topic_that_no_longer_exists_ends_its_streams() -> None:
    topic = TaskTopic(task=submit_one(MemoryStore()))
    subscriber = Subscriber(topic)

    assert subscriber.update(Snapshot(states={}))
    assert not subscriber.update(Snapshot(states={topic: []}))


def test_subscribers_that_join_all_the_time_do_not_cause_more_reads(
    busy: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broadcaster, "POLL_SECONDS", 60.0)
    monkeypatch.setattr(broadcaster, "JOIN_SECONDS", 0.3)
    reads: list[float] = []
    read = busy.counts

    def counts() -> Any:
        reads.append(time.monotonic())
        return read()

    monkeypatch.setattr(busy, "counts", counts)
    with running(busy) as address, listen(address) as events:
        events.next("counts")
        for number in range(20):
            httpx.get(f"{address}{API}/events", params={"queue": f"q{number}", "seconds": 0.05})
        with listen(address, queue="last") as late:
            late.next("counts")

    assert len(reads) > 1
    assert min(after - before for before, after in pairwise(reads)) >= 0.25


def test_events_of_many_tasks_are_read_in_chunks_and_cut_large_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    ids = submit(store, *(a_task(args={"blob": "a" * 100_000, "n": n}) for n in range(120)))
    read: list[int] = []
    get = store.get
    monkeypatch.setattr(store, "get", lambda ids: read.append(len(ids)) or get(ids))

    states = read_states(store, HandlerCatalog(store), [TaskTopic(task=id) for id in ids])

    assert max(read) <= 50
    assert len(states) == 120
    for n, id in enumerate(ids):
        [event] = states[TaskTopic(task=id)]
        assert msgspec.to_builtins(event)["data"]["args"] == {"blob": "[cut: 100,002 bytes]", "n": n}
