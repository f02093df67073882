"""The two pipes between a node and one worker that start and end attempts.

**Tickets**, from the node: the right to start an assignment. Both sides read from this pipe. A ticket can be read only
once: by the worker when it starts the assignment, or by the node when it takes back what has not started. The kernel
decides who is first, so the node can take back assignments without an answer from the worker, even if the worker hangs.

**Ends**, from the worker: the attempts that completed without a result and without output. The worker writes each one
before it starts the next attempt, so it is not lost if that attempt crashes the process.
"""

from __future__ import annotations

import array
import os
import select
import struct
from contextlib import suppress

from windlass.core.times import LONGEST

EXIT_TICKET = 0
"""The ticket that asks the worker to exit."""

_TICKET = struct.Struct("=q")
_CAPACITY = 1 << 16
"""Bytes that a pipe holds."""
_AT_ONCE = 512
"""Tickets in one write. A pipe accepts this few bytes completely or not at all."""
_END = struct.Struct("=qd")
"""A ticket, and the seconds that the attempt took."""
_MOST_SECONDS = 10 * LONGEST.total_seconds()


class TicketQueue:
    """The node's side of the tickets."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.broken: str | None = None
        """What a handler wrote into the pipe, which it can open for writing in `/proc`; None if nothing was found."""

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
        data = b""
        with suppress(BlockingIOError):
            while len(data) <= _CAPACITY:
                data += os.read(self._reader, _CAPACITY)
        if len(data) > _CAPACITY or len(data) % _TICKET.size:
            self.broken = f"{len(data):,} bytes in its queue of tickets, which are not tickets of the node"
            data = data[: len(data) - len(data) % _TICKET.size]
        tickets = array.array("q", data)
        if EXIT_TICKET in tickets:
            tickets.remove(EXIT_TICKET)
            self.offer([EXIT_TICKET])
        return tickets.tolist()

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


class TicketReader:
    """The worker's side of the tickets."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def take(self, *, wait: bool = True) -> int | None:
        """Take the next ticket; `EXIT_TICKET` if the node is gone. Return None if there is none and `wait` is False."""
        while True:
            try:
                data = os.read(self._descriptor, _TICKET.size)
            except BlockingIOError:
                if not wait:
                    return None
                self._poll.poll()
                continue
            return _TICKET.unpack(data)[0] if data else EXIT_TICKET


class EndQueue:
    """The node's side of the ends."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.reader, False)
        self.broken: str | None = None
        """What the worker wrote that is not an end; None if nothing."""

    def detach_writer(self) -> int:
        """Return the descriptor for the worker to write to. It belongs to the caller."""
        return self._writer

    def receive(self) -> tuple[list[tuple[int, float]], bool]:
        """Return the tickets and seconds that arrived, and True unless the worker has closed its end or is `broken`."""
        try:
            data = os.read(self.reader, 1 << 16)
        except BlockingIOError:
            return [], True
        whole = len(data) - len(data) % _END.size
        ends: list[tuple[int, float]] = list(_END.iter_unpack(data[:whole]))
        if whole < len(data):
            self.broken = f"stray bytes in its pipe of ends: {data[whole:]!r}"
        for place, (ticket, seconds) in enumerate(ends):
            if not 0.0 <= seconds <= _MOST_SECONDS:  # Also if it is not a number.
                self.broken = f"an invalid end of an attempt: ticket {ticket}, {seconds} seconds"
                del ends[place:]
                break
        return ends, bool(data) and self.broken is None

    def close(self) -> None:
        """Close the node's end of the pipe."""
        os.close(self.reader)


encode_end = _END.pack
"""Return an end as bytes that the worker writes at once."""
