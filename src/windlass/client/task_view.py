"""Tasks, attempts and progress as Python programs get them: times are a `datetime` in UTC, JSON is decoded.

Stores and nodes use the values of `core.task`, whose times are microseconds. They are converted here, when a program
asks for a task, and nowhere on the way of a task to its handler.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import Struct

from windlass.client.notebook import html_table
from windlass.core.lifecycle import State
from windlass.core.payload import decode_stored
from windlass.core.retry import Error
from windlass.core.task import Attempt as StoredAttempt
from windlass.core.task import OnFailure, Rules
from windlass.core.task import Task as StoredTask
from windlass.core.times import Micros, to_datetime
from windlass.redaction import redact_text
from windlass.stores.protocol import ProgressSeen


class Task(Struct, frozen=True, kw_only=True):
    """A task as it was when it was read. Times have the zone UTC."""

    id: UUID
    handler: str
    args: dict[str, Any]
    """The arguments by name, as plain JSON values."""
    state: State
    queue: str
    tenant: str
    workflow: str | None
    key: str | None
    priority: int
    deadline: datetime | None
    due: datetime
    """When it may run."""
    expires: datetime | None
    submitted: datetime
    claimed: datetime | None
    """When its latest attempt was given to a node."""
    finished: datetime | None
    waiting: int
    """The number of open prerequisites."""
    on_failure: OnFailure
    fence: int
    session: UUID | None
    """The session of the node that runs it, or ran it last."""
    attempts: int
    crashes: int
    losses: int
    generation: int
    """How often an operator has retried it."""
    cancel_requested: bool
    reason: str | None
    """Why it failed, expired or was cancelled."""
    result: Any
    """The result as a plain JSON value. `Handle.result` decodes it by the handler's annotation."""
    rules: Rules
    """Retries, timeouts and what the task needs to run."""

    def _repr_html_(self) -> str:
        """Return a table for notebooks, without arguments and result: notebooks are shared, secrets must not be."""
        return html_table(f"{self.handler} {self.state.value}", self._facts())

    def _facts(self) -> list[tuple[str, object]]:
        names = ("id", "queue", "tenant", "workflow", "key", "priority", "deadline", "due", "submitted", "claimed")
        facts: list[tuple[str, object]] = [(name, getattr(self, name)) for name in names]
        facts += [("finished", self.finished), ("attempts", self.attempts)]
        return [*facts, ("reason", None if self.reason is None else redact_text(self.reason))]


class Attempt(Struct, frozen=True, kw_only=True):
    """An attempt of a task that has ended."""

    number: int
    """From 1, the oldest first."""
    fence: int
    session: UUID
    """The session of the node that ran it."""
    started: datetime
    ended: datetime
    state: State
    """The state of the task after the attempt."""
    error: Error | None

    @property
    def seconds(self) -> float:
        """How long it took, in seconds."""
        return (self.ended - self.started).total_seconds()


class Progress(Struct, frozen=True, kw_only=True):
    """What a handler reported last with `current().progress(...)`."""

    share: float | None
    """From 0 to 1."""
    message: str | None
    at: datetime
    fence: int
    """The fence of the attempt that reported it."""


def view_task(stored: StoredTask) -> Task:
    """Convert a stored task."""
    return Task(
        id=stored.id,
        handler=stored.handler,
        args=decode_stored(stored.args, is_object=True),
        state=stored.state,
        queue=stored.queue,
        tenant=stored.tenant,
        workflow=stored.workflow,
        key=stored.key,
        priority=stored.priority,
        deadline=_datetime(stored.deadline),
        due=to_datetime(stored.due),
        expires=_datetime(stored.expires),
        submitted=to_datetime(stored.submitted),
        claimed=_datetime(stored.claimed),
        finished=_datetime(stored.finished),
        waiting=stored.waiting,
        on_failure=stored.on_failure,
        fence=stored.fence,
        session=stored.session,
        attempts=stored.attempts,
        crashes=stored.crashes,
        losses=stored.losses,
        generation=stored.generation,
        cancel_requested=stored.cancel_requested,
        reason=stored.reason,
        result=None if stored.result is None else decode_stored(stored.result),
        rules=stored.rules,
    )


def view_attempt(stored: StoredAttempt, number: int) -> Attempt:
    """Convert a stored attempt."""
    return Attempt(
        number=number,
        fence=stored.fence,
        session=stored.session,
        started=to_datetime(stored.started),
        ended=to_datetime(stored.ended),
        state=stored.state,
        error=stored.error,
    )


def view_progress(seen: ProgressSeen) -> Progress:
    """Convert a stored progress."""
    return Progress(share=seen.share, message=seen.message, at=to_datetime(seen.at), fence=seen.fence)


def _datetime(instant: Micros | None) -> datetime | None:
    return None if instant is None else to_datetime(instant)
