"""The ticket queue between a node and one worker: a pipe that both read from.

The node writes the ticket of each assignment that the worker may start. A ticket can be read only once: by the worker
when it starts the assignment, or by the node when it takes back what has not started. The kernel decides who is first,
so the node can take back assignments without an answer from the worker, even if the worker hangs.
"""

from __future__ import annotations

import array
import os
import select
import struct
from contextlib import suppress

EXIT_TICKET = 0
"""The ticket that asks the worker to exit."""

_TICKET = struct.Struct("=q")
_AT_ONCE = 512
"""Tickets in one write. A pipe accepts this few bytes completely or not at all."""


class TicketQueue:
    """The node's side of the queue."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def duplicate_reader(self) -> int:
        """Return a descriptor for the worker to read from."""
        return os.dup(self._reader)

    def offer(self, tickets: list[int]) -> bool:
        """Let the worker start these, in this order. Return False if the pipe has no room for all of them."""
        for start in range(0, len(tickets), _AT_ONCE):
            try:
                os.write(self._writer, array.array("q", tickets[start : start + _AT_ONCE]).tobytes())
            except BlockingIOError:
                return False
        return True

    def take_back(self) -> list[int]:
        """Take every ticket that the worker has not taken, so that it cannot start them."""
        tickets = array.array("q")
        with suppress(BlockingIOError):
            while data := os.read(self._reader, 1 << 16):
                tickets.frombytes(data)
        if EXIT_TICKET in tickets:
            tickets.remove(EXIT_TICKET)
            self.offer([EXIT_TICKET])
        return tickets.tolist()

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


def take(reader: int) -> int:
    """Wait for the next ticket, in the worker. Return `LEAVE` if the node is gone."""
    while True:
        try:
            data = os.read(reader, _TICKET.size)
        except BlockingIOError:
            poll = select.poll()
            poll.register(reader, select.POLLIN)
            poll.poll()
            continue
        return _TICKET.unpack(data)[0] if data else EXIT_TICKET
