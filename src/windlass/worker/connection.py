"""One end of a Unix socket that never blocks: what cannot be sent now is kept and sent later."""

from __future__ import annotations

import array
import errno
import socket
import threading
from collections import deque
from contextlib import suppress
from typing import Generic, TypeVar

from windlass.clock import Clock
from windlass.worker.tickets import EndQueue, TicketQueue
from windlass.worker.wire import Frames, FromWorker, Message, Run, WorkerFiles, encode_frame
from windlass.worker.worker import Worker

T = TypeVar("T")
READ_SIZE = 1 << 18
MAX_RECEIVED = 1 << 20
"""Bytes that are read from one socket before the others have their turn."""


class Connection(Generic[T]):
    """The node's end of the socket to a worker or to the worker parent. Any thread may send; one thread receives."""

    def __init__(self, end: socket.socket, kind: object, clock: Clock) -> None:
        end.setblocking(False)
        self.socket = end
        self.partial_since: float | None = None
        """When the last bytes arrived, if they end in the middle of a frame."""
        self.sent_at = clock.monotonic()
        """When the other end last took bytes."""
        self.unsent = 0
        """Bytes that the other end has not taken yet."""
        self._clock = clock
        self._frames: Frames[T] = Frames(kind)
        self._sending = threading.Lock()
        self._unsent: deque[tuple[memoryview, list[int]]] = deque()

    @property
    def broken(self) -> str | None:
        """What the other end sent that is not a message; None if nothing."""
        return self._frames.broken

    @property
    def announced(self) -> int:
        """The size of the frame of which a part has arrived; 0 if that is not known."""
        return self._frames.announced

    def send(self, message: Message, *descriptors: int) -> bool:
        """Send now or later. Return True if something is left to flush. Descriptors are closed once they are sent."""
        return self.send_frame(encode_frame(message), *descriptors)

    def send_frame(self, frame: bytes, *descriptors: int) -> bool:
        """Send an encoded message, as `send` does."""
        with self._sending:
            self._unsent.append((memoryview(frame), list(descriptors)))
            self.unsent += len(frame)
            return self._flush()

    def flush(self) -> bool:
        """Send what was kept. Return True if something is still left."""
        with self._sending:
            return self._flush()

    def receive(self) -> tuple[list[T], bool]:
        """Return messages that arrived, and True unless the other end has closed or is `broken`.

        One call reads at most `MAX_RECEIVED` bytes, so that no worker keeps the hub from the others.
        """
        messages: list[T] = []
        for _ in range(MAX_RECEIVED // READ_SIZE):
            try:
                data = self.socket.recv(READ_SIZE)
            except BlockingIOError:
                return messages, True
            except OSError:
                return messages, False
            if not data:
                return messages, False
            messages += self._frames.feed(data)
            self.partial_since = self._clock.monotonic() if self._frames.partial else None
            if self.broken is not None:
                return messages, False
            if len(data) < READ_SIZE:
                break
        return messages, True

    def restart_stall(self) -> None:
        """Count from now on how long the rest of a frame takes, because nothing was read."""
        self.partial_since = self._clock.monotonic() if self._frames.partial else None

    def close(self) -> None:
        """Close the socket and drop what was not sent."""
        with self._sending:
            self._forget()
            self.socket.close()

    def _flush(self) -> bool:
        while self._unsent:
            data, descriptors = self._unsent[0]
            try:
                sent = self._send(data, descriptors)
            except BlockingIOError:
                return True
            except OSError as error:
                if error.errno == errno.ETOOMANYREFS:  # Too many descriptors are in flight; try again soon.
                    return True
                self._forget()  # The other end has closed; `receive` reports it.
                return False
            self.unsent -= sent
            self.sent_at = self._clock.monotonic()
            if sent < len(data):
                self._unsent[0] = (data[sent:], [])
            else:
                self._unsent.popleft()
        return False

    def _forget(self) -> None:
        for _, descriptors in self._unsent:
            _close(descriptors)
        self._unsent.clear()
        self.unsent = 0

    def _send(self, data: memoryview, descriptors: list[int]) -> int:
        if not descriptors:
            return self.socket.send(data)
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
        sent = self.socket.sendmsg([data], [rights])
        _close(descriptors)  # The kernel has its own copy.
        return sent


class WorkerLink:
    """The node's ends of the sockets and pipes to one worker."""

    def __init__(self, worker: Worker, clock: Clock) -> None:
        control, their_control = socket.socketpair()
        tasks, their_tasks = socket.socketpair()
        self.worker = worker
        self.paused_at: float | None = None
        """Since when the hub does not read from the control socket; None if it does."""
        self.control: Connection[FromWorker] = Connection(control, FromWorker, clock)
        self.tasks: Connection[Run] = Connection(tasks, Run, clock)
        self.tickets = TicketQueue()
        self.ends = EndQueue()
        self.files = WorkerFiles(
            their_control.detach(), their_tasks.detach(), self.tickets.duplicate_reader(), self.ends.detach_writer()
        )
        """The worker's ends. They belong to who sends them."""

    def close(self) -> None:
        """Close the node's ends."""
        for end in (self.control, self.tasks, self.tickets, self.ends):
            end.close()


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        with suppress(OSError):
            socket.close(descriptor)
