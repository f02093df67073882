"""The proxy that tests break connections with: what it does to the bytes of a connection that stays open."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.support.proxy import HOST, Proxy


class Wire:
    """Both ends of a connection through a proxy."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self.proxy = proxy
        self.client = client
        self.server = server


@pytest.fixture
def wire() -> Iterator[Wire]:
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
        with Proxy(f"postgresql://postgres@{HOST}:{port}/any") as proxy:
            address = proxy.url.partition("@")[2].partition("/")[0].split(":")
            client = socket.create_connection((address[0], int(address[1])), timeout=20)
            server, _ = listener.accept()
            server.settimeout(20)
            with client, server:
                yield Wire(proxy, client, server)


def is_silent(end: socket.socket) -> bool:
    """Return True if nothing arrives for some times as long as a held connection takes to look again."""
    before = end.gettimeout()
    end.settimeout(0.2)
    try:
        return not end.recv(10)
    except TimeoutError:
        return True
    finally:
        end.settimeout(before)


def test_untouched_bytes_arrive(wire: Wire) -> None:
    wire.client.sendall(b"hello")
    assert wire.server.recv(10) == b"hello"

    wire.server.sendall(b"you")
    assert wire.client.recv(10) == b"you"


def test_a_one_way_connection_carries_the_other_direction_and_later_what_it_held_back(wire: Wire) -> None:
    wire.proxy.shape(to_client=False)
    wire.server.sendall(b"answer")
    wire.client.sendall(b"question")

    assert wire.server.recv(10) == b"question"
    assert is_silent(wire.client)
    wire.proxy.shape()
    assert wire.client.recv(10) == b"answer"


def test_a_half_open_connection_carries_nothing_and_can_be_reset(wire: Wire) -> None:
    wire.proxy.shape(to_client=False, to_server=False)
    wire.server.sendall(b"answer")
    wire.client.sendall(b"question")

    assert is_silent(wire.client)
    assert is_silent(wire.server)
    wire.proxy.reset()
    with suppress(ConnectionResetError):
        assert wire.client.recv(10) == b""


def test_a_trickle_delivers_everything_in_pieces(wire: Wire) -> None:
    wire.proxy.shape(piece=2, delay=0.2)
    wire.client.sendall(b"hello")

    pieces = [wire.server.recv(10)]
    while sum(map(len, pieces)) < 5:
        pieces.append(wire.server.recv(10))

    assert b"".join(pieces) == b"hello"
    assert len(pieces) > 1
