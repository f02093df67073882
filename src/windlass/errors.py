"""All errors that Windlass raises.

    WindlassError
    ├── InvalidTask (ValueError)            the task can never be accepted; nothing was written
    │   ├── InvalidPayload                  an argument is not plain JSON, too large or too deeply nested
    │   ├── DuplicateTask                   an id appears twice in a batch
    │   ├── UnknownPrerequisite             a prerequisite does not exist or belongs to another tenant
    │   └── CycleFound                      prerequisites wait for each other
    ├── InvalidFilter (ValueError)          the filter cannot be parsed
    ├── KeyConflict (ValueError)            the key belongs to a task with a different body
    ├── KeyBusy (RuntimeError)              another transaction is submitting the key and does not end
    ├── EventConflict (ValueError)          the event is already set to another value
    ├── QueueFull (RuntimeError)            the queue has reached its `max_waiting`
    ├── UnknownTask (LookupError)           no task has this id
    ├── NotAllowed (RuntimeError)           the current state does not allow the operation
    ├── EndedBadly (RuntimeError)           the awaited task is final and has no result
    │   ├── TaskFailed                      it used up its attempts
    │   ├── TaskCancelled                   it was cancelled
    │   └── TaskExpired                     its expiry time passed
    ├── StillUnfinished (TimeoutError)      the wait timed out; the task is not affected
    ├── SessionLost (RuntimeError)          the node lost its session and all of its leases
    ├── StaleLease (RuntimeError)           the attempt's lease had already ended
    ├── UnknownCron (LookupError)           no cron has this name
    ├── UnknownQueue (LookupError)          no queue has this name
    ├── UnknownTenant (LookupError)         no task belongs to this tenant, and it has no settings
    ├── UnknownLimit (LookupError)          no limit is set on this scope
    ├── UnknownToken (LookupError)          no API token has this name
    ├── UnknownBreaker (LookupError)        no breaker is recorded for this downstream
    ├── UnknownNode (LookupError)           no node has this session
    ├── UnknownWorker (LookupError)         a node has no worker with this number, or it has ended
    ├── UnknownPool (LookupError)           no node has or ever had a pool of this name
    ├── UnknownEntry (LookupError)          no audit entry has this number
    ├── Conflict (RuntimeError)             it changed since the caller read it; nothing was written
    ├── ChangedMeanwhile (RuntimeError)     concurrent changes won every retry; nothing was written
    └── StoreError (RuntimeError)
        ├── StoreUnavailable                the store cannot be reached
        ├── CommitUnknown                   the connection was lost during a commit
        ├── SchemaTooNew                    the database has a schema that this Windlass cannot use
        ├── UnstorableValue (ValueError)    the database cannot store a value, such as text with a NUL character
        └── UnsafeStore                     the store's settings do not guarantee durability

Each has a stable `code` for HTTP responses, exit statuses and logs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar


class WindlassError(Exception):
    """The base class of all errors that Windlass raises on purpose."""

    code: ClassVar[str] = "error"


class InvalidTask(WindlassError, ValueError):
    """The task can never be accepted. The message names the field, its value and what to do."""

    code = "invalid_task"
    index: int | None = None
    """The position of the task in the batch, from 0; None if the error is not about one task of a batch."""


class InvalidPayload(InvalidTask):
    """An argument or result is not plain JSON, too large or too deeply nested."""

    code = "invalid_payload"


class DuplicateTask(InvalidTask):
    """An id appears more than once in a batch, or in a Scheduler."""

    code = "duplicate_task"

    def __init__(self, ids: Sequence[object]) -> None:
        self.ids = tuple(ids)
        super().__init__(f"Duplicate task: {_some(self.ids)}. Give each task its own key or id.")


class UnknownPrerequisite(InvalidTask):
    """A prerequisite does not exist. A task of another tenant gets the same answer."""

    code = "unknown_prerequisite"

    def __init__(self, ids: Sequence[object], waiting: Sequence[object] = ()) -> None:
        """Take the missing keys or ids as the caller wrote them, and the tasks that list them (`waiting`)."""
        self.ids = tuple(ids)
        self.waiting = tuple(waiting)
        of = f" of {_task(self.waiting[0])}" if self.waiting else ""
        if len(self.waiting) > 1:
            of += f" and {len(self.waiting) - 1:,} more"
        super().__init__(
            f"Unknown prerequisite{of}: {_some(self.ids)}. Submit it first or in the same batch, "
            "or open the workflow with forward references."
        )


CYCLE_REASON = "cycle of prerequisites: "
"""The start of the stored reason of a task in a cycle. A retry recognizes it."""


class CycleFound(InvalidTask):
    """Tasks wait for each other. `cycle` lists one cycle, without repeating its first task."""

    code = "cycle"

    def __init__(self, cycle: Sequence[object]) -> None:
        self.cycle = tuple(cycle)
        shown = [str(member) for member in self.cycle[:20]]
        if len(self.cycle) > len(shown):
            shown.append(f"… ({len(self.cycle)} tasks)")
        super().__init__(CYCLE_REASON + " → ".join([*shown, str(self.cycle[0])]))


class InvalidFilter(WindlassError, ValueError):
    """The filter cannot be parsed: `fault` describes the error at `position` in `text`, from 0."""

    code = "invalid_filter"

    def __init__(self, text: str, position: int, fault: str) -> None:
        self.text, self.position, self.fault = text, position, fault
        super().__init__(f"Invalid filter at character {position + 1}: {fault}")


class KeyConflict(WindlassError, ValueError):
    """The key already belongs to a task with a different handler, arguments, queue or prerequisites."""

    code = "key_conflict"

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = tuple(keys)
        super().__init__(
            f"Key {_some(self.keys)} already belongs to a task with a different handler, arguments, queue or "
            "prerequisites. Nothing was written. Use a new key."
        )


class KeyBusy(WindlassError, RuntimeError):
    """Another transaction is submitting the same key or an equal unique task, and has not ended in time. Try again."""

    code = "key_busy"

    def __init__(self, keys: Sequence[str] = ()) -> None:
        self.keys = tuple(keys)
        what = f"Key {_some(self.keys)}" if keys else "The same key or an equal unique task"
        super().__init__(
            f"{what} is being submitted in another transaction that stays open. Nothing was written. Try again after "
            "it has ended; with conn=, roll back first."
        )


class EventConflict(WindlassError, ValueError):
    """The event is already set, and to another value."""

    code = "event_conflict"

    def __init__(self, event: str) -> None:
        self.event = event
        super().__init__(
            f"Event {event!r} is already set to another value. Nothing was written: an event of a workflow is set once."
        )


class QueueFull(WindlassError, RuntimeError):
    """The queue has reached its `max_waiting`."""

    code = "queue_full"

    def __init__(self, queue: str, max_waiting: int) -> None:
        self.queue, self.max_waiting = queue, max_waiting
        super().__init__(f"Queue {queue!r} is full (max_waiting={max_waiting}). Retry later or raise the limit.")


class DeadlineUnreachable(WindlassError, RuntimeError):
    """The queue cannot make the deadline of a task with `admit="strict"` at its present rate. Nothing was written.

    `ends_in` and `slack` are the seconds until the task would end and until its deadline; `ends_in` is None if it would
    not start at all. `rate` is in tasks per second.
    """

    code = "deadline_unreachable"

    def __init__(
        self, queue: str, slack: float, why: str, *, ends_in: float | None = None, ahead: int = 0, rate: float = 0.0
    ) -> None:
        self.queue, self.slack, self.ends_in, self.ahead, self.rate = queue, slack, ends_in, ahead, rate
        super().__init__(
            f"Queue {queue!r} cannot make a deadline in {slack:.1f} s: {why}. Nothing was written. Retry later, or "
            "pass a later deadline."
        )


class UnknownTask(WindlassError, LookupError):
    """No task has this id."""

    code = "unknown_task"

    def __init__(self, task: object) -> None:
        self.task = task
        super().__init__(f"Unknown task: {task}.")


class NotAllowed(WindlassError, RuntimeError):
    """The current state does not allow the operation."""

    code = "not_allowed"


class EndedBadly(WindlassError, RuntimeError):
    """The awaited task did not complete. `state` and `reason` say why; `task` is the task."""

    code = "ended_badly"

    def __init__(self, id: object, state: str, reason: str | None, task: object = None) -> None:
        self.id, self.state, self.reason, self.task = id, state, reason, task
        super().__init__(f"Task {id} is {state}: {reason or 'no reason recorded'}")


class TaskFailed(EndedBadly):
    """The awaited task used up its attempts or gave up."""

    code = "task_failed"


class TaskCancelled(EndedBadly):
    """The awaited task was cancelled, by a person or because a prerequisite did not complete."""

    code = "task_cancelled"


class TaskExpired(EndedBadly):
    """The expiry time of the awaited task passed."""

    code = "task_expired"


class StillUnfinished(WindlassError, TimeoutError):
    """The wait timed out. The task is not affected: wait again, or call `why`."""

    code = "still_unfinished"

    def __init__(self, id: object, timeout: float) -> None:
        self.id, self.timeout = id, timeout
        super().__init__(f"Task {id} did not finish within {timeout:g} s.")


class SessionLost(WindlassError, RuntimeError):
    """The session expired or was closed. Its tasks may already run elsewhere, so stop them."""

    code = "session_lost"

    def __init__(self, session: object) -> None:
        self.session = session
        super().__init__(f"Session {session} is lost. Stop its work and open a new session.")


class StaleLease(WindlassError, RuntimeError):
    """The attempt's lease has ended. Nothing was written."""

    code = "stale_fence"

    def __init__(self, lease: object) -> None:
        self.lease = lease
        super().__init__(f"{lease} has ended, and its task may run elsewhere. Nothing was written.")


class UnknownCron(WindlassError, LookupError):
    """No cron has this name."""

    code = "unknown_cron"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"Unknown cron: {name!r}.")


class CronExists(WindlassError, ValueError):
    """A cron of this name exists. Nothing was written."""

    code = "cron_exists"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"Cron {name!r} exists. Use another name, change it, or pass replace.")


class UnknownQueue(WindlassError, LookupError):
    """No queue of this name was configured or has tasks."""

    code = "unknown_queue"

    def __init__(self, name: str, hint: str = "") -> None:
        self.name = name
        super().__init__(
            f"Unknown queue: {name!r}. It has no settings and no tasks, and no handler or node uses it."
            f"{hint and f' {hint}'}"
        )


class UnknownTenant(WindlassError, LookupError):
    """No task belongs to this tenant, and it has no settings."""

    code = "unknown_tenant"

    def __init__(self, name: str, hint: str = "") -> None:
        self.name = name
        super().__init__(f"Unknown tenant: {name!r}. It has no tasks and no settings.{hint and f' {hint}'}")


class UnknownLimit(WindlassError, LookupError):
    """No limit is set on this scope."""

    code = "unknown_limit"

    def __init__(self, scope: str) -> None:
        self.scope = scope
        super().__init__(f"Unknown limit: there is none on {scope}. `windlass limits ls` lists them.")


class UnknownToken(WindlassError, LookupError):
    """No API token has this name."""

    code = "unknown_token"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"Unknown token: {name!r}. `windlass token ls` lists the tokens.")


class UnknownBreaker(WindlassError, LookupError):
    """No breaker was recorded for this downstream."""

    code = "unknown_breaker"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"Unknown breaker: {name!r}. No handler names this downstream, and none of its tasks has failed. "
            "To hold it in advance, use --create (`create` over HTTP)."
        )


class UnknownNode(WindlassError, LookupError):
    """No node has this session, or it ended more than a day ago; or no running node has this name or session."""

    code = "unknown_node"

    def __init__(self, node: object, running: Sequence[str] | None = None) -> None:
        self.node = node
        if running is None:
            text = f"Unknown node session: {node}. List the sessions with `windlass workers ls --all`."
        else:
            hint = f"The running nodes are {_some(running)}." if running else "No node is running."
            text = f"No running node has the name or session {str(node)!r}. {hint}"
        super().__init__(text)


class UnknownWorker(WindlassError, LookupError):
    """A node has no worker with this number, or it has ended."""

    code = "unknown_worker"

    def __init__(self, node: str, worker: int, known: Sequence[int]) -> None:
        self.node, self.worker = node, worker
        hint = f"Its workers are {_some(known)}." if known else "It has no workers."
        super().__init__(f"Node {node!r} has no worker {worker}, or it has ended. {hint}")


class UnknownPool(WindlassError, LookupError):
    """No node has or ever had a pool of this name."""

    code = "unknown_pool"

    def __init__(self, pool: str, known: Sequence[str]) -> None:
        self.pool = pool
        hint = f"The pools are {_some(known)}." if known else "There are no pools yet: start a node."
        super().__init__(f"Unknown pool: {pool!r}. {hint}")


class UnknownEntry(WindlassError, LookupError):
    """No audit entry has this number, or the caller may not see it."""

    code = "unknown_entry"

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"Unknown audit entry: {number}. `windlass audit ls` lists them.")


class Conflict(WindlassError, RuntimeError):
    """It changed since the caller read it. Nothing was written."""

    code = "version_conflict"

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"{what[:1].upper()}{what[1:]} has changed since you read it. Read it again and retry.")


class ChangedMeanwhile(WindlassError, RuntimeError):
    """Concurrent changes won every retry. Nothing was written."""

    code = "changed_meanwhile"

    def __init__(self, what: str) -> None:
        super().__init__(f"{what[:1].upper()}{what[1:]} is being changed by someone else. Read it again and retry.")


class StoreError(WindlassError, RuntimeError):
    """The store failed."""

    code = "store_error"


class StoreUnavailable(StoreError):
    """The store cannot be reached, or failed for a temporary reason on every retry."""

    code = "store_unavailable"


class CommitUnknown(StoreError):
    """The connection was lost during a commit, which may have succeeded. Look it up by key or fence."""

    code = "commit_unknown"


class SchemaTooNew(StoreError):
    """A newer Windlass migrated the database, and this one cannot use the new schema."""

    code = "schema_too_new"

    def __init__(self, found: int, known: int, needed: int) -> None:
        self.found, self.known, self.needed = found, known, needed
        super().__init__(
            f"The database has schema {found}, which only programs for schema {needed} or later can use. "
            f"This program is for schema {known}. Upgrade Windlass for this program."
        )


class UnstorableValue(StoreError, ValueError):
    """The database cannot store a value: text with a NUL character, or a number out of range. Nothing was written."""

    code = "unstorable_value"


class UnsafeStore(StoreError):
    """With the store's settings an acknowledged task could be lost."""

    code = "unsafe_store"


def _task(name: object) -> str:
    """Return a task's key, id or position in the batch as text."""
    return f"tasks[{name}]" if isinstance(name, int) else _some([name])


def _some(names: Sequence[object], most: int = 20) -> str:
    shown = ", ".join(repr(name) if isinstance(name, str) else str(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown}, … ({len(names)} in total)"


class Refused(WindlassError):
    """A request that an interface rejects with a code of its own."""

    def __init__(
        self, code: str, detail: str, *, field: str | None = None, headers: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        self.code = code  # pyright: ignore[reportAttributeAccessIssue] - set per instance
        self.field, self.headers, self.more = field, dict(headers or {}), more
        super().__init__(detail)
