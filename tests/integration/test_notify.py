from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from tests.integration import members
from tests.integration.checks import opened
from tests.integration.threads import InThread
from tests.support.builders import SECOND, a_task, claim_all, submit, submit_one
from tests.support.processes import ProcessGroup, until
from windlass.clock import monotonic
from windlass.errors import StoreError
from windlass.stores.postgres import PostgresStore, notify
from windlass.stores.postgres.notify import QUIET

LONG = timedelta(seconds=30)
SHORT = timedelta(milliseconds=20)


class Listener:
    """Receives every notification; all earlier ones have arrived when our own comes back."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        connection.execute("LISTEN windlass")
        connection.execute("LISTEN the_end")

    def received(self) -> Counter[str]:
        self._connection.execute("NOTIFY the_end")
        received: Counter[str] = Counter()
        for hint in self._connection.notifies():
            if hint.channel == "the_end":
                return received
            received[hint.payload.partition("/")[0]] += 1
        raise AssertionError("the connection was closed")


@pytest.fixture
def listener(shared_url: str) -> Iterator[Listener]:
    with psycopg.connect(shared_url, autocommit=True) as connection:
        yield Listener(connection)


class Hand:
    """A clock for the debouncing, moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = monotonic()
        monkeypatch.setattr(notify, "monotonic", lambda: self.now)


@pytest.fixture
def hand(monkeypatch: pytest.MonkeyPatch) -> Hand:
    return Hand(monkeypatch)


def woken(store: PostgresStore, action: Callable[[], object]) -> bool:
    """Return True if an action wakes up a waiting thread. It is repeated until the thread waits."""
    call = InThread(lambda: store.wait_for_work(["default"], LONG))
    until(lambda: action() is not None and not call.is_alive(), "the waiter has woken")
    return call.answer()


def listeners(admin: psycopg.Connection) -> list[int]:
    """The backends that listen for a store."""
    text = "SELECT pid FROM pg_stat_activity WHERE application_name = 'windlass-listen' AND query LIKE 'LISTEN%%'"
    return [pid for (pid,) in admin.execute(text + " AND datname = current_database()", []).fetchall()]


def test_a_submit_in_one_process_wakes_a_waiter_in_another(store: PostgresStore, shared_url: str) -> None:
    with ProcessGroup() as group:
        waiter = group.start(members.waiter, url=shared_url)
        waiter.receive()
        call = InThread(waiter.receive)
        until(lambda: submit_one(store) is not None and not call.is_alive(), "the other process has woken")

        assert call.answer() is True


def test_many_wake_ups_in_a_moment_are_one_notification(store: PostgresStore, listener: Listener, hand: Hand) -> None:
    for _ in range(100):
        store._db.notify(["busy"])
    at_once = listener.received()
    hand.now += 2 * QUIET
    for _ in range(100):
        store._db.notify(["busy"])

    assert at_once == {"busy": 1}
    assert listener.received() == {"busy": 1}


@pytest.mark.usefixtures("store")
def test_a_store_is_not_woken_a_second_time_by_its_own_notification(listener: Listener, shared_url: str) -> None:
    """A claim that finds nothing costs as much as one that finds a task."""
    with opened(shared_url) as own, opened(shared_url) as other:
        own.wait_for_work(["default"], SHORT)
        until(lambda: other._db.notify(["default"]) or own.wait_for_work(["default"], SHORT), "it listens")
        while own.wait_for_work(["default"], 10 * SHORT):
            pass
        listener.received()

        own._db.notify(["default"])

        assert own.wait_for_work(["default"], SHORT) is True
        assert own.wait_for_work(["default"], 10 * SHORT) is False
        assert listener.received() == {"default": 1}, "others are notified"


@pytest.mark.usefixtures("hand")
def test_every_queue_is_quiet_for_itself(store: PostgresStore, listener: Listener) -> None:
    store._db.notify(["a"])
    store._db.notify(["a", "b"])
    store._db.notify(["b", "c"])

    assert listener.received() == {"a": 1, "b": 1, "c": 1}


def test_a_stream_of_submits_notifies_no_more_often_than_it_may(store: PostgresStore, listener: Listener) -> None:
    began = monotonic()
    for _ in range(100):
        submit_one(store)
    seconds = monotonic() - began

    assert 1 <= listener.received()["default"] <= seconds / QUIET + 1


@pytest.mark.usefixtures("hand")
def test_nothing_is_notified_when_nothing_can_be_claimed(store: PostgresStore, listener: Listener) -> None:
    submit(store, a_task(delay=timedelta(hours=1)))

    assert listener.received() == {}


def test_the_listener_comes_back_after_its_connection_is_lost(
    store: PostgresStore, shared_url: str, shared_admin: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "jitter", lambda low, high: 0.0)
    with opened(shared_url) as other:
        assert woken(other, lambda: submit_one(store))
        [first] = listeners(shared_admin)
        shared_admin.execute("SELECT pg_terminate_backend(%s)", [first])
        until(lambda: listeners(shared_admin) not in ([], [first]), "it listens again")

        assert woken(other, lambda: submit_one(store))


def test_one_listener_serves_all_threads(
    store: PostgresStore, shared_url: str, shared_admin: psycopg.Connection
) -> None:
    with opened(shared_url) as other:
        calls = [InThread(lambda: other.wait_for_work(["default"], LONG)) for _ in range(4)]
        until(lambda: submit_one(store) is not None and not any(call.is_alive() for call in calls), "all have woken")

        assert [call.answer() for call in calls] == [True] * 4
        assert len(listeners(shared_admin)) == 1


def test_another_queues_hint_wakes_nobody(store: PostgresStore, shared_url: str) -> None:
    with opened(shared_url) as other:
        assert woken(other, lambda: submit_one(store))
        until(lambda: not other.wait_for_work(["default"], SHORT * 10), "the last hint of those submits has arrived")
        call = InThread(lambda: other.wait_for_work(["default"], SHORT * 5))
        while call.is_alive():
            submit_one(store, queue="elsewhere")

        assert call.answer() is False


def test_without_listening_polling_finds_the_work(
    store: PostgresStore, shared_url: str, shared_admin: psycopg.Connection
) -> None:
    with opened(shared_url, pooler=True) as deaf:
        id = submit_one(store)
        hint = deaf.wait_for_work(["default"], SHORT)

        assert hint is False
        assert [claim.id for claim in claim_all(deaf)] == [id]
        assert listeners(shared_admin) == []


def test_without_listening_a_submit_in_the_same_process_still_wakes(store: PostgresStore, shared_url: str) -> None:
    with opened(shared_url, pooler=True) as deaf:
        assert woken(deaf, lambda: submit_one(deaf))


def test_behind_a_pooler_hints_come_from_the_server_itself(store: PostgresStore, shared_url: str) -> None:
    with opened(shared_url, pooler=True, listen_url=shared_url) as other:
        assert woken(other, lambda: submit_one(store))


def test_a_wake_up_that_cannot_be_sent_is_only_logged(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(queues: object) -> None:
        raise psycopg.OperationalError("too many notifications in the NOTIFY queue")

    monkeypatch.setattr(store._db._lines().hints, "_notify", fail)
    with caplog.at_level(logging.WARNING, notify.__name__):
        submit_one(store, queue="never-rung-before", deadline=SECOND)  # a plain one sends its hint along

    assert "could not send a wake-up" in caplog.text
    assert len(claim_all(store, queues=["never-rung-before"])) == 1


def test_a_store_that_is_closed_while_a_thread_connects_keeps_no_connection(
    shared_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = PostgresStore(shared_url)
    make = ConnectionPool.__init__

    def close_first(*args: Any, **options: Any) -> None:
        late.close()  # As another thread would at this moment.
        make(*args, **options)

    monkeypatch.setattr(ConnectionPool, "__init__", close_first)
    with pytest.raises(StoreError, match="closed"):
        late.wait_for_work(["default"], LONG)

    assert late._db._lines().pool.closed
    assert "windlass-listen" not in {thread.name for thread in threading.enumerate()}
