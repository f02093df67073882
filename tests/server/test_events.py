"""Server-sent events on a real socket: what is told, to whom, and what becomes of those who do not listen."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.server.conftest import API, MANIFEST
from tests.server.running import running
from tests.support.builders import a_task, submit, submit_one
from windlass.operations import tokens
from windlass.operations.caller import Scope
from windlass.operations.tokens import create_token, revoke_token
from windlass.server.events import broadcaster
from windlass.server.events.broadcaster import Interest, Seen, Subscriber
from windlass.server.http.serving import DRAIN_SECONDS
from windlass.server.routes import events
from windlass.stores.coordination import Entry, EntrySeen
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Store


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcaster, "EVERY_SECONDS", 0.02)


@pytest.fixture
def busy() -> Iterator[Store]:
    store = MemoryStore()
    store.publish(MANIFEST)
    yield store
    store.close()


class Told:
    """What one listener is told, one event after the other."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._lines = answer.iter_lines()

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
        """The next event of this kind."""
        return next(event for event in self if event.get("event") == kind)


@contextmanager
def listening(address: str, token: str = "", since: str = "", **params: str) -> Iterator[Told]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if since:
        headers["Last-Event-ID"] = since
    with (
        httpx.Client(timeout=20) as client,
        client.stream("GET", f"{address}{API}/events", params=params, headers=headers) as answer,
    ):
        yield Told(answer)


def note(store: Store, subject: str) -> int:
    store.note([Entry(subject=subject, action="paused", text="paused", by="ann")])
    return store.audit(limit=1)[0].number


def test_counts_are_told_when_they_change(busy: Store) -> None:
    submit_one(busy, queue="mail")

    with running(busy) as address, listening(address) as told:
        first = told.next("counts")
        submit(busy, a_task(queue="mail"), a_task(queue="bulk"))
        second = told.next("counts")

    assert told.answer.headers["content-type"].startswith("text/event-stream")
    assert first["data"] == {"queues": {"mail": {"runnable": 1}}}
    assert second["data"] == {"queues": {"bulk": {"runnable": 1}, "mail": {"runnable": 2}}}


def test_entries_are_told_with_their_number_and_made_good_to_who_comes_back(busy: Store) -> None:
    note(busy, "queue/old")
    with running(busy) as address:
        with listening(address) as told:
            told.next("counts")
            number = note(busy, "queue/a")
            first = told.next("audit")
        missed = [note(busy, "queue/b"), note(busy, "pool/c")]
        with listening(address, since=first["id"]) as told:
            later = [told.next("audit"), told.next("audit")]
            newest = note(busy, "queue/d")
            last = told.next("audit")

    assert (first["id"], first["data"]["subject"]) == (str(number), "queue/a")
    assert [event["id"] for event in later] == list(map(str, missed))
    assert last["id"] == str(newest)


def test_who_asks_for_one_queue_hears_of_it_alone(busy: Store) -> None:
    submit(busy, a_task(queue="mail"), a_task(queue="bulk"))

    with running(busy) as address, listening(address, queue="mail") as told:
        counts = told.next("counts")
        note(busy, "queue/bulk")
        number = note(busy, "queue/mail")
        entry = told.next("audit")

    assert counts["data"] == {"queues": {"mail": {"runnable": 1}}}
    assert entry["id"] == str(number)


def test_a_token_that_is_limited_hears_the_counts_of_its_own_tasks(busy: Store) -> None:
    token = create_token(busy, "acme", [Scope.READ], tenant="acme")
    submit(busy, a_task(tenant="acme"), a_task(tenant="beta"))

    with running(busy) as address, listening(address, token, since="0", seconds="0.5") as told:
        heard = [event for event in told if event.get("event") != "comment" and "event" in event]

    assert [(event["event"], event["data"]) for event in heard] == [
        ("counts", {"queues": {"default": {"runnable": 1}}})
    ]


def test_a_stream_ends_when_its_token_does(busy: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr(tokens, "REMEMBERED", 0.0)
    create_token(busy, "admin", [Scope.ADMIN])
    token = create_token(busy, "reader", [Scope.READ])

    with running(busy) as address, listening(address, token) as told:
        told.next("comment")
        revoke_token(busy, "reader")
        note(busy, "queue/after")
        comments = [event for event in told if event["event"] == "comment"]

    assert told.answer.is_stream_consumed
    assert len(comments) < 20


def test_the_store_is_asked_once_for_all_who_listen_and_the_server_stops_in_time(busy: Store) -> None:
    asked: list[int] = []
    look = busy.counts

    def counts() -> Any:
        asked.append(1)
        return look()

    busy.counts = counts  # pyright: ignore[reportAttributeAccessIssue]
    with running(busy) as address:
        parts = urlsplit(address)
        request = f"GET {API}/events HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode()
        sockets = [socket.create_connection((parts.hostname, parts.port), timeout=20) for _ in range(40)]
        for each in sockets:
            each.sendall(request)
        with listening(address) as told:
            told.next("counts")
            before = len(asked)
            for number in range(3):
                submit_one(busy, queue=f"q{number}")
                told.next("counts")
            after = len(asked)
        begun = time.monotonic()
    stopped_in = time.monotonic() - begun
    for each in sockets:
        text = b""
        while part := each.recv(65_536):
            text += part
        assert b"event: counts" in text
        each.close()

    assert after - before < 40
    assert stopped_in < DRAIN_SECONDS / 2


def test_who_falls_behind_is_let_go() -> None:
    listener = Subscriber(Interest())
    heard: list[bool] = []
    for number in range(1, 200):
        entry = EntrySeen(subject="queue/a", action="paused", text="", number=number, at=0)
        heard.append(listener.send(Seen(counts=[], pools=[], entries=[entry]), {}))
    kept = heard.count(True)

    listener.end()

    # The counts and the pools were told too, once.
    assert kept + 2 == broadcaster.KEPT
    assert listener.messages.qsize() == 1
    assert listener.messages.get_nowait() is None


def test_what_was_made_good_is_not_told_again() -> None:
    first, second = (EntrySeen(subject="queue/a", action="paused", text="", number=n, at=0) for n in (5, 6))
    listener = Subscriber(Interest(pool="p", queue="a"), [first], 4)

    listener.send(Seen(counts=[], pools=[], entries=[first, second]), {})

    told = [listener.messages.get_nowait() for _ in range(listener.messages.qsize())]
    assert [message.number for message in listener.missed] == [5]
    assert [message.number for message in told if message and message.kind == "audit"] == [6]
