"""A server whose PostgreSQL stops and restarts."""

from __future__ import annotations

import threading
from typing import Any

import httpx
import pytest
from psycopg_pool import ConnectionPool

from tests.server.conftest import API, MANIFEST, problem
from tests.server.duplex import exchange
from tests.server.running import running
from tests.support.processes import until
from tests.support.servers import PostgresServer
from tests.support.tokens import create_token
from windlass.operations.caller import Scope
from windlass.server.http.store_executor import FAILURES
from windlass.stores.postgres import PostgresStore

pytestmark = pytest.mark.slow


def test_requests_get_503_while_postgres_is_down_and_succeed_afterwards(
    own_postgres_server: PostgresServer,
) -> None:
    store = PostgresStore(own_postgres_server.url(own_postgres_server.create_database()))
    store.publish(MANIFEST)
    with running(store, request_seconds=5.0) as address, httpx.Client(base_url=address, timeout=15) as client:
        made = client.post(f"{API}/tasks", json={"handler": "work", "key": "k"})
        own_postgres_server.stop()

        submitted = client.post(f"{API}/tasks", json={"handler": "work", "key": "l"})
        read = client.get(f"{API}/tasks/{made.json()['id']}")
        health, ready = client.get("/healthz"), client.get("/readyz")

        own_postgres_server.start()

        def served() -> bool:
            return client.get(f"{API}/tasks/{made.json()['id']}").status_code == 200

        until(served, "the server serves again")
        again = client.post(f"{API}/tasks", json={"handler": "work", "key": "l"})
    store.close()

    assert made.status_code == 201
    for answer in (submitted, read):
        found = problem(answer, 503, answer.json()["code"])
        assert found["code"] in ("store_unavailable", "commit_unknown", "timed_out")
        assert "retry-after" in answer.headers
        assert "5432" not in answer.text
        assert "/" not in found["detail"]
    assert (health.status_code, ready.status_code) == (200, 503)
    assert again.status_code in (200, 201)


def test_a_stream_interrupted_by_an_outage_can_be_sent_again(own_postgres_server: PostgresServer) -> None:
    store = PostgresStore(own_postgres_server.url(own_postgres_server.create_database()))
    store.publish(MANIFEST)
    half_sent, answered, gone = threading.Event(), threading.Event(), threading.Event()

    def lines(*, interrupted: bool) -> Any:
        for n in range(2_000):
            if interrupted and n == 1_000:
                half_sent.set()
                assert gone.wait(60)
            yield b'{"handler":"work","key":"k%d"}' % n

    def stop() -> None:
        assert half_sent.wait(60)
        assert answered.wait(60)  # What has not begun is refused whole; this is about what has.
        own_postgres_server.stop()
        gone.set()

    with running(store, request_seconds=5.0) as address:
        stopper = threading.Thread(target=stop)
        stopper.start()
        first: list[Any] = []
        for receipt in exchange(address, f"{API}/tasks:stream", lines(interrupted=True), together=100):
            first.append(receipt)
            answered.set()
        stopper.join(60)
        own_postgres_server.start()
        second = list(exchange(address, f"{API}/tasks:stream", lines(interrupted=False), together=100))
    store_counts = sum(count.tasks for count in store.counts())
    store.close()

    created = sum(receipt.get("created", False) for receipt in first)
    assert "error" in first[-1]
    assert len(second) == 2_000
    assert [receipt for receipt in second if "error" in receipt] == []
    assert created + sum(receipt["created"] for receipt in second) <= 2_000
    assert store_counts == 2_000


def test_while_postgres_is_away_answers_are_quick_and_the_metrics_say_so(
    own_postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore(own_postgres_server.url(own_postgres_server.create_database()))
    read, other = create_token(store, "prometheus", [Scope.READ]), "wdl_other"
    asked: list[object] = []
    getconn = ConnectionPool.getconn

    def counted(pool: Any, timeout: float | None = None) -> Any:
        asked.append(timeout)
        return getconn(pool, timeout)

    def get(client: httpx.Client, path: str, token: str) -> httpx.Response:
        return client.get(path, headers={"Authorization": f"Bearer {token}"})

    with running(store) as address, httpx.Client(base_url=address, timeout=60) as client:
        up = get(client, "/metrics", read)
        own_postgres_server.stop()
        until(lambda: get(client, f"{API}/queues", read).status_code == 503, "the store is gone")
        monkeypatch.setattr(ConnectionPool, "getconn", counted)
        first = [get(client, f"{API}/queues", read) for _ in range(FAILURES)]
        before = len(asked)
        later = [get(client, f"{API}/queues", read) for _ in range(50)]
        tried = len(asked) - before
        metrics, refused = get(client, "/metrics", read), get(client, "/metrics", other)
        own_postgres_server.start()
        until(lambda: get(client, f"{API}/queues", read).status_code == 200, "the server serves again")
    store.close()

    assert "windlass_up 1.0" in up.text
    assert {answer.status_code for answer in first + later} == {503}
    assert all(timeout is not None and timeout <= 2.0 for timeout in asked)
    assert tried < 10  # Most answers came without waiting for PostgreSQL.
    assert (metrics.status_code, refused.status_code) == (200, 401)
    assert "windlass_up 0.0" in metrics.text
