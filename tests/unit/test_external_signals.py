from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit

import pytest

from windlass.worker.external_signals import STALE_AFTER, UNREADABLE, _Reading, query_prometheus, smooth  # pyright: ignore[reportPrivateUsage]


@contextmanager
def prometheus(answer: Any) -> Iterator[tuple[str, list[str]]]:
    """Run a server that gives every query this answer. Yield its URL and the queries."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(parse_qs(urlsplit(self.path).query)["query"][0])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, format: str, *args: Any) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", asked
        finally:
            server.shutdown()
            thread.join()


def a_vector(*values: str) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": "vector", "result": [{"value": [1, each]} for each in values]}}


def test_the_series_of_a_query_are_added_up() -> None:
    with prometheus(a_vector("2", "3.5")) as (url, asked):
        assert query_prometheus(url, 'sum(free{db="a b"})') == 5.5
        assert asked == ['sum(free{db="a b"})']


def test_a_scalar_is_used_unchanged() -> None:
    with prometheus({"status": "success", "data": {"resultType": "scalar", "result": [1, "7"]}}) as (url, _):
        assert query_prometheus(url, "7") == 7.0


@pytest.mark.parametrize(
    "answer", [a_vector(), a_vector("NaN"), a_vector("+Inf"), {"status": "error"}, [], a_vector("x")]
)
def test_an_answer_without_a_number_is_refused(answer: Any) -> None:
    with prometheus(answer) as (url, _), pytest.raises(ValueError):  # noqa: PT011 also errors of msgspec
        query_prometheus(url, "free")


def test_a_reading_moves_halfway_in_one_half_life() -> None:
    reading = _Reading(value=100.0, at=0.0)

    assert smooth(reading, 0.0, 10.0, half_life=10.0) == 50.0
    assert smooth(reading, 0.0, 10.0, half_life=0.0) == 0.0
    assert smooth(reading, 0.0, 2 * STALE_AFTER, half_life=1e9) == 0.0, "the old value is too old"


class Server(socketserver.BaseRequestHandler):
    """Answers every request with the same bytes."""

    answer = b""

    def handle(self) -> None:
        self.request.recv(65_536)
        self.request.sendall(self.answer)


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    handler = type("Handler", (Server,), {"answer": answer})
    with socketserver.TCPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x00\xff garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"a" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b'HTTP/1.1 200 OK\r\n\r\n{"data":{"resultType":"vector","result":' + b"[" * 100_000,
    ],
)
def test_a_broken_answer_is_a_signal_that_cannot_be_read(answer: bytes) -> None:
    """Anything else would end the node, after ten failures in a minute."""
    with answering(answer) as url, pytest.raises(UNREADABLE):
        query_prometheus(url, "load")


def test_a_redirect_is_not_followed() -> None:
    with prometheus(a_vector("5")) as (elsewhere, asked):
        location = f"HTTP/1.1 302 Found\r\nLocation: {elsewhere}api/v1/query?query=x\r\n\r\n".encode()
        with answering(location) as url, pytest.raises(HTTPError, match="302"):
            query_prometheus(url, "x")
        assert asked == []
