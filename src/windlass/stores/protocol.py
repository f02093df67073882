"""What every store promises. The memory store is the specification; one suite judges all of them by these words.

Four roles, so that nobody depends on more than it uses: `TaskStore` is what nodes and callers need, `Steering` what the
autoscaler needs on top, `Operator` what people change by hand, `TaskReader` what they look at. Every call is one
transaction or a series of short ones, is safe from many threads and processes at once, and either happens whole or not
at all unless its contract says otherwise. `Steering` and `Operator` stand in modules of their own, beside this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol, TypeAlias

from msgspec import Struct

from windlass.core.lifecycle import State
from windlass.core.manifest import CronState, HandlerSeen
from windlass.core.ordering import Queue
from windlass.core.serving import EVERYTHING, Serves
from windlass.core.settlement import Settlement
from windlass.core.task import Attempt, Claim, Lease, NewTask, Progress, SessionId, Task, TaskId
from windlass.core.times import Micros
from windlass.errors import InvalidTask
from windlass.stores.coordination import Control, Coordination, Entry, EntrySeen
from windlass.stores.dead_letters import DeadLetterReader
from windlass.stores.operator import CANCEL_GRACE as CANCEL_GRACE  # noqa: PLC0414 - a name of the protocol too
from windlass.stores.operator import Filter, Operator
from windlass.stores.operator import Selection as Selection  # noqa: PLC0414 - the same
from windlass.stores.series import SeriesReader
from windlass.stores.totals import COUNTED, Total
from windlass.stores.workflow_reads import WorkflowReader

SESSION_TTL = timedelta(seconds=15)
RETENTION = timedelta(days=7)
SESSIONS_SHOWN = timedelta(days=1)
"""For how long after its last renewal a session that was closed or lost is still listed."""
SCANNED = 10_000
"""How many tasks one `find` looks at, at the most; beyond it, it answers with what it has and where to go on."""


class Receipt(Struct, frozen=True, gc=False):
    """The answer to one submitted task. `created` is False when its key or id had been submitted before."""

    id: TaskId
    created: bool
    state: State


class Settled(Struct, frozen=True, gc=False):
    """The report was written; `state` is where the task stands now, which a cancel request may have changed."""

    lease: Lease
    state: State


class LeaseLost(Struct, frozen=True, gc=False):
    """The report came too late and changed nothing: the lease had ended, and the task may run elsewhere."""

    lease: Lease


Verdict: TypeAlias = Settled | LeaseLost


class Swept(Struct, frozen=True, kw_only=True):
    """What one pass of the sweep did, each a number of tasks unless it says otherwise."""

    due: int = 0
    expired: int = 0
    cancelled: int = 0
    """Leased tasks whose cancel was forced after its grace period."""
    lost_sessions: int = 0
    """Sessions marked lost."""
    requeued: int = 0
    resolved: int = 0
    """Edges whose prerequisite had ended."""
    missing: int = 0
    """Placeholders whose time was up."""
    healed: int = 0
    """Wake-ups that had been lost, and runnable tasks that no claim could see, each made good. Anything but 0 is a bug
    worth a report."""
    carried_on: int = 0
    """Steps of operations over many tasks that somebody had decided and not finished."""
    cycles: int = 0
    """Tasks failed because they waited for each other."""
    pruned: int = 0
    next_due: Micros | None = None
    """When the next scheduled or retrying task is due, as far as is known now."""

    @property
    def quiet(self) -> bool:
        """Whether there was nothing left to do."""
        return not any(getattr(self, field) for field in self.__struct_fields__ if field != "next_due")


class Cursor(Struct, frozen=True):
    """Where a page of `find` ended: the last task's submit time and id."""

    submitted: Micros
    id: TaskId


class Page(Struct, frozen=True):
    """Some tasks, newest first, and where to go on; `after` is None on the last page.

    A page may hold fewer tasks than asked for, or none, while there are more: only `after` says whether it is the last.
    """

    tasks: list[Task]
    after: Cursor | None


class Count(Struct, frozen=True):
    """How many tasks of one queue and tenant are in one state."""

    queue: str
    tenant: str
    state: State
    tasks: int


class Neighbour(Struct, frozen=True):
    """One end of an edge: a prerequisite or a dependent. `state` is None for a placeholder not filled yet."""

    id: TaskId
    state: State | None
    resolved: bool


class Neighbourhood(Struct, frozen=True):
    """What a task waits for, and what waits for it, each in id order and cut at `limit`."""

    prerequisites: list[Neighbour]
    dependents: list[Neighbour]


class Log(Struct, frozen=True):
    """What the handler printed during one attempt."""

    fence: int
    text: str


class ProgressSeen(Struct, frozen=True):
    """The latest that an attempt has said about how far it has come. A later attempt may not have said anything yet."""

    fence: int
    share: float | None
    message: str | None
    at: Micros


class Session(Struct, frozen=True, kw_only=True):
    """A node's session as others see it."""

    id: SessionId
    node: str
    about: str
    """What the node serves, as JSON text; empty if it did not say."""
    age: timedelta
    """How long ago it was opened or renewed last."""
    lost: bool
    """Swept or closed: it holds nothing any more, or will not for long."""
    workers: str = ""
    """Its worker processes, for `windlass.core.worker_list`; empty unless they were asked for."""


def check_limit(limit: int) -> None:
    """Refuse a page size that is not a whole number of one or more."""
    if type(limit) is not int or limit < 1:
        raise InvalidTask(f"limit={limit!r} is not a whole number of 1 or more")


class Signal(Protocol):
    """Something that threads of one process tell each other, as `threading.Event` does."""

    def set(self) -> None: ...
    def clear(self) -> None: ...
    def wait(self, timeout: float | None = None) -> bool: ...


class TaskStore(Protocol):
    """The write path: callers submit; nodes open a session, claim, settle, renew; anyone may sweep."""

    unresolved: Signal
    """Set when a `settle` of this process has left dependents to the sweep: then it should come at once."""

    def submit(
        self,
        tasks: Sequence[NewTask],
        *,
        conn: object | None = None,
        lease: Lease | None = None,
        entries: Sequence[Entry] = (),
    ) -> list[Receipt]:
        """Store a batch, whole or not at all, and answer in its order; when this returns, the batch is durable.

        A key that is known with the same body is answered with the task it named, whatever became of it; so is an id
        that the caller has made. With `lease` the batch is submitted on behalf of that attempt: if the task is not
        leased under it at the moment of the commit, nothing is written and `StaleLease` is raised. Refusals
        (see `errors`) leave nothing behind. With `conn`, the caller's own PostgreSQL connection, the batch commits or
        rolls back with the caller's transaction; prerequisites that end meanwhile are resolved after that commit. In a
        transaction with a snapshot of its own (REPEATABLE READ and above) its tasks run after the next sweep.

        `entries` are written to the audit log in the same transaction, and only if the batch created a task. Give the
        task an id of your own, or a key, to name it in the entry: `core.ids` computes both before the submit.
        """
        ...

    def fire(self, cron: str, nominal: Micros, tasks: Sequence[NewTask]) -> list[Receipt] | None:
        """Submit the tasks of a cron for one nominal time, in the same transaction that notes it as fired.

        None, and nothing written, when the cron is paused or was fired for this time or a later one: so it is fired at
        most once for each, whatever the number of nodes. Without tasks the time is only noted as passed over. Raises
        `UnknownCron`, and whatever `submit` refuses; then the time is not noted.
        """
        ...

    def open_session(self, node: str, ttl: timedelta = SESSION_TTL, about: str = "") -> SessionId:
        """Begin a node's session. It must be renewed within every `ttl` or the sweep takes all it holds.

        `about` says what the node serves, as JSON text for `sessions`.
        """
        ...

    def renew(self, session: SessionId, *, about: str | None = None, workers: str | None = None) -> list[Lease]:
        """Keep everything the session holds, in one call; answers with the leases whose task is to be cancelled.

        `about` and `workers` replace what the session says of itself and of its worker processes; None leaves it.
        Raises `SessionLost` when it was swept: the node must then drop all of its work.
        """
        ...

    def close_session(self, session: SessionId) -> None:
        """End a session; what it still holds is released at no charge. Closing twice does nothing.

        A task that runs at most once fails instead: nobody says whether its attempt was begun.
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
    ) -> list[Claim]:
        """Lease up to `limit` runnable tasks, in each queue's order, the first named queue first.

        With `merge` the queues are taken as one: tasks come in the order of their places, whatever queue they are in.
        That means what it says if all of the queues have the same strategy.

        No task is in two leases at once; each grant of a task has a greater fence than all before. Tasks of paused
        queues and tasks past `expires` are left alone; so is what `serves` does not cover, and the cost of passing over
        it grows with the number of kinds of tasks, not with the number of tasks. Raises `SessionLost`.
        """
        ...

    def settle(self, reports: Sequence[tuple[Lease, Settlement]]) -> list[Verdict]:
        """Write the ends of attempts, each under its lease, and unblock what waited; one verdict a report, in order.

        Of very many dependents it may unblock some and leave the others to the sweep; then it sets `unresolved`.
        A stale lease changes nothing and harms no neighbour. Reporting the same end twice is answered `Settled` as
        long as the first one still stands. A cancel request turns every outcome into cancelled.
        """
        ...

    def progress(self, reports: Sequence[Progress]) -> list[Lease]:
        """Keep how far attempts have come, the latest report of each; answers with the leases that have ended.

        Those changed nothing. What is kept here is for people: it is no part of the task, and nothing waits for it.
        """
        ...

    def sweep(self) -> Swept:
        """One bounded pass of the passing of time; call again at once until it is `quiet`. Safe from many nodes."""
        ...

    def wait_for_work(self, queues: Sequence[str], timeout: timedelta) -> bool:
        """Sleep until there may be something to claim in one of the queues, or the time is up (False). Only a hint."""
        ...

    def close(self) -> None:
        """Let go of connections and threads. The store's data stay (the memory store's are gone)."""
        ...


class TaskReader(WorkflowReader, DeadLetterReader, SeriesReader, Protocol):
    """The read path, for people, API and dashboard. See also `workflow_reads` and `dead_letters`."""

    def get(self, tasks: Sequence[TaskId]) -> list[Task | None]:
        """The tasks with these ids, in this order; None for what is unknown."""
        ...

    def find(self, filter: Filter, *, limit: int = 100, after: Cursor | None = None) -> Page:
        """A page of the tasks that match, newest first.

        It may look at no more than `SCANNED` tasks a call, and then answers with those of them that match and with
        where to go on; so its cost is bounded however rare they are.
        """
        ...

    def counts(self) -> list[Count]:
        """How many tasks there are by queue, tenant and state. Its cost does not grow with the backlog."""
        ...

    def count(self, filter: Filter, *, limit: int = COUNTED) -> Total:
        """Count the tasks that match, at bounded cost.

        A filter by queue, tenant and state alone is answered from the counts, always exactly. For any other filter a
        store looks at no more than `limit` tasks (`SCANNED` if that is more), and the answer is inexact if others are
        left.
        """
        ...

    def attempts(self, task: TaskId) -> list[Attempt]:
        """Every ended attempt with its error, oldest first; released ones, which cost nothing, are left out."""
        ...

    def logs(self, task: TaskId) -> list[Log]:
        """What each ended attempt printed, oldest first; attempts that printed nothing are left out."""
        ...

    def progress_of(self, tasks: Sequence[TaskId]) -> list[ProgressSeen | None]:
        """How far these tasks have come, in this order; None where nothing was ever reported."""
        ...

    def neighbourhood(self, task: TaskId, *, limit: int = 1_000) -> Neighbourhood:
        """What stands around a task in its graph."""
        ...

    def ahead(self, task: TaskId, *, limit: int = 10_000) -> int | None:
        """How many runnable tasks stand before this one in its queue, up to `limit`; 0 if it is not runnable.

        None for a runnable task that no claim can see, which only damage to the database leaves; the sweep repairs it.
        """
        ...

    def queues(self) -> list[Queue]:
        """The settings of every queue that was configured, by name."""
        ...

    def sessions(self, *, workers: bool = False) -> list[Session]:
        """The sessions that are alive, and those closed or lost of late; the newest first.

        With `workers`, each has the list of its worker processes, which may be long.
        """
        ...

    def handlers(self) -> list[HandlerSeen]:
        """Every handler that was ever published, by name."""
        ...

    def crons(self) -> list[CronState]:
        """Every cron that was ever published, by name."""
        ...

    def controls(self, kind: str) -> list[Control]:
        """The controls of a kind, by name."""
        ...

    def audit(self, subject: str | None = None, *, limit: int = 100, before: int | None = None) -> list[EntrySeen]:
        """A page of the audit log, newest first: of all, of one subject, or of those that begin so if it ends in "/".

        The next page is what stands `before` the last number of this one.
        """
        ...


class Store(TaskStore, Coordination, Operator, TaskReader, Protocol):
    """All four roles: what a store implements."""
