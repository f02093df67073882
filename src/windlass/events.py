"""Events: what happened on a node. Logs, metrics, the live stream and tests are listeners.

A listener is called in the thread where the event happened and must be fast. A listener that fails is logged and does
not affect the others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct

from windlass.core.lifecycle import State
from windlass.core.retry import Error
from windlass.core.task import Lease, SessionId

logger = logging.getLogger("windlass")


class Event(Struct, frozen=True, kw_only=True):
    """Something that happened on this node."""


class WorkerStateChanged(Event, frozen=True):
    """A worker changed its state."""

    pool: str
    worker: int
    pid: int
    before: str
    after: str
    why: str = ""
    seconds: float = 0.0
    """Time spent in the previous state."""


class PoolResized(Event, frozen=True):
    """A pool was resized."""

    pool: str
    before: int
    after: int
    why: str


class AttemptEnded(Event, frozen=True):
    """An attempt was settled; `state` is the new state of the task."""

    lease: Lease
    handler: str
    queue: str
    state: State
    seconds: float
    waited: float = 0.0
    """Seconds between the due time of the task and its lease."""
    deadline_slack: float | None = None
    """Seconds left until the deadline, negative if it had passed; None without a deadline."""
    attempt: int = 1
    """The number of the attempt, from 1."""
    tenant: str = "default"
    error: Error | None = None
    """The error of an attempt that did not complete."""
    reason: str | None = None
    """Why the task ended otherwise, as text."""


class ReportRefused(Event, frozen=True):
    """The store refused to settle an attempt because its lease had ended."""

    lease: Lease
    handler: str


class TaskBounced(Event, frozen=True):
    """A task came to a worker that does not have its handler. It is released, and tried again later."""

    lease: Lease
    handler: str
    again_in: float
    """Seconds until it may be claimed again, by any node."""


class HandlerWaits(Event, frozen=True):
    """A handler waits for the result of another task for the first time on this node. Its worker does nothing else."""

    lease: Lease
    handler: str
    pool: str


class SessionOpened(Event, frozen=True):
    """The node opened a session and can claim tasks."""

    session: SessionId


class SessionEnded(Event, frozen=True):
    """The node closed or lost its session and stopped the work that belonged to it."""

    session: SessionId
    why: str


class StoreCallFailed(Event, frozen=True):
    """A call to the store failed. It is retried, unless waiting has the same effect (as for an expiring session)."""

    doing: str
    error: str


class ProcessStuck(Event, frozen=True):
    """A process that was killed does not end: it is in uninterruptible sleep, or held by a debugger.

    It runs no more code of its own, so nothing waits for it: its tasks are settled, and its worker is replaced.
    """

    pid: int
    worker: int | None
    """The number of the worker; None for a process that a handler had started."""


class WorkerParentFailed(Event, frozen=True):
    """The worker parent died or could not import the app, or a start hook failed. It is restarted."""

    why: str


class DutyFailed(Event, frozen=True):
    """A thread of the node raised an unexpected error. It is restarted, or the node stops."""

    duty: str
    error: str
    traceback: str
    again_in: float | None
    """Seconds until the restart; None if the node stops instead."""


class PoolDecided(Event, frozen=True):
    """This node decided a controller tick that changed or held the pool's size, as recorded in the audit log."""

    pool: str
    action: str
    why: str


class ControllerFailed(Event, frozen=True):
    """The controller of a pool failed. The pool keeps its size until the controller recovers."""

    pool: str
    error: str
    again_in: float


class SignalFailed(Event, frozen=True):
    """An external signal could not be read; its last value counts for a while. Emitted when the reason changes."""

    pool: str
    signal: str
    error: str


class BreakerChanged(Event, frozen=True):
    """This node opened or closed the circuit breaker of a downstream, or let probes through."""

    downstream: str
    before: str
    after: str
    why: str


class NodeStarted(Event, frozen=True):
    """The node has imported its app and works on this store."""

    app: str
    store: str
    """The URL without its password, and where it comes from."""
    pools: str
    hidden: tuple[str, ...] | None = None
    """The environment variables that workers do not see; None if they see all."""


class NodeDraining(Event, frozen=True):
    """The node stops: it claims nothing more. `step` is 1 for a drain, 2 for a shorter one, 3 for a kill."""

    step: int
    running: int
    """How many tasks still run."""
    why: str


class Listening(Event, frozen=True):
    """The process serves HTTP at an address."""

    address: str
    serves: str


class SettingsReloaded(Event, frozen=True):
    """The settings file changed and the node applied it."""

    changes: tuple[str, ...]


class SettingsRefused(Event, frozen=True):
    """The settings file changed and is invalid; the node keeps its settings."""

    why: str


Listener: TypeAlias = Callable[[Event], None]


class Events:
    """Sends events to listeners."""

    def __init__(self, *listeners: Listener) -> None:
        self._listeners: list[Listener] = []
        self._attempt_listeners: list[Listener] = []
        self._failure_listeners: list[Listener] = []
        for listener in listeners:
            self.listen(listener)

    @property
    def attempts_wanted(self) -> bool:
        """Whether a listener takes `AttemptEnded`. If not, there is no need to make one for every task."""
        return bool(self._attempt_listeners)

    @property
    def failures_wanted(self) -> bool:
        """Whether a listener takes `AttemptEnded` of attempts that did not complete."""
        return bool(self._failure_listeners)

    def listen(self, listener: Listener, *, attempts: Literal["all", "failed", "none"] = "all") -> None:
        """Add a listener for all events from now on. `attempts` says for which attempts it takes `AttemptEnded`."""
        self._listeners.append(listener)
        if attempts == "all":
            self._attempt_listeners.append(listener)
        if attempts != "none":
            self._failure_listeners.append(listener)

    def emit(self, event: Event) -> None:
        """Send an event to every listener that takes it."""
        for listener in self._takers(event):
            try:
                listener(event)
            except Exception:
                logger.exception("An event listener failed on %r.", event)

    def _takers(self, event: Event) -> list[Listener]:
        if not isinstance(event, AttemptEnded):
            return self._listeners
        return self._attempt_listeners if event.state is State.COMPLETED else self._failure_listeners
