"""The queue of tickets between a node and one worker: a pipe that both may take from.

The node writes the ticket of each order that the worker may begin. Whoever reads a ticket has it alone: the worker
when it begins the order, or the node when it takes back what has not begun. The kernel decides who comes first, so the
node needs nothing of the worker for that: neither an answer, nor that it runs at all.
"""

from __future__ import annotations

import array
import os
import select
import struct
from contextlib import suppress

LEAVE = 0
"""Stands in the queue for the last order: leave."""

_TICKET = struct.Struct("=q")
_AT_ONCE = 512
"""Tickets in one write: so few bytes are written whole or not at all."""


class TicketQueue:
    """The node's side of the queue."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def for_worker(self) -> int:
        """Return a descriptor for the worker to read from."""
        return os.dup(self._reader)

    def offer(self, tickets: list[int]) -> bool:
        """Let the worker begin these, in this order; return False if there is no room for all of them."""
        for start in range(0, len(tickets), _AT_ONCE):
            try:
                os.write(self._writer, array.array("q", tickets[start : start + _AT_ONCE]).tobytes())
            except BlockingIOError:
                return False
        return True

    def take_back(self) -> list[int]:
        """Take every ticket that the worker has not taken: it will not begin them."""
        tickets = array.array("q")
        with suppress(BlockingIOError):
            while data := os.read(self._reader, 1 << 16):
                tickets.frombytes(data)
        if LEAVE in tickets:
            tickets.remove(LEAVE)
            self.offer([LEAVE])
        return tickets.tolist()

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


def take(reader: int) -> int:
    """Wait for the next ticket, in the worker; `LEAVE` also when the node has gone."""
    while True:
        try:
            data = os.read(reader, _TICKET.size)
        except BlockingIOError:
            poll = select.poll()
            poll.register(reader, select.POLLIN)
            poll.poll()
            continue
        return _TICKET.unpack(data)[0] if data else LEAVE
