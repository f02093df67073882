"""A client that reads while it writes, as a line stream requires: plain HTTP/1.1 over a socket."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit


def exchange(address: str, path: str, lines: Iterable[bytes], together: int = 500) -> Iterator[dict[str, Any]]:
    """Send lines from a thread, and yield the receipts as they arrive."""
    parts = urlsplit(address)
    assert parts.hostname is not None
    assert parts.port is not None
    with socket.create_connection((parts.hostname, parts.port), timeout=120) as connection:
        head = f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/x-ndjson\r\n"
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode())
        writer = threading.Thread(target=_write, args=(connection, lines, together), daemon=True)
        writer.start()
        with connection.makefile("rb") as answer:
            assert b" 200 " in answer.readline()
            while answer.readline() != b"\r\n":
                pass
            yield from map(json.loads, _lines(answer))
        writer.join(60)


def _write(connection: socket.socket, lines: Iterable[bytes], together: int) -> None:
    group: list[bytes] = []
    for line in lines:
        group.append(line)
        if len(group) == together:
            _chunk(connection, group)
            group = []
    if group:
        _chunk(connection, group)
    connection.sendall(b"0\r\n\r\n")


def _chunk(connection: socket.socket, group: list[bytes]) -> None:
    text = b"".join(line + b"\n" for line in group)
    connection.sendall(f"{len(text):x}\r\n".encode() + text + b"\r\n")


def _lines(answer: Any) -> Iterator[bytes]:
    """Yield the lines of a chunked body."""
    rest = b""
    while size := int(answer.readline(), 16):
        *whole, rest = (rest + answer.read(size)).split(b"\n")
        answer.readline()
        yield from whole
    assert not rest
