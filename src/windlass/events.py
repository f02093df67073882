"""What happened, said in the past tense: logs, metrics, the live stream and tests are listeners.

A listener is called in the thread where it happened and must be quick. One that fails is reported and harms nobody.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from windlass.core.lifecycle import State
from windlass.core.task import Lease, SessionId

logger = logging.getLogger("windlass")


class Event(Struct, frozen=True, kw_only=True):
    """Something that has happened on this node."""


class WorkerStateChanged(Event, frozen=True):
    """A worker went from one state to another."""

    pool: str
    worker: int
    pid: int
    before: str
    after: str
    why: str = ""
    seconds: float = 0.0
    """How long it had been in the state before."""


class PoolResized(Event, frozen=True):
    """A pool was given another size."""

    pool: str
    before: int
    after: int
    why: str


class AttemptEnded(Event, frozen=True):
    """An attempt's end was written down; `state` is where it left the task."""

    lease: Lease
    handler: str
    queue: str
    state: State
    seconds: float
    waited: float = 0.0
    """Seconds from when the task was due to when it was leased."""
    deadline_slack: float | None = None
    """Seconds that were left to its deadline, negative if it had passed; None without one."""


class ReportRefused(Event, frozen=True):
    """An attempt's end came too late: its lease had ended before."""

    lease: Lease
    handler: str


class SessionOpened(Event, frozen=True):
    """The node has a session and may claim."""

    session: SessionId


class SessionEnded(Event, frozen=True):
    """The node has given up a session, or lost it; whatever it ran under it was stopped."""

    session: SessionId
    why: str


class StoreCallFailed(Event, frozen=True):
    """A call to the store failed, or was refused; it is made again, unless time does it too (a session runs out)."""

    doing: str
    error: str


class WorkerParentFailed(Event, frozen=True):
    """The warm parent died or could not import the app, or a start hook failed in a worker; it is started again."""

    why: str


class DutyFailed(Event, frozen=True):
    """A thread of the node raised an error that it does not expect; it is started again, or the node ends."""

    duty: str
    error: str
    traceback: str
    again_in: float | None
    """Seconds until the restart; None when the duty is not started again and the node ends."""


class PoolDecided(Event, frozen=True):
    """This node has decided a tick in which something changed or was held: what stands in the ledger."""

    pool: str
    action: str
    why: str


class ControllerFailed(Event, frozen=True):
    """The controller of a pool broke; the pool keeps its size until it works again."""

    pool: str
    error: str
    again_in: float


class SignalFailed(Event, frozen=True):
    """A number from outside could not be had; the last one counts for a while. Told when the reason changes."""

    pool: str
    signal: str
    error: str


class BreakerChanged(Event, frozen=True):
    """This node has opened or closed the circuit breaker of a downstream, or let probes through."""

    downstream: str
    before: str
    after: str
    why: str


class SettingsReloaded(Event, frozen=True):
    """The settings file has changed, and the node follows it."""

    changes: tuple[str, ...]


class SettingsRefused(Event, frozen=True):
    """The settings file has changed and cannot be followed; nothing was changed."""

    why: str


Listener: TypeAlias = Callable[[Event], None]


class Events:
    """Tells listeners what has happened."""

    def __init__(self, *listeners: Listener) -> None:
        self._listeners = list(listeners)

    def listen(self, listener: Listener) -> None:
        """Be told of everything from now on."""
        self._listeners.append(listener)

    def emit(self, event: Event) -> None:
        """Tell everyone."""
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                logger.exception("a listener failed on %r", event)
