"""A TCP proxy for PostgreSQL that breaks connections on purpose.

Bytes go through untouched until a fault is ordered; the next connection that commits gets it, and the ones after that
are left in peace. `shape` makes a bad network of it: slow, one-way or silent. One thread serves a connection. Nothing
here knows pytest.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections import deque
from contextlib import suppress
from enum import Enum, auto
from typing import Any, Self
from urllib.parse import urlsplit

from msgspec import Struct

HOST = "127.0.0.1"
PATIENCE_SECONDS = 30.0
LOOK_AGAIN_SECONDS = 0.05
"""How often a connection that may pass nothing on looks whether it may again."""

_COMMIT = b"COMMIT\0"
_COMMIT_ALONE = b"Q\0\0\0\x0bCOMMIT\0"
_SYNC = b"S\0\0\0\x04"
_READY = b"Z\0\0\0\x05"
_TWO_ERRORS = b"".join(
    b"E" + struct.pack("!I", 4 + len(fields)) + fields
    for fields in (
        b"SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0",
        b"SFATAL\0VFATAL\0C08P01\0Mserver conn crashed?\0\0",
    )
)


class Fault(Enum):
    """What happens to a commit, or to another command."""

    ANSWER_LOST = auto()
    """The server commits, and the client is cut off before the answer."""

    NEVER_ARRIVES = auto()
    """Both are cut off, and the server never sees the COMMIT."""

    ARRIVES_LATE = auto()
    """The client is cut off; the server gets the COMMIT only when the test says `deliver`."""

    TWO_ERRORS = auto()
    """The server never sees it; the client gets two errors as the answer to one command, and is cut off.

    PgBouncer does this when the backend behind it is terminated: it forwards the backend's last words, then adds its
    own."""


class Shape(Struct, frozen=True, kw_only=True):
    """How bytes go through. Connections stay open whatever it says, so silence looks like slowness."""

    delay: float = 0.0
    """Seconds that each piece waits."""
    piece: int = 65_536
    """The most bytes that go through at once."""
    to_server: bool = True
    to_client: bool = True
    """False: what is sent in this direction does not arrive until the shape changes. Both: a half-open connection."""


class Proxy:
    """Listens on a free port of this machine, and forwards to the server of a URL, until the `with` block ends."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._listener = socket.create_server((HOST, 0))
        self._faults: deque[Fault] = deque()
        self._at = _COMMIT
        self._wires: list[Wire] = []
        self._lock = threading.Lock()
        self._refusing = False
        self.shaped = Shape()
        """How bytes go through now."""
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self.struck = threading.Semaphore(0)
        """Released once for every fault that has cut a client off."""
        self.deliver = threading.Event()
        """Lets late commits arrive."""
        self.delivered = threading.Semaphore(0)
        """Released once for every late commit that the server has answered."""

    @property
    def url(self) -> str:
        """The same database, through this proxy."""
        port = self._listener.getsockname()[1]
        return self._target._replace(netloc=f"{self._target.username}@{HOST}:{port}").geturl()

    def order(self, *faults: Fault, at: bytes = _COMMIT) -> None:
        """The next commits get these, one each; or the next commands in which the bytes `at` occur."""
        with self._lock:
            self._at = at
            self._faults.extend(faults)

    def refuse(self) -> None:
        """Let nobody in from now on; who is connected stays."""
        self._refusing = True

    def admit(self) -> None:
        """Let everybody in again."""
        self._refusing = False

    def shape(self, **shape: Any) -> None:
        """Change how bytes go through, for all connections, also new ones; without arguments, untouched as before."""
        self.shaped = Shape(**shape)

    def reset(self) -> None:
        """Cut off everybody who is connected now."""
        with self._lock:
            wires = list(self._wires)
        for wire in wires:
            wire.cut()

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Closing alone would not wake the thread that waits for the next caller.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()
        self.deliver.set()
        self.reset()
        for wire in self._wires:
            wire.join()

    def next_fault(self, data: bytes) -> Fault | None:
        """Return the fault for data that a client has just sent."""
        with self._lock:
            return self._faults.popleft() if self._faults and self._at in data else None

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                client.close()
                continue
            try:
                server = socket.create_connection((self._target.hostname, self._target.port))
            except OSError:  # The server is down, and its clients find out as they would without us.
                client.close()
                continue
            with self._lock:
                self._wires.append(Wire(self, client, server))


class Wire(threading.Thread):
    """One connection through the proxy."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        super().__init__(daemon=True)
        self._proxy = proxy
        self._client = client
        self._server = server
        self._tail = b""
        self._is_cut = threading.Event()
        self.start()

    def cut(self) -> None:
        """End the connection, from any thread."""
        self._is_cut.set()
        for end in (self._client, self._server):
            with suppress(OSError):  # It may have ended already.
                end.shutdown(socket.SHUT_RDWR)

    def run(self) -> None:
        try:
            with suppress(OSError):  # When one end has gone, the other follows.
                while self._forward():
                    pass
        finally:
            _reset(self._client)
            self._server.close()

    def _forward(self) -> bool:
        ready, _, _ = select.select([self._client, self._server], [], [])
        shape = self._proxy.shaped
        passing = [end for end in ready if (shape.to_client if end is self._server else shape.to_server)]
        if not passing or shape.delay:
            self._is_cut.wait(shape.delay or LOOK_AGAIN_SECONDS)
        if not passing:
            return not self._is_cut.is_set()
        if self._server in passing:
            data = self._server.recv(shape.piece)
            self._client.sendall(data)
            return bool(data)
        data = self._client.recv(shape.piece)
        seen = self._tail + data  # A command may come in two pieces.
        self._tail = seen[-len(_COMMIT) + 1 :]
        fault = self._proxy.next_fault(seen)
        if fault is None:
            self._server.sendall(data)
            return bool(data)
        self._strike(fault, data if fault is Fault.TWO_ERRORS else self._whole(data))
        return False

    def _whole(self, data: bytes) -> bytes:
        """The same with what belongs to it: the server answers a pipeline only at its end, which may come by itself."""
        while not (data.endswith(_SYNC) or _COMMIT_ALONE in data):
            more = self._client.recv(65_536)
            if not more:
                break
            data += more
        return data

    def _strike(self, fault: Fault, data: bytes) -> None:
        if fault is Fault.TWO_ERRORS:
            self._client.sendall(_TWO_ERRORS)
            self._client.shutdown(socket.SHUT_WR)
            self._await_end_of_client()
            self._proxy.struck.release()
            return
        if fault is Fault.ANSWER_LOST:
            self._server.sendall(data)
            self._await_answer()
        _reset(self._client)
        self._proxy.struck.release()
        if fault is Fault.ARRIVES_LATE:
            assert self._proxy.deliver.wait(PATIENCE_SECONDS), "nobody let the late commit arrive"
            self._server.sendall(data)
            self._await_answer()
            self._proxy.delivered.release()

    def _await_end_of_client(self) -> None:
        """Read until the client hangs up: a reset before that could overtake the errors that it has not read yet."""
        with suppress(OSError):
            while self._client.recv(65_536):
                pass

    def _await_answer(self) -> None:
        """Read the server's answer to its end, without passing it on to the client."""
        answer = b""
        while _READY not in answer:
            data = self._server.recv(65_536)
            if not data:
                return
            answer += data


def _reset(end: socket.socket) -> None:
    """Close without the courtesy of a last packet: the peer gets a reset."""
    if end.fileno() >= 0:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.close()
