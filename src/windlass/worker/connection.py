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
from windlass.worker.wire import Frames, Message, encode_frame

T = TypeVar("T")


class Connection(Generic[T]):
    """The node's end of the socket to a worker or to the worker parent. Any thread may send; one thread receives."""

    def __init__(self, end: socket.socket, kind: object, clock: Clock) -> None:
        end.setblocking(False)
        self.socket = end
        self.partial_since: float | None = None
        """When the last bytes arrived, if they end in the middle of a frame."""
        self._clock = clock
        self._frames: Frames[T] = Frames(kind)
        self._sending = threading.Lock()
        self._unsent: deque[tuple[memoryview, list[int]]] = deque()

    @property
    def broken(self) -> str | None:
        """What the other end sent that is not a message; None if nothing."""
        return self._frames.broken

    def send(self, message: Message, *descriptors: int) -> bool:
        """Send now or later. Return True if something is left to flush. Descriptors are closed once they are sent."""
        with self._sending:
            self._unsent.append((memoryview(encode_frame(message)), list(descriptors)))
            return self._flush()

    def flush(self) -> bool:
        """Send what was kept. Return True if something is still left."""
        with self._sending:
            return self._flush()

    def receive(self) -> tuple[list[T], bool]:
        """Return the messages that arrived, and True unless the other end has closed or is `broken`."""
        messages: list[T] = []
        while True:
            try:
                data = self.socket.recv(1 << 18)
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
            if len(data) < 1 << 18:
                return messages, True

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
            if sent < len(data):
                self._unsent[0] = (data[sent:], [])
            else:
                self._unsent.popleft()
        return False

    def _forget(self) -> None:
        for _, descriptors in self._unsent:
            _close(descriptors)
        self._unsent.clear()

    def _send(self, data: memoryview, descriptors: list[int]) -> int:
        if not descriptors:
            return self.socket.send(data)
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
        sent = self.socket.sendmsg([data], [rights])
        _close(descriptors)  # The kernel has its own copy.
        return sent


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        with suppress(OSError):
            socket.close(descriptor)
