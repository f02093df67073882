"""Every error Windlass raises, in one place.

    WindlassError
    ├── InvalidTask (ValueError)            a submit that can never be accepted; nothing was written
    │   ├── InvalidPayload                  an argument that is not plain JSON, or too large or deep
    │   ├── DuplicateTask                   one id twice in a batch
    │   ├── UnknownPrerequisite             a prerequisite that does not exist (or is another tenant's)
    │   └── CycleFound                      prerequisites that wait for each other
    ├── InvalidFilter (ValueError)          a filter that cannot be understood
    ├── KeyConflict (ValueError)            the key is taken by a task with another body
    ├── QueueFull (RuntimeError)            the queue's `max_waiting` is reached
    ├── UnknownTask (LookupError)           no such task
    ├── NotAllowed (RuntimeError)           the task's state does not allow this move
    ├── EndedBadly (RuntimeError)           the task whose result was awaited has none, and never will
    │   ├── TaskFailed                      its attempts are used up
    │   ├── TaskCancelled                   it was cancelled
    │   └── TaskExpired                     its expiry time passed
    ├── StillUnfinished (TimeoutError)      the wait was given up; the task goes on
    ├── SessionLost (RuntimeError)          the node's session is gone, and with it every lease it held
    ├── StaleLease (RuntimeError)           what was done in the name of an attempt came after its lease had ended
    ├── UnknownCron (LookupError)           no such cron
    ├── UnknownQueue (LookupError)          no such queue
    ├── UnknownTenant (LookupError)         no such tenant
    ├── UnknownBreaker (LookupError)        no such breaker
    ├── UnknownNode (LookupError)           no such node
    ├── UnknownPool (LookupError)           no node has or ever had such a pool
    ├── Conflict (RuntimeError)             it is no longer as the caller has seen it; nothing was written
    ├── ChangedMeanwhile (RuntimeError)     somebody else changed it at the same time, again and again
    └── StoreError (RuntimeError)
        ├── StoreUnavailable                the store cannot be reached now; nothing is known to be written
        ├── CommitUnknown                   the connection was lost while a commit was under way
        ├── SchemaTooNew                    the database was migrated by a newer Windlass
        └── UnsafeStore                     the store's durability settings would break a promise

Each carries a stable `code` for HTTP answers, exit statuses and logs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar


class WindlassError(Exception):
    """The root of the tree: `except WindlassError` catches everything Windlass raises on purpose."""

    code: ClassVar[str] = "error"


class InvalidTask(WindlassError, ValueError):
    """A task that can never be accepted as it is. The message names the field, its value and what would be right."""

    code = "invalid_task"
    index: int | None = None
    """Which task of a batch it was, from 0; None if it was a single task, or not about one of them."""


class InvalidPayload(InvalidTask):
    """An argument (or result) that is not plain JSON within the limits."""

    code = "invalid_payload"


class DuplicateTask(InvalidTask):
    """The same id more than once in one batch, or in one Scheduler."""

    code = "duplicate_task"

    def __init__(self, ids: Sequence[object]) -> None:
        self.ids = tuple(ids)
        super().__init__(f"duplicate task: {_some(self.ids)} is there more than once; give each task its own key or id")


class UnknownPrerequisite(InvalidTask):
    """Prerequisites that do not exist. Another tenant's tasks answer exactly alike."""

    code = "unknown_prerequisite"

    def __init__(self, ids: Sequence[object], waiting: Sequence[object] = ()) -> None:
        """`ids` are keys or ids as the caller wrote them; `waiting` names the tasks that list them."""
        self.ids = tuple(ids)
        self.waiting = tuple(waiting)
        of = f" of {_task(self.waiting[0])}" if self.waiting else ""
        if len(self.waiting) > 1:
            of += f" and {len(self.waiting) - 1:,} more"
        super().__init__(
            f"prerequisites{of}: no task {_some(self.ids)}; submit it first or in the same batch, "
            "or open the workflow with forward references"
        )


CYCLE_REASON = "cycle of prerequisites: "
"""How the reason of a task begins that waited for itself through others; the stores look for it on a retry."""


class CycleFound(InvalidTask):
    """Tasks that wait for each other; `cycle` lists one such ring, its first task not repeated."""

    code = "cycle"

    def __init__(self, cycle: Sequence[object]) -> None:
        self.cycle = tuple(cycle)
        shown = [str(member) for member in self.cycle[:20]]
        if len(self.cycle) > len(shown):
            shown.append(f"… ({len(self.cycle)} tasks)")
        super().__init__(CYCLE_REASON + " → ".join([*shown, str(self.cycle[0])]))


class InvalidFilter(WindlassError, ValueError):
    """A filter that cannot be understood: `fault` is what is wrong at `position` in `text`, counted from 0."""

    code = "invalid_filter"

    def __init__(self, text: str, position: int, fault: str) -> None:
        self.text, self.position, self.fault = text, position, fault
        super().__init__(f"invalid filter, at character {position + 1}: {fault}")


class KeyConflict(WindlassError, ValueError):
    """The key already names a task with another handler, arguments, queue or prerequisites."""

    code = "key_conflict"

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = tuple(keys)
        super().__init__(
            f"key conflict: {_some(self.keys)} already names a task with another body "
            "(handler, arguments, queue, prerequisites); nothing was written"
        )


class QueueFull(WindlassError, RuntimeError):
    """The queue holds as many unfinished tasks as its `max_waiting` allows; try again later."""

    code = "queue_full"

    def __init__(self, queue: str, max_waiting: int) -> None:
        self.queue, self.max_waiting = queue, max_waiting
        super().__init__(f"queue full: {queue!r} may hold {max_waiting} waiting tasks; nothing was written")


class UnknownTask(WindlassError, LookupError):
    """No task has this id."""

    code = "unknown_task"

    def __init__(self, task: object) -> None:
        self.task = task
        super().__init__(f"unknown task: {task}")


class NotAllowed(WindlassError, RuntimeError):
    """The task is in a state from which this move does not exist."""

    code = "not_allowed"


class EndedBadly(WindlassError, RuntimeError):
    """The awaited task ended in any other way than completed; `state` and `reason` say how, `task` is all of it."""

    code = "ended_badly"

    def __init__(self, id: object, state: str, reason: str | None, task: object = None) -> None:
        self.id, self.state, self.reason, self.task = id, state, reason, task
        super().__init__(f"task {id} is {state}: {reason or 'no reason is recorded'}")


class TaskFailed(EndedBadly):
    """The awaited task used up its attempts, or gave up."""

    code = "task_failed"


class TaskCancelled(EndedBadly):
    """The awaited task was cancelled: by a person, or because a prerequisite ended badly."""

    code = "task_cancelled"


class TaskExpired(EndedBadly):
    """The hard time limit of the awaited task passed."""

    code = "task_expired"


class StillUnfinished(WindlassError, TimeoutError):
    """The task did not end while it was waited for. It is not touched by that: wait again, or ask `why`."""

    code = "still_unfinished"

    def __init__(self, id: object, timeout: float) -> None:
        self.id, self.timeout = id, timeout
        super().__init__(f"task {id} has not ended within {timeout:g} s")


class SessionLost(WindlassError, RuntimeError):
    """The session ran out or was closed: whatever it held may already run elsewhere, so drop it."""

    code = "session_lost"

    def __init__(self, session: object) -> None:
        self.session = session
        super().__init__(f"session lost: {session}; stop its work and open a new one")


class StaleLease(WindlassError, RuntimeError):
    """The attempt no longer holds its task: what it asked for was not done, and nothing was written."""

    code = "stale_fence"

    def __init__(self, lease: object) -> None:
        self.lease = lease
        super().__init__(f"stale lease: {lease} has ended, and its task may run elsewhere; nothing was written")


class UnknownCron(WindlassError, LookupError):
    """No cron of this name was ever published."""

    code = "unknown_cron"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"unknown cron: {name!r}")


class UnknownQueue(WindlassError, LookupError):
    """No queue of this name was configured or has tasks."""

    code = "unknown_queue"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"unknown queue: {name!r}; it was never configured and has no tasks")


class UnknownTenant(WindlassError, LookupError):
    """No task belongs to this tenant."""

    code = "unknown_tenant"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"unknown tenant: {name!r} has no tasks")


class UnknownBreaker(WindlassError, LookupError):
    """No breaker was recorded for this downstream."""

    code = "unknown_breaker"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"unknown breaker: no task of the downstream {name!r} has failed, and nobody has held it")


class UnknownNode(WindlassError, LookupError):
    """No node has this session, or it ended more than a day ago."""

    code = "unknown_node"

    def __init__(self, session: object) -> None:
        self.session = session
        super().__init__(f"unknown node session: {session}; `windlass workers ls --all` lists them")


class UnknownPool(WindlassError, LookupError):
    """No node that is alive has this pool, and none has ever sized it."""

    code = "unknown_pool"

    def __init__(self, pool: str, known: Sequence[str]) -> None:
        self.pool = pool
        super().__init__(f"unknown pool: {pool!r}; there is {_some(known) if known else 'none yet: start a node'}")


class Conflict(WindlassError, RuntimeError):
    """What was to be changed is not, or no longer, as the caller expects it; nothing was written."""

    code = "version_conflict"

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"{what} is no longer as you have seen it; look again, and then decide")


class ChangedMeanwhile(WindlassError, RuntimeError):
    """What was to be changed has been changed by others each time it was read; nothing was written."""

    code = "changed_meanwhile"

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is being changed by somebody else; look at it, and try again")


class StoreError(WindlassError, RuntimeError):
    """The store could not do its part."""

    code = "store_error"


class StoreUnavailable(StoreError):
    """The store cannot be reached, or kept failing for a passing reason through every retry."""

    code = "store_unavailable"


class CommitUnknown(StoreError):
    """The connection was lost while a commit was under way: it may have happened. Look up by key or fence."""

    code = "commit_unknown"


class SchemaTooNew(StoreError):
    """The database was migrated by a newer Windlass than this one."""

    code = "schema_too_new"

    def __init__(self, found: int, known: int) -> None:
        self.found, self.known = found, known
        super().__init__(
            f"schema too new: the database is at version {found}, this Windlass knows up to {known}; upgrade Windlass"
        )


class UnsafeStore(StoreError):
    """A durability setting of the store would break the promise that an acknowledged task is never lost."""

    code = "unsafe_store"


def _task(name: object) -> str:
    """A task by its key, its id, or its position in the batch."""
    return f"tasks[{name}]" if isinstance(name, int) else _some([name])


def _some(names: Sequence[object], most: int = 20) -> str:
    shown = ", ".join(repr(name) if isinstance(name, str) else str(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown}, … ({len(names)} in all)"


class Refused(WindlassError):
    """A request that an interface refuses by itself, with its own code."""

    def __init__(
        self, code: str, detail: str, *, field: str | None = None, headers: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        self.code = code  # pyright: ignore[reportAttributeAccessIssue] - of each error, not of the class
        self.field, self.headers, self.more = field, dict(headers or {}), more
        super().__init__(detail)
