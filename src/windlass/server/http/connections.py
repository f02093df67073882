"""Limits on connections: how many there may be, and how long each may keep the server waiting.

uvicorn limits neither: its keep-alive timer ends with the first byte of a request, and a closed connection stays open
until the client has read everything. Here a connection without a running request has `HEADER_SECONDS` to start one, and
a client has `SEND_SECONDS` to read a response. If there are too many connections, a new one replaces the one that has
been idle longest; if none is idle, it is refused. A few connections beyond the limit are reserved for health checks.

`ConnectionProtocol` wraps uvicorn's HTTP protocol and sees what asyncio reports: a connection opens and closes.
`ConnectionMiddleware` sees what ASGI reports. Both know the addresses of the connection, so no private state of uvicorn
is needed to match them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from uvicorn.protocols.http.h11_impl import H11Protocol

from windlass.clock import monotonic
from windlass.refused_requests import refused_requests

logger = logging.getLogger("windlass.server")

HEADER_SECONDS = 10.0
"""How long the headers of a request may take to arrive, and a connection may be idle."""
SEND_SECONDS = 60.0
"""How long a client may take to read what was sent."""
RESERVED = 50
"""How many connections beyond the limit may ask for health checks only."""
LOG_SECONDS = 10.0
"""The shortest time between two log lines with the same reason."""

_TIMED_OUT = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_REFUSED = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n"

Addresses = tuple[tuple[str, int], tuple[str, int]]
"""The host and port of the server and of the client."""


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    """How many connections a server may have, in total and from one address."""

    total: int
    per_address: int


class Connections:
    """The open connections of one server. Use it in the event loop only."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._open: dict[Addresses | None, ConnectionProtocol] = {}
        self._hosts: Counter[str] = Counter()
        self._idle: dict[ConnectionProtocol, None] = {}
        """Connections without a running request, the longest idle first."""
        self._logged: dict[str, tuple[float, int]] = {}

    @property
    def unsent(self) -> int:
        """Return the number of bytes that clients have not read yet."""
        return sum(each.unsent for each in self._open.values())

    def find(self, addresses: Addresses | None) -> ConnectionProtocol | None:
        """Return the connection between these addresses."""
        return None if addresses is None else self._open.get(addresses)

    def admit(self, connection: ConnectionProtocol, addresses: Addresses) -> bool:
        """Add a connection. Return False to refuse it."""
        host = addresses[1][0]
        reason = ""
        if len(self._open) >= self._limits.total and not self._evict(None):
            reason = "server_connections"
        elif self._hosts[host] >= self._limits.per_address and not self._evict(host):
            reason = "address_connections"
        if reason and sum(bool(each.refusal) for each in self._open.values()) >= RESERVED:
            self.note(reason, host)
            return False
        connection.refusal = reason
        self._open[addresses] = connection
        self._hosts[host] += 1
        self._idle[connection] = None
        refused_requests.connections += 1
        return True

    def remove(self, connection: ConnectionProtocol, addresses: Addresses) -> None:
        """Remove a connection, if it was admitted and is still there."""
        if self._open.get(addresses) is connection:
            del self._open[addresses]
            self._idle.pop(connection, None)
            self._hosts[addresses[1][0]] -= 1
            self._hosts += Counter()  # Drops the hosts without connections.
            refused_requests.connections -= 1

    def set_idle(self, connection: ConnectionProtocol, *, idle: bool) -> None:
        """Note that a connection has a running request, or has none that anybody waits for."""
        self._idle.pop(connection, None)
        if idle and self._open.get(connection.addresses) is connection:
            self._idle[connection] = None

    def note(self, reason: str, host: str) -> None:
        """Count a refusal. Log it, with one line for all of the same reason within `LOG_SECONDS`."""
        refused_requests.count(reason)
        since, number = self._logged.get(reason, (-LOG_SECONDS, 0))
        now = monotonic()
        if now - since < LOG_SECONDS:
            self._logged[reason] = since, number + 1
            return
        self._logged[reason] = now, 0
        logger.warning(
            "refused: %s, client %s, and %d more before, %d connections", reason, host, number, len(self._open)
        )

    def _evict(self, host: str | None) -> bool:
        """Close the connection that has been idle longest, of this host if given. Return False if there is none."""
        found = next((each for each in self._idle if host in (None, each.host)), None)
        if found is not None:
            found.cut_off("evicted_idle")
        return found is not None


class ConnectionProtocol(asyncio.Protocol):
    """uvicorn's HTTP/1.1 protocol with limits."""

    def __init__(self, connections: Connections, **options: Any) -> None:
        self._connections = connections
        self._make_inner: Callable[[], H11Protocol] = lambda: H11Protocol(**options)
        self._inner: H11Protocol | None = None
        self._transport: asyncio.Transport | None = None
        self.addresses: Addresses | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._since = 0.0
        """Since when the connection has had no running request."""
        self._requests = 0
        self.refusal = ""
        """Why a connection beyond a limit may only ask for health checks; empty for all others."""

    @property
    def host(self) -> str:
        """Return the address of the client."""
        return "" if self.addresses is None else self.addresses[1][0]

    @property
    def unsent(self) -> int:
        """Return the number of bytes that the client has not read yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self._transport = transport
        self.addresses = addresses_of(transport.get_extra_info("sockname"), transport.get_extra_info("peername"))
        self._start_timer()
        if self.addresses is not None and not self._connections.admit(self, self.addresses):
            transport.write(_REFUSED)
            transport.close()
            return
        self._inner = self._make_inner()
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._inner is not None:
            self._inner.data_received(data)

    def eof_received(self) -> None:
        if self._inner is not None:
            self._inner.eof_received()

    def pause_writing(self) -> None:
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._inner is not None:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        if self.addresses is not None:
            self._connections.remove(self, self.addresses)
        if self._inner is not None:
            self._inner.connection_lost(exc)

    def request_started(self) -> None:
        """Stop the timer: the headers of a request are complete."""
        self._requests += 1
        self._connections.set_idle(self, idle=False)
        self._stop_timer()

    def request_ended(self) -> None:
        """Start the timer for the next request, for a body that nobody waited for, and for an unread response."""
        self._requests -= 1
        if not self._requests and self._connections.find(self.addresses) is self:
            self._connections.set_idle(self, idle=True)
            self._start_timer()

    def cut_off(self, reason: str) -> None:
        """Close the connection at once and drop what the client has not read."""
        self._connections.note(reason, self.host)
        if self.addresses is not None:
            self._connections.remove(self, self.addresses)
        if self._transport is not None:
            self._transport.abort()

    def _start_timer(self) -> None:
        self._stop_timer()
        self._since = monotonic()
        self._wait()

    def _wait(self) -> None:
        seconds = min(HEADER_SECONDS, SEND_SECONDS)
        self._timer = asyncio.get_running_loop().call_later(seconds, self._time_out)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        """End a connection whose client sends no request, or does not read the response."""
        assert self._transport is not None, "a timer starts with the connection"
        if self.unsent and monotonic() - self._since < SEND_SECONDS:
            self._wait()
        elif self.unsent or self._transport.is_closing():
            self.cut_off("unread_response")
        else:
            self._connections.note("slow_request", self.host)
            self._transport.write(_TIMED_OUT)
            self._transport.close()
            self._wait()


def addresses_of(server: Sequence[Any] | None, client: Sequence[Any] | None) -> Addresses | None:
    """Return the host and port of both ends, or None for a socket that has none."""
    if not isinstance(server, list | tuple) or not isinstance(client, list | tuple):
        return None
    return (str(server[0]), int(server[1])), (str(client[0]), int(client[1]))
