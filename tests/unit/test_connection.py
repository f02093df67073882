from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from windlass.clock import SystemClock
from windlass.worker.connection import Connection
from windlass.worker.wire import Fork, Frames, FromParent, ToParent

MANY = 400
"""More fork requests than a socket buffers without a reader."""


@pytest.fixture
def ends() -> Iterator[tuple[Connection[FromParent], socket.socket]]:
    mine, theirs = socket.socketpair()
    connection: Connection[FromParent] = Connection(mine, FromParent, SystemClock())
    with theirs:
        yield connection, theirs
        connection.close()


def send_many(connection: Connection[FromParent]) -> bool:
    """Send requests, each with a socket. Return True if some are left."""
    left = False
    for number in range(MANY):
        ours, one = socket.socketpair()
        ours.close()
        left = connection.send(Fork(number, 1), one.detach())
    return left


def test_a_flush_sends_what_did_not_fit(ends: tuple[Connection[FromParent], socket.socket]) -> None:
    connection, theirs = ends
    received: list[ToParent] = []
    frames = Frames[ToParent](ToParent)

    assert send_many(connection), "some of it does not fit"
    with ExitStack() as sockets:
        while len(received) < MANY:
            data, descriptors, _, _ = socket.recv_fds(theirs, 65_536, 64)
            for descriptor in descriptors:
                sockets.callback(os.close, descriptor)
            received += frames.feed(data)
            connection.flush()

    assert received == [Fork(number, 1) for number in range(MANY)]


def test_sockets_that_were_never_sent_are_closed_with_the_connection(
    ends: tuple[Connection[FromParent], socket.socket],
) -> None:
    connection, theirs = ends
    before = len(list(Path("/proc/self/fd").iterdir()))

    send_many(connection)
    connection.close()
    theirs.close()

    assert len(list(Path("/proc/self/fd").iterdir())) <= before
