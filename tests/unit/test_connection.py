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
"""More orders to fork than a socket holds while nobody reads."""


@pytest.fixture
def ends() -> Iterator[tuple[Connection[FromParent], socket.socket]]:
    mine, theirs = socket.socketpair()
    line: Connection[FromParent] = Connection(mine, FromParent, SystemClock())
    with theirs:
        yield line, theirs
        line.close()


def send_many(line: Connection[FromParent]) -> bool:
    """Send orders, each with a socket; whether some are left."""
    left = False
    for number in range(MANY):
        ours, one = socket.socketpair()
        ours.close()
        left = line.send(Fork(number, 1), one.detach())
    return left


def test_what_did_not_fit_is_sent_when_it_is_flushed(ends: tuple[Connection[FromParent], socket.socket]) -> None:
    line, theirs = ends
    heard: list[ToParent] = []
    frames = Frames[ToParent](ToParent)

    assert send_many(line), "not all of it fits"
    with ExitStack() as sockets:
        while len(heard) < MANY:
            data, descriptors, _, _ = socket.recv_fds(theirs, 65_536, 64)
            for descriptor in descriptors:
                sockets.callback(os.close, descriptor)
            heard += frames.feed(data)
            line.flush()

    assert heard == [Fork(number, 1) for number in range(MANY)]


def test_sockets_that_were_never_sent_are_closed_with_the_line(
    ends: tuple[Connection[FromParent], socket.socket],
) -> None:
    line, theirs = ends
    before = len(list(Path("/proc/self/fd").iterdir()))

    send_many(line)
    line.close()
    theirs.close()

    assert len(list(Path("/proc/self/fd").iterdir())) <= before
