"""The contract of all stores. The memory store is the specification; tests/conformance runs against every store.

The contract has four parts:

- `TaskStore`: what callers and nodes need to submit and run tasks.
- `Coordination` (`stores.coordination`): what nodes need to agree on pool sizes.
- `Operator` (`stores.operator`): what people change by hand.
- `TaskReader`: what people look at.

Every call is one transaction or a series of short ones, and is safe from many threads and processes. A call that fails
changes nothing, unless its documentation says otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Protocol, TypeAlias

from msgspec import Struct

from windlass.core.lifecycle import State
from windlass.core.limits import Running
from windlass.core.manifest import CronState, DueCrons, HandlerSeen
from windlass.core.ordering import Queue
from windlass.core.serving import EVERYTHING, Serves
from windlass.core.settlement import Settlement
from windlass.core.task import Attempt, Claim, Lease, NewTask, Progress, SessionId, Task, TaskId
from windlass.core.times import Micros
from windlass.errors import InvalidTask
from windlass.stores.coordination import Control, Coordination, Entry, EntrySeen
from windlass.stores.dead_letters import DeadLetterReader
from windlass.stores.operator import CANCEL_GRACE as CANCEL_GRACE  # noqa: PLC0414 - a name of the protocol too
from windlass.stores.operator import Filter, Operator, Receipt
from windlass.stores.operator import Selection as Selection  # noqa: PLC0414 - the same
from windlass.stores.series import SeriesReader
from windlass.stores.totals import COUNTED, Total
from windlass.stores.workflow_reads import WorkflowReader

SESSION_TTL = timedelta(seconds=15)
RETENTION = timedelta(days=7)
SESSIONS_SHOWN = timedelta(days=1)
"""How long a closed or lost session is listed after its last renewal."""
RECENT = 200
"""How many attempts of a task, and how many outputs of attempts, a read returns."""
SCANNED = 10_000
"""The largest number of tasks that one `find` reads. After that it returns what it found and a cursor."""


class Settled(Struct, frozen=True, gc=False):
    """The report was written. `state` is the task's new state, which a cancel request may have changed."""

    lease: Lease
    state: State


class LeaseLost(Struct, frozen=True, gc=False):
    """The report changed nothing, because the lease had ended. The task may run elsewhere."""

    lease: Lease


Verdict: TypeAlias = Settled | LeaseLost


class Swept(Struct, frozen=True, kw_only=True):
    """What one pass of the sweep did. Fields are numbers of tasks unless documented otherwise."""

    due: int = 0
    expired: int = 0
    cancelled: int = 0
    """Leased tasks that were cancelled because the grace period of a cancel request ended."""
    lost_sessions: int = 0
    """Sessions marked lost."""
    requeued: int = 0
    resolved: int = 0
    """Edges that were resolved because their prerequisite had ended."""
    missing: int = 0
    """Forward references that ended because their task was not submitted in time."""
    healed: int = 0
    """Repaired damage: edges that nobody had resolved, and runnable tasks that no claim could see. Anything but 0 is a
    bug; please report it."""
    carried_on: int = 0
    """Steps of unfinished bulk operations that this sweep continued."""
    cycles: int = 0
    """Tasks failed because they waited for each other."""
    pruned: int = 0
    next_due: Micros | None = None
    """When the next scheduled or retrying task is due, as far as known."""

    @property
    def quiet(self) -> bool:
        """True if the sweep found nothing to do."""
        return not any(getattr(self, field) for field in self.__struct_fields__ if field != "next_due")


class Cursor(Struct, frozen=True):
    """The end of a page of `find`: the last task's submit time and id."""

    submitted: Micros
    id: TaskId


class Page(Struct, frozen=True):
    """A page of tasks, newest first. Pass `after` to `find` to get the next page; it is None on the last one.

    A page may have fewer tasks than asked for, or none, even if more follow: only `after` marks the last page.
    """

    tasks: list[Task]
    after: Cursor | None


class Count(Struct, frozen=True):
    """The number of tasks of one queue and tenant in one state."""

    queue: str
    tenant: str
    state: State
    tasks: int


class Neighbour(Struct, frozen=True):
    """A prerequisite or a dependent of a task. `state` is None if it was not submitted yet."""

    id: TaskId
    state: State | None
    resolved: bool


class Neighbourhood(Struct, frozen=True):
    """The prerequisites and dependents of a task, in id order, each cut at `limit`."""

    prerequisites: list[Neighbour]
    dependents: list[Neighbour]


class Log(Struct, frozen=True):
    """The output of the handler during one attempt."""

    fence: int
    text: str
    running: bool = False
    """True if the attempt has not ended, so that there may be more."""


class ProgressSeen(Struct, frozen=True):
    """The latest progress that an attempt of a task has reported."""

    fence: int
    share: float | None
    message: str | None
    at: Micros


class Session(Struct, frozen=True, kw_only=True):
    """A session of a node."""

    id: SessionId
    node: str
    about: str
    """What the node serves, as JSON text; empty if unknown."""
    age: timedelta
    """The time since it was opened or last renewed."""
    lost: bool
    """True if it expired or was closed. The sweep takes its leases away."""
    workers: str = ""
    """Its worker processes, as `core.worker_list` encodes them; empty unless requested."""


class AccountSeen(Struct, frozen=True, kw_only=True):
    """What a tenant has used of a fair queue. Run times are in seconds, of about that period."""

    queue: str
    tenant: str
    """Empty for the queue itself, with the sums over all tenants."""
    charged: int
    """See `core.fairness.Account`."""
    mean: float
    """The expected run time of its next task, in seconds; 0 if nothing has run yet."""
    last_minute: float
    last_hour: float


def check_limit(limit: int) -> None:
    """Raise `InvalidTask` unless the limit is an integer of 1 or more."""
    if type(limit) is not int or limit < 1:
        raise InvalidTask(f"limit={limit!r} is not an integer of 1 or more")


def check_shares(*, merge: bool, each: Mapping[str, int] | None) -> None:
    """Raise `InvalidTask` for a claim with shares of queues that it also merges."""
    if merge and each:
        raise InvalidTask("each: a claim that merges its queues has no shares of them. Leave out `each` or `merge`.")


class Signal(Protocol):
    """A flag that threads of one process can wait for, such as `threading.Event`."""

    def set(self) -> None: ...
    def clear(self) -> None: ...
    def wait(self, timeout: float | None = None) -> bool: ...


class TaskStore(Protocol):
    """The write path: callers submit tasks; nodes open a session, claim, settle and renew; anyone may sweep."""

    unresolved: Signal
    """Set when a `settle` in this process has left dependents to the sweep, which should then run at once."""

    def submit(
        self,
        tasks: Sequence[NewTask],
        *,
        conn: object | None = None,
        lease: Lease | None = None,
        entries: Sequence[Entry] = (),
    ) -> list[Receipt]:
        """Store a batch and return a receipt for each task, in order. The batch is durable when this returns.

        Either all tasks are stored or none. A key that is already known with the same body, or an id that the caller
        made and submitted before, returns a receipt of the existing task. So does a unique task that is equal to a
        queued one (`core.unique`); with `debounce`, that one starts later.

        With `lease`, the batch is submitted on behalf of that attempt: if the lease is no longer valid at the commit,
        nothing is written and `StaleLease` is raised.

        With `conn`, the caller's own PostgreSQL connection, the batch commits or rolls back with the caller's
        transaction. Prerequisites that end meanwhile are resolved after the commit. At REPEATABLE READ and above, its
        tasks run after the next sweep.

        `entries` are written to the audit log in the same transaction, and only if the batch created a task. To name
        the task in an entry, give it an id or a key: `core.ids` computes both before the submit.
        """
        ...

    def fire(
        self,
        cron: str,
        nominal: Micros,
        tasks: Sequence[NewTask],
        *,
        version: int | None = None,
        due: Micros | None = None,
    ) -> list[Receipt] | None:
        """Submit the tasks of a cron for one nominal time, and record in the same transaction that it fired.

        Return None and write nothing if the cron is paused, or has fired for this time or a later one. So it fires at
        most once for each time, however many nodes there are. With `version`, it must also be in that version: a node
        that read it before a change fires nothing. `due` is when it fires next. Without tasks, the time is recorded as
        skipped. Raise `UnknownCron`, or any error of `submit`; then nothing is recorded.
        """
        ...

    def crons_to_fire(self, handlers: Collection[str]) -> DueCrons:
        """Return the store's time and the crons of these handlers that may have to fire at it, by name.

        These are all that are in code, and those created at run time that are due and not paused.
        """
        ...

    def open_session(self, node: str, ttl: timedelta = SESSION_TTL, about: str = "") -> SessionId:
        """Open a worker session. It must be renewed within `ttl`, or the sweep takes its leases away.

        `about` is JSON text that says what the node serves, for `sessions`.
        """
        ...

    def renew(self, session: SessionId, *, about: str | None = None, workers: str | None = None) -> list[Lease]:
        """Renew a session and all its leases. Return the leases whose tasks should be cancelled.

        `about` and `workers` replace the session's description and its list of worker processes; None keeps them.
        Raise `SessionLost` if the session has expired: the node must then drop all its work.
        """
        ...

    def close_session(self, session: SessionId) -> None:
        """Close a session and release its leases. Closing it again does nothing.

        A release does not count as an attempt. A task with `at_most_once` fails instead, because its attempt may have
        started.
        """
        ...

    def claim(
        self,
        session: SessionId,
        queues: Sequence[str],
        limit: int,
        *,
        serves: Serves = EVERYTHING,
        merge: bool = False,
        each: Mapping[str, int] | None = None,
    ) -> list[Claim]:
        """Lease up to `limit` runnable tasks: those of the first queue in its order, then those of the next queue.

        With `each`, at most that many tasks of each queue are taken first. What is left of `limit` then goes to the
        first queues that have more. With `merge`, the queues are treated as one: tasks come in the order of their
        places, whatever their queue or tenant. This makes sense only if all the queues have the same strategy and none
        is fair. `each` and `merge` exclude each other (`InvalidTask`).

        In a fair queue, tenants take turns (`core.fairness`). A task that a limit or the pause of its tenant holds back
        is skipped (`core.limits`); limits hold over all nodes. Claims that have to respect them are made one at a time.

        A task is never in two leases at once, and each lease of a task has a greater fence than all before. Tasks of
        paused queues, expired tasks, and tasks that `serves` does not cover are skipped; the cost of skipping grows
        with the number of kinds of tasks, not with the number of tasks. Raise `SessionLost`.
        """
        ...

    def settle(self, reports: Sequence[tuple[Lease, Settlement]]) -> list[Verdict]:
        """Write the ends of attempts, each under its lease, and unblock dependents. Return one verdict per report.

        A report with an invalid lease changes nothing and does not affect the others. Repeating a report returns
        `Settled` as long as the first one is still the latest. A cancel request turns every outcome into cancelled.
        With very many dependents, some are left to the sweep, and `unresolved` is set.
        """
        ...

    def progress(self, reports: Sequence[Progress]) -> list[Lease]:
        """Store the latest progress of attempts. Return the leases that are no longer valid; those store nothing.

        Progress is for people. It is not part of the task and changes nothing else.
        """
        ...

    def record_output(self, outputs: Sequence[tuple[Lease, str]]) -> list[Lease]:
        """Store what running attempts have printed so far. Return the leases that are no longer valid.

        It replaces what was stored for the attempt before; empty output is ignored. A lease that is no longer valid
        stores nothing, so the output that `settle` stores is final. An attempt that ends without output of its own,
        because its node was lost, keeps what was stored last.
        """
        ...

    def sweep(self) -> Swept:
        """Do what has become due: retries, expiry, lost sessions, unresolved edges, pruning. Safe from many nodes.

        One call does a bounded amount of work. Call it again until the result is `quiet`.
        """
        ...

    def wait_for_work(self, queues: Sequence[str], timeout: timedelta) -> bool:
        """Wait until there may be a task to claim in one of the queues. Return False after `timeout`. Only a hint."""
        ...

    def close(self) -> None:
        """Close connections and threads. The stored data remain, except in the memory store."""
        ...


class TaskReader(WorkflowReader, DeadLetterReader, SeriesReader, Protocol):
    """Reads for the HTTP API, the CLI and the dashboard. See also `workflow_reads`, `dead_letters`, `series`."""

    def get(self, tasks: Sequence[TaskId]) -> list[Task | None]:
        """Return the tasks with these ids, in this order; None for an unknown id."""
        ...

    def find(self, filter: Filter, *, limit: int = 100, after: Cursor | None = None) -> Page:
        """Return a page of the tasks that match, newest first.

        One call reads at most `SCANNED` tasks, so its cost is bounded however rare the matches are.
        """
        ...

    def counts(self) -> list[Count]:
        """Return the number of tasks by queue, tenant and state. The cost does not grow with the number of tasks."""
        ...

    def count(self, filter: Filter, *, limit: int = COUNTED) -> Total:
        """Count the tasks that match, at bounded cost.

        A filter by queue, tenant and state alone uses the stored counts and is exact. For any other filter, a store
        reads at most `limit` tasks (`SCANNED` if that is more), and the result is inexact if there are more.
        """
        ...

    def attempts(self, task: TaskId) -> list[Attempt]:
        """Return the newest `RECENT` finished attempts of a task with their errors, oldest first.

        Released ones are left out.
        """
        ...

    def logs(self, task: TaskId) -> list[Log]:
        """Return the output of the newest `RECENT` attempts of a task that have output, oldest first.

        The last one may be that of the running attempt, as far as `record_output` has stored it.
        """
        ...

    def latest_output(self, tasks: Sequence[TaskId]) -> list[Log | None]:
        """Return the output of the newest attempt of each of these tasks that has output, in this order."""
        ...

    def progress_of(self, tasks: Sequence[TaskId]) -> list[ProgressSeen | None]:
        """Return the latest progress of these tasks, in this order; None if none was ever reported."""
        ...

    def neighbourhood(self, task: TaskId, *, limit: int = 1_000) -> Neighbourhood:
        """Return the direct prerequisites and dependents of a task."""
        ...

    def ahead(self, task: TaskId, *, limit: int = 10_000) -> int | None:
        """Return the number of runnable tasks before this one in its queue, up to `limit`; 0 if it is not runnable.

        None if the task is runnable but no claim can see it, because the database is damaged. The sweep repairs that.
        """
        ...

    def ahead_of_new(
        self, queue: str, *, due: Micros, priority: int = 0, deadline: Micros | None = None, limit: int = 10_000
    ) -> int:
        """Return the number of runnable tasks that would be before a new task in this queue, up to `limit`."""
        ...

    def queues(self) -> list[Queue]:
        """Return the settings of all configured queues, by name."""
        ...

    def accounts(self, queue: str | None = None) -> list[AccountSeen]:
        """Return what the tenants have used of a fair queue, or of all, by queue and tenant."""
        ...

    def running(self) -> list[Running]:
        """Return the number of live leases by queue, tenant, handler and key of a limit, in that order."""
        ...

    def buckets(self, limits: Sequence[str]) -> dict[str, Micros]:
        """Return when the rates of these limits have all their tokens again, by the name of the limit.

        Limits without a rate, and those with all their tokens, may be left out.
        """
        ...

    def sessions(self, *, workers: bool = False) -> list[Session]:
        """Return the live sessions, and those closed or lost within `SESSIONS_SHOWN`, newest first.

        With `workers`, each has the list of its worker processes, which may be long.
        """
        ...

    def handlers(self) -> list[HandlerSeen]:
        """Return all published handlers, by name."""
        ...

    def crons(self, name: str | None = None) -> list[CronState]:
        """Return all crons by name, or the one with this name."""
        ...

    def controls(self, kind: str) -> list[Control]:
        """Return the controls of a kind, by name."""
        ...

    def audit(self, subject: str | None = None, *, limit: int = 100, before: int | None = None) -> list[EntrySeen]:
        """Return a page of the audit log, newest first.

        `subject` selects one subject, or all that start with it if it ends in "/". For the next page, pass the last
        entry's number as `before`.
        """
        ...


class Store(TaskStore, Coordination, Operator, TaskReader, Protocol):
    """All four roles: what a store implements."""
