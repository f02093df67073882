"""Clients that are slow, many or do not read cost the server a bounded time and a bounded number of connections."""

from __future__ import annotations

import logging
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.server.conftest import API, MANIFEST, problem
from tests.server.running import running
from tests.support.builders import a_task, submit
from tests.support.processes import until
from tests.support.tokens import create_token
from windlass.operations.caller import Scope
from windlass.refused_requests import refused_requests
from windlass.server.http import connection_middleware, connections, serving
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Store

GET = b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
def store() -> Iterator[Store]:
    store = MemoryStore()
    store.publish(MANIFEST)
    yield store
    store.close()


@pytest.fixture(autouse=True)
def before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start all counts at zero: they are those of the process."""
    monkeypatch.setattr(refused_requests, "connections", 0)
    monkeypatch.setattr(refused_requests, "_counts", type(refused_requests._counts)())


def connected(address: str, **options: int) -> socket.socket:
    parts = urlsplit(address)
    connection = socket.socket()
    for name, value in options.items():
        connection.setsockopt(socket.SOL_SOCKET, getattr(socket, name), value)
    connection.settimeout(20)
    connection.connect((str(parts.hostname), int(parts.port or 0)))
    return connection


def read_all(connection: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    answer = b""
    try:
        while more := connection.recv(65_536):
            answer += more
    except ConnectionError:
        pass
    return answer


@contextmanager
def streams(address: str, number: int, token: str = "") -> Iterator[None]:
    """Keep this many requests running: event streams."""
    bearer = f"Authorization: Bearer {token}\r\n".encode() if token else b""
    head = (GET % f"{API}/events".encode())[:-2] + bearer + b"\r\n"
    with ExitStack() as stack:
        for _ in range(number):
            connection = stack.enter_context(closing(connected(address)))
            connection.sendall(head)
            assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
        yield


def test_a_response_that_is_not_read_is_dropped(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.1)
    monkeypatch.setattr(connections, "SEND_SECONDS", 0.5)
    submit(store, *(a_task(args={"x": "a" * 4_000}) for _ in range(2_000)))

    with running(store) as address, closing(connected(address, SO_RCVBUF=4_096)) as connection:
        for _ in range(4):
            connection.sendall(GET % f"{API}/tasks?limit=1000".encode())
        until(lambda: refused_requests.counts()["unread_response"] > 0, "the client is cut off")
        until(lambda: refused_requests.connections == 0, "the connection is gone")


def test_a_body_that_drips_after_an_error_is_not_waited_for(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_middleware, "LINGER_SECONDS", 0.2)
    monkeypatch.setattr(connections, "HEADER_SECONDS", 60.0)  # It must not be what ends the connection.
    create_token(store, "ci", [Scope.READ])
    head = f"POST {API}/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"

    with running(store) as address, closing(connected(address)) as connection:
        connection.sendall(head.encode() + b"Content-Length: 1000000\r\n\r\n{")
        answer = read_all(connection)

    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"connection: close" in answer.lower()


def test_a_client_that_is_refused_while_it_sends_sees_the_answer(store: Store) -> None:
    create_token(store, "ci", [Scope.READ])

    with running(store) as address:
        for _ in range(5):
            answer = httpx.post(f"{address}{API}/tasks", content=b"x" * 900_000)
            problem(answer, 401, "unauthorized")


def test_an_idle_connection_makes_room_for_a_new_one(store: Store) -> None:
    with running(store, connections_per_address=3) as address, ExitStack() as stack:
        idle = [stack.enter_context(closing(connected(address))) for _ in range(3)]
        until(lambda: refused_requests.connections == 3, "all are open")

        health = httpx.get(f"{address}/healthz")

        assert read_all(idle[0]) == b""  # The oldest was closed.
        idle[2].sendall(GET % b"/healthz")
        assert idle[2].recv(100).startswith(b"HTTP/1.1 200 ")

    assert health.status_code == 200
    assert refused_requests.counts()["evicted_idle"] == 1


def test_clients_that_drip_after_an_error_make_room_for_others(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_middleware, "LINGER_SECONDS", 30.0)
    secret = create_token(store, "ci", [Scope.READ])
    head = f"POST {API}/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n".encode()

    with running(store, connections_per_address=3) as address, ExitStack() as stack:
        for _ in range(3):
            slow = stack.enter_context(closing(connected(address)))
            slow.sendall(head)
            assert slow.recv(100).startswith(b"HTTP/1.1 401 ")

        answer = httpx.get(f"{address}{API}/tasks", headers={"Authorization": f"Bearer {secret}"})

    assert answer.status_code == 200
    assert refused_requests.counts()["evicted_idle"] == 1


def test_an_address_with_only_busy_connections_gets_health_checks(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "windlass.server")
    with running(store, connections_per_address=2) as address, streams(address, 2):
        answers = {httpx.get(f"{address}{API}/tasks").status_code for _ in range(5)}
        health = httpx.get(f"{address}/healthz")

    assert (answers, health.status_code) == ({503}, 200)
    assert refused_requests.counts()["address_connections"] == 5
    assert caplog.text.count("address_connections") == 1  # One line, however many they are.


def test_health_checks_have_connections_of_their_own(store: Store) -> None:
    with running(store, connections=2) as address:
        with streams(address, 2):
            answers = [httpx.get(f"{address}{path}") for path in ("/healthz", "/readyz", f"{API}/tasks")]
        until(lambda: refused_requests.connections == 0, "the streams are gone")
        later = httpx.get(f"{address}{API}/tasks")

    assert [answer.status_code for answer in answers] == [200, 200, 503]
    problem(answers[2], 503, "overloaded")
    assert later.status_code == 200
    assert refused_requests.counts()["server_connections"] == 1


def test_beyond_the_reserve_a_connection_is_refused_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "RESERVED", 0)
    with running(store, connections=1) as address, streams(address, 1), closing(connected(address)) as late:
        assert read_all(late).startswith(b"HTTP/1.1 503 ")

    assert refused_requests.counts()["server_connections"] == 1


def test_one_token_cannot_take_all_connections(store: Store) -> None:
    mine, other = create_token(store, "mine", [Scope.ADMIN]), create_token(store, "other", [Scope.ADMIN])

    def ask(address: str, token: str) -> httpx.Response:
        return httpx.get(f"{address}{API}/tasks", headers={"Authorization": f"Bearer {token}"})

    with running(store, requests_per_token=2) as address:
        with streams(address, 2, mine):
            refused, served = ask(address, mine), ask(address, other)
        until(lambda: ask(address, mine).status_code == 200, "the place is free again")

    problem(refused, 429, "too_many_requests")
    assert int(refused.headers["retry-after"]) > 0
    assert served.status_code == 200
    assert refused_requests.counts()["token_requests"] >= 1


def test_large_responses_are_refused_while_too_many_bytes_are_unread(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(store, *(a_task(args={"x": "a" * 1_000}) for _ in range(200)))

    with running(store) as address:
        before = httpx.get(f"{address}{API}/tasks?limit=200")
        monkeypatch.setattr(connection_middleware, "MAX_UNSENT", 100_000)
        large, small = httpx.get(f"{address}{API}/tasks?limit=200"), httpx.get(f"{address}{API}/tasks?limit=1")

    assert before.status_code == small.status_code == 200
    problem(large, 503, "overloaded")
    assert refused_requests.counts()["unsent_bytes"] == 1


def test_the_metrics_show_connections_and_refusals(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.1)

    with running(store) as address:
        with closing(connected(address)) as slow:
            assert read_all(slow).startswith(b"HTTP/1.1 408 ")
        text = httpx.get(f"{address}/metrics").text

    assert 'windlass_http_refused_total{reason="slow_request"} 1.0' in text
    assert "windlass_http_connections 1.0" in text


@pytest.fixture
def file_limit() -> Iterator[tuple[int, int]]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield limits
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_server_process_raises_its_file_limit(file_limit: tuple[int, int]) -> None:
    _, hard = file_limit
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))

    found = serving.raise_file_limit()

    assert found == resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(hard, serving.MAX_FILES)


def test_there_are_never_more_connections_than_files(store: Store, file_limit: tuple[int, int]) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, file_limit[1]))

    limits: Any = serving._limits(serving.ServerSettings())
    behind = serving._limits(serving.ServerSettings(behind_proxy=True))

    assert (limits.total, limits.per_address) == (512 - serving.OTHER_FILES,) * 2
    assert behind.per_address == behind.total
