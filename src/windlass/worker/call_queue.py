"""The store calls of one worker that wait for their turn, within bounds.

A handler may send calls faster than the store answers them, and never read an answer. So a worker has a few calls under
way at a time, none while its answers pile up, and while its queue is full the node does not read from it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from windlass.core.task import Lease
from windlass.worker.wire import Call

MAX_WAITING = 64
"""Calls of one worker that wait, before the node stops reading from it."""
MAX_WAITING_BYTES = 8 * 1024 * 1024
"""Bytes of these calls."""
MAX_AT_ONCE = 2
"""Calls of one worker that are under way, so that two workers do not hold up the calls of all others."""
MAX_UNREAD = 1024 * 1024
"""Bytes of answers that a worker has not read, before its next call starts."""


class CallScope(NamedTuple):
    """The attempt and the tenants for which a call is made."""

    lease: Lease | None
    """The lease of the attempt that makes the call; None for a thread that does not belong to one."""
    tenants: Mapping[Lease, str]
    """The attempts of the worker and their tenants; only the calling one if that is known."""

    @property
    def by(self) -> str:
        """A short description of the caller."""
        return "a thread outside of any task" if self.lease is None else f"task {self.lease.task}"


class WaitingCall(NamedTuple):
    """A call with its scope at the time when it arrived."""

    scope: CallScope
    call: Call
    size: int


class CallQueue:
    """The calls of one worker."""

    def __init__(self) -> None:
        self._waiting: deque[WaitingCall] = deque()
        self._under_way = 0
        self.size = 0
        """Bytes of the calls that wait or are under way."""

    @property
    def waiting(self) -> int:
        """How many calls wait."""
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether the node should stop reading from the worker."""
        return len(self._waiting) >= MAX_WAITING or self.size >= MAX_WAITING_BYTES

    def add(self, scope: CallScope, call: Call) -> None:
        """Add a call."""
        size = sum(map(len, call.positional)) + sum(map(len, call.named.values()))
        self._waiting.append(WaitingCall(scope, call, size))
        self.size += size

    def take(self, unread: int) -> WaitingCall | None:
        """Return the next call if it may start now. `unread` is the number of bytes of unread answers."""
        if not self._waiting or self._under_way >= MAX_AT_ONCE or unread >= MAX_UNREAD:
            return None
        self._under_way += 1
        return self._waiting.popleft()

    def end(self, call: WaitingCall) -> None:
        """Record that a call was answered."""
        self._under_way -= 1
        self.size -= call.size
