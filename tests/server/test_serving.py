"""The server as a process of its own, with a real socket and a SQLite file."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
import psutil
import pytest

from tests.server.conftest import API, MANIFEST, problem
from tests.server.duplex import exchange
from tests.server.running import running
from tests.support.processes import until
from tests.support.tokens import create_token
from windlass.operations.caller import Scope
from windlass.server.http import connections, serving
from windlass.server.http.serving import Serving
from windlass.server.settings import ServerSettings
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Store
from windlass.stores.sqlite import SQLiteStore


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


@pytest.fixture
def sqlite(file: Path) -> Iterator[Store]:
    store = SQLiteStore(file)
    store.publish(MANIFEST)
    yield store
    store.close()


@contextmanager
def process(file: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `windlass server` on a free port; yields the process and its address."""
    command = [sys.executable, "-m", "windlass", "server", "--store", f"sqlite:///{file}", "--port", "0", *options]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert started.stderr is not None
        line = started.stderr.readline()
        match = re.search(r"listening on (\S+)", line)
        assert match, line + started.stderr.read()
        yield started, match[1]
    finally:
        started.kill()
        started.communicate()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_process_serves_and_exits_cleanly(file: Path, sqlite: Store, how: signal.Signals) -> None:
    with process(file) as (server, address):
        made = httpx.post(f"{address}{API}/tasks", json={"handler": "mail", "args": {"to": "ann"}})
        read = httpx.get(f"{address}{API}/tasks/{made.json()['id']}")
        server.send_signal(how)
        status = server.wait(20)

    assert address.startswith("http://127.0.0.1:")
    assert (made.status_code, read.json()["state"]) == (201, "runnable")
    assert status == 0
    assert sum(count.tasks for count in sqlite.counts()) == 1


def test_by_default_it_listens_on_loopback_only(file: Path, sqlite: Store) -> None:
    with process(file) as (server, _):
        listening = [
            each.laddr.ip for each in psutil.Process(server.pid).net_connections() if each.status == psutil.CONN_LISTEN
        ]

    assert listening == ["127.0.0.1"]


@pytest.mark.parametrize(
    ("options", "status", "named"),
    [
        (["--host", "0.0.0.0"], 2, "windlass token create"),
        (["--allow-host", "windlass.example"], 2, "windlass token create"),
        (["--root-path", "x"], 2, "root_path"),
    ],
)
def test_a_process_that_would_be_open_to_everybody_does_not_start(
    file: Path, options: list[str], status: int, named: str
) -> None:
    command = [sys.executable, "-m", "windlass", "server", "--store", f"sqlite:///{file}", "--port", "0", *options]

    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)

    assert (done.returncode, named in done.stderr) == (status, True), done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_in_use_is_reported(sqlite: Store) -> None:
    with running(sqlite) as address:
        port = urlsplit(address).port
        assert port is not None
        with pytest.raises(serving.InvalidSettings, match=str(port)):
            Serving(sqlite, ServerSettings(port=port))


def test_small_responses_are_not_delayed(sqlite: Store) -> None:
    server = Serving(sqlite, ServerSettings(port=0))

    # asyncio sets TCP_NODELAY only for sockets with an explicit protocol.
    assert server.listener.proto == socket.IPPROTO_TCP
    server.listener.close()


def test_under_a_root_path_requests_work_with_and_without_the_prefix(sqlite: Store) -> None:
    with running(sqlite, root_path="/x/y") as address:
        for base in (address, address.removesuffix("/x/y")):
            made = httpx.post(f"{base}{API}/tasks", json={"handler": "work"})
            assert httpx.get(urljoin(f"{base}{API}/tasks", made.headers["location"])).json()["handler"] == "work"
            assert httpx.get(f"{base}/healthz").status_code == 200
        assert httpx.get(f"{address}z/healthz").status_code == 404
    assert address.endswith("/x/y")


def test_a_token_created_by_one_process_is_valid_in_another(file: Path, sqlite: Store) -> None:
    with process(file) as (_, address):
        open_to_all = httpx.get(f"{address}{API}/tasks")
        secret = create_token(sqlite, "ci", [Scope.READ])

        def closed() -> bool:
            return httpx.get(f"{address}{API}/tasks").status_code == 401

        until(closed, "the server requires a token")
        with_token = httpx.get(f"{address}{API}/tasks", headers={"Authorization": f"Bearer {secret}"})

    assert (open_to_all.status_code, with_token.status_code) == (200, 200)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_with_tls_it_serves_clients_that_have_a_token(sqlite: Store, tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, *subject]
    subprocess.run(command, check=True, capture_output=True)
    secret = create_token(sqlite, "ci", [Scope.READ])
    trusted = ssl.create_default_context(cafile=str(cert))

    with running(sqlite, host="0.0.0.0", tls_cert=str(cert), tls_key=str(key)) as address:
        assert address.startswith("https://")
        url = address.replace("0.0.0.0", "127.0.0.1")
        with httpx.Client(verify=trusted, base_url=url) as client:
            without = client.get(f"{API}/tasks")
            with_token = client.get(f"{API}/tasks", headers={"Authorization": f"Bearer {secret}"})

    assert (without.status_code, with_token.status_code) == (401, 200)


def raw(address: str, text: bytes) -> bytes:
    """Send bytes, and read until the server closes the connection."""
    parts = urlsplit(address)
    with socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=30) as connection:
        connection.sendall(text)
        answer = b""
        while more := connection.recv(65_536):
            answer += more
    return answer


PARTIAL = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow:"
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.mark.parametrize("sent", [b"", PARTIAL, WHOLE + PARTIAL], ids=["nothing", "partial", "pipelined"])
def test_a_connection_is_closed_when_headers_do_not_arrive(
    sqlite: Store, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.2)

    with running(sqlite) as address:
        answer = raw(address, sent)
        other = httpx.get(f"{address}/healthz")

    assert answer.count(b"HTTP/1.1 200 ") == sent.count(WHOLE)
    assert answer.rpartition(b"HTTP/1.1 ")[2].startswith(b"408 ")
    assert other.status_code == 200


@pytest.mark.parametrize(
    "head",
    [PARTIAL, WHOLE + PARTIAL, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n"],
    ids=["first headers", "later headers", "ignored body"],
)
def test_a_client_that_sends_one_byte_at_a_time_is_disconnected(
    sqlite: Store, monkeypatch: pytest.MonkeyPatch, head: bytes
) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.3)

    with running(sqlite) as address:
        started = time.monotonic()
        answer = trickle(address, head)
        seconds = time.monotonic() - started

    assert answer.rpartition(b"HTTP/1.1 ")[2].startswith(b"408 ")
    assert seconds < 5


def test_a_slow_body_is_refused_and_the_connection_closed(sqlite: Store) -> None:
    head = b"POST /api/v1/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"

    with running(sqlite, request_seconds=0.3) as address:
        answer = trickle(address, head + b"Content-Length: 999\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"code":"request_too_slow"' in answer


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_request_may_run_longer_than_its_headers_took(
    sqlite: Store, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.2)

    with running(sqlite, host=host) as address, httpx.Client(base_url=f"{address}{API}") as client:
        session = client.post("/sessions", json={"node": "n"}).json()["session"]
        claimed = client.post(f"/sessions/{session}/claim", json={"wait_seconds": 0.8})

    assert (claimed.status_code, claimed.json()) == (200, {"tasks": []})


def trickle(address: str, head: bytes) -> bytes:
    """Send `head`, then one byte every 20 ms until the server closes the connection."""
    parts = urlsplit(address)
    answer = b""
    with socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=0.02) as connection:
        connection.sendall(head)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                more = connection.recv(65_536)
                if not more:
                    return answer
                answer += more
            except TimeoutError:
                connection.sendall(b"x")
            except ConnectionError:
                return answer
    raise AssertionError("the server did not close the connection")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", b"200"),
        (b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n", b"400"),
        (b"GET /healthz HTTP/1.0\r\n\r\n", b"403"),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n", b"400"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", b"4"),
        (b"POST /api/v1/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", b"400"),
        (
            b"POST /api/v1/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            b"400",
        ),
    ],
    ids=lambda value: repr(value[:60]),
)
def test_malformed_requests_are_answered_and_the_connection_closed(sqlite: Store, sent: bytes, status: bytes) -> None:
    with running(sqlite) as address:
        answer = raw(address, sent)

    assert answer.split(b" ", 2)[1].startswith(status), answer
    assert answer.count(b"HTTP/1.1 ") == 1, answer


def task_lines(number: int) -> Iterator[bytes]:
    for n in range(number):
        yield b'{"handler":"mail","args":{"to":"somebody-%d@example.org"},"key":"k%d"}' % (n, n)


def streamed(file: Path, number: int) -> tuple[int, int]:
    """Stream lines into a server process. Returns the number of good receipts and the memory growth in bytes."""
    with process(file) as (server, address):
        list(exchange(address, f"{API}/tasks:stream", task_lines(2_000)))
        memory = psutil.Process(server.pid).memory_info
        before, most, good = memory().rss, 0, 0
        for count, receipt in enumerate(exchange(address, f"{API}/tasks:stream", task_lines(number))):
            good += "error" not in receipt
            if count % 1_000 == 0:
                most = max(most, memory().rss)
    return good, most - before


@pytest.mark.slow
def test_memory_does_not_grow_with_fifty_thousand_lines(file: Path, sqlite: Store) -> None:
    good, growth = streamed(file, 50_000)

    assert good == 50_000
    assert growth < 50 * 2**20
    assert sum(count.tasks for count in sqlite.counts()) == 50_000


@pytest.mark.soak
def test_memory_does_not_grow_with_a_million_lines(file: Path, sqlite: Store) -> None:
    """Only the page caches of SQLite fill up: 64 MB for each of the two or three threads that write the lines."""
    good, growth = streamed(file, 1_000_000)

    assert good == 1_000_000
    assert growth < (3 * 64 + 20) * 2**20


@pytest.mark.slow
def test_a_body_of_a_hundred_megabytes_is_refused_without_memory_growth(file: Path, sqlite: Store) -> None:
    def body() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * 2**20

    with process(file) as (server, address):
        memory = psutil.Process(server.pid).memory_info
        before = memory().rss
        try:
            answer: Any = httpx.post(
                f"{address}{API}/tasks", content=body(), headers={"Content-Type": "application/json"}, timeout=60
            )
            problem(answer, 413, "body_too_large")
        except httpx.TransportError:
            pass  # It stopped reading while we still wrote.
        growth = memory().rss - before
        alive = httpx.get(f"{address}/healthz")

    assert growth < 50 * 2**20
    assert alive.status_code == 200


def test_a_server_in_a_thread_starts_and_stops() -> None:
    with running(MemoryStore()) as first, running(MemoryStore()) as second:
        assert first != second
