"""What people change by hand, and `Filter`, which selects tasks.

Every method takes `entries` for the audit log. They are written in the same transaction as the change, and only if
something changes. For many tasks, a SQL store writes them when it decides what to do, or with the first tasks that it
purges; if the answer to that commit is lost, they may be written twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol, TypeAlias

from msgspec import Struct

from windlass.core.filter import Query
from windlass.core.lifecycle import State
from windlass.core.manifest import CronInfo, CronState, Manifest
from windlass.core.names import check_type
from windlass.core.ordering import Queue
from windlass.core.task import Change, NewTask, Task, TaskId
from windlass.core.task_update import Version
from windlass.core.times import Micros
from windlass.core.validation import check_ids
from windlass.errors import NotAllowed
from windlass.stores.coordination import Entry

CANCEL_GRACE = timedelta(seconds=10)


class Receipt(Struct, frozen=True, gc=False):
    """The result for one submitted task.

    `created` is False if its key or id was submitted before, or if it is unique and an equal task stands for it.
    """

    id: TaskId
    created: bool
    state: State


class EventSet(Struct, frozen=True):
    """The result of setting an event. `changed` is False if it was set to the same value before."""

    task: TaskId
    """The step of the event."""
    changed: bool
    state: State
    """The state of the step: `completed`, or `waiting` while its prerequisites are open."""


class Filter(Struct, frozen=True, kw_only=True):
    """A selection of tasks: a task must meet all conditions that are given."""

    states: frozenset[State] = frozenset()
    queue: str | None = None
    tenant: str | None = None
    workflow: str | None = None
    handler: str | None = None
    query: Query | None = None
    """More conditions: see `core.query.parse`."""

    def check(self) -> None:
        """Raise `InvalidTask` for a field of the wrong type, such as one state instead of a set of states."""
        right = "pass a set of State, as in {State.FAILED}"
        check_type("filter.states", self.states, (frozenset, set, tuple, list), right)
        for state in self.states:
            check_type("filter.states", state, State, right)
        for field in ("queue", "tenant", "workflow", "handler"):
            check_type(f"filter.{field}", getattr(self, field), (str, type(None)), "pass text or None")
        check_type("filter.query", self.query, (Query, type(None)), "make one with core.query.parse")

    def matches(self, task: Task, now: Micros) -> bool:
        """Return True if the task matches at this time."""
        return (
            (not self.states or task.state in self.states)
            and self.queue in (None, task.queue)
            and self.tenant in (None, task.tenant)
            and self.workflow in (None, task.workflow)
            and self.handler in (None, task.handler)
            and (self.query is None or self.query.matches(task, now))
        )


Selection: TypeAlias = Sequence[TaskId] | Filter


def check_filter(filter: Filter) -> None:
    """Raise `InvalidTask` unless the value is a valid `Filter`."""
    check_type("filter", filter, Filter, "pass a Filter")
    filter.check()


def check_which(which: object) -> None:
    """Raise `InvalidTask` unless the value is a valid `Filter` or a list of task ids."""
    if isinstance(which, Filter):
        which.check()
    else:
        check_ids(which, "which")


def check_removable(queue: str, unfinished: int) -> None:
    """Raise `NotAllowed` if a queue has unfinished tasks: their places follow its settings."""
    if unfinished:
        tasks = "1 unfinished task" if unfinished == 1 else f"{unfinished:,} unfinished tasks"
        raise NotAllowed(f"Queue {queue!r} has {tasks}, so it cannot be removed. Wait for them, or cancel them.")


class Operator(Protocol):
    """What people change by hand. Methods that take a `Filter` work in a series of short transactions."""

    def cancel(
        self, which: Selection, *, reason: str, grace: timedelta = CANCEL_GRACE, entries: Sequence[Entry] = ()
    ) -> int:
        """Cancel unfinished tasks and return how many were cancelled or asked to stop.

        A leased task is asked to stop, and the sweep cancels it after `grace`. All selected tasks get `reason`; their
        dependents are cancelled too, with a reason of their own, and are not counted. A task that waits for steps which
        it has added itself takes those with it, and they count. After this returns, no new
        attempt of these tasks starts, and a later success does not unblock dependents.
        """
        ...

    def update(
        self, task: TaskId, change: Change, *, expect: Version | None = None, entries: Sequence[Entry] = ()
    ) -> Task:
        """Change an unfinished task and its place in the queue. Raise `UnknownTask`, or `NotAllowed` if it has ended.

        With `expect`, raise `Conflict` unless the task still has that version. Of several updates that expect the same
        version, one succeeds. A task that was changed and changed back has its old version. Raise `CommitUnknown` if
        the answer to the commit was lost and the task has been changed since.
        """
        ...

    def retry(
        self,
        which: Selection,
        *,
        dependents: bool = False,
        restore: bool = False,
        dry_run: bool = False,
        entries: Sequence[Entry] = (),
    ) -> int:
        """Retry failed, cancelled and expired tasks with fresh counters, and return their number.

        Each waits again for its prerequisites that are unfinished or retried too, and ignores the others. With
        `dependents`, the tasks that were cancelled because of these are retried in the same operation, except those
        with another prerequisite that ended badly and is not retried. With `restore`, the tasks go back to where they
        were before they ended: they keep their due times and expiry times. With `dry_run`, nothing is changed, and the
        result is the number of tasks that would be retried.
        """
        ...

    def purge(self, which: Selection, *, entries: Sequence[Entry] = ()) -> int:
        """Delete finished tasks, including dead letters, and return their number. Unfinished tasks are ignored."""
        ...

    def configure(self, queue: Queue, *, expect: Queue | None = None, entries: Sequence[Entry] = ()) -> None:
        """Set the settings of a queue. If the order changes, the tasks in the queue get new places.

        With `expect`, raise `Conflict` unless these are the current settings (the defaults, for a queue that was never
        configured). Setting the same settings again recomputes the places, which repairs an interrupted call.
        """
        ...

    def remove_queue(self, name: str, *, entries: Sequence[Entry] = ()) -> bool:
        """Remove the settings of a queue, so that it has the defaults. Return False if it has none.

        Raise `NotAllowed` if it has unfinished tasks. One that is submitted at the same moment keeps its place.
        """
        ...

    def open_workflow(
        self,
        workflow: str,
        *,
        tenant: str = "default",
        sealed: bool = True,
        forward: timedelta | None = None,
        tasks: Sequence[NewTask] = (),
        entries: Sequence[Entry] = (),
    ) -> list[Receipt]:
        """Open a workflow with options, and submit its first tasks: both or neither.

        Without this call, a workflow is sealed and allows no forward references. The tasks of an unsealed workflow wait
        for `seal_workflow`, so it can be submitted in parts. With `forward`, a task may name a prerequisite before that
        is submitted; after this time it counts as missing. Repeating a call changes nothing.
        """
        ...

    def seal_workflow(
        self, workflow: str, *, tenant: str = "default", missing: bool = False, entries: Sequence[Entry] = ()
    ) -> None:
        """Seal a workflow: let its tasks run.

        Raise `NotAllowed` while forward references are open, unless `missing` ends them.
        """
        ...

    def set_event(
        self,
        workflow: str,
        event: str,
        value: str | None = None,
        *,
        tenant: str = "default",
        entries: Sequence[Entry] = (),
    ) -> EventSet:
        """Set an event of a workflow to a value (JSON text), and complete the step that waits for it.

        If the prerequisites of the step are open, it completes when they have ended. If there is no such step yet, it
        is created, completed. Setting it again to the same value changes nothing. Raise `EventConflict` if it is set to
        another value, and `NotAllowed` if its step has expired, failed or was cancelled.
        """
        ...

    def publish(self, manifest: Manifest, *, entries: Sequence[Entry] = ()) -> None:
        """Publish handlers and crons. Others stay as they are; a known cron keeps its pause and its fired times.

        A cron that was created at run time stays, and one in code with the same name is not stored. `entries` are
        written only if a handler or cron is new or has changed.
        """
        ...

    def put_cron(
        self, cron: CronInfo, *, expect: int, pause: tuple[str, str] | None = None, entries: Sequence[Entry] = ()
    ) -> CronState:
        """Create a cron at run time, if `expect` is 0, or change the one in that version. Return it as it is now.

        With `pause`, by whom and why, a new one is paused; a changed one stays as it is.

        It fires for times after its creation, or after the last change of its schedule, time zone, start or end. Raise
        `CronExists`, `UnknownCron`, `Conflict` if it is in another version, or `NotAllowed` if it is in code. Nothing
        changes, and no entries are written, if it is already as asked.
        """
        ...

    def pause_cron(
        self,
        name: str,
        paused: bool,
        *,
        by: str = "",
        why: str = "",
        expect: int | None = None,
        entries: Sequence[Entry] = (),
    ) -> None:
        """Pause or resume a cron. Raise `UnknownCron`, or `Conflict` if it is not in the version `expect`."""
        ...

    def remove_cron(self, name: str, *, expect: int | None = None, entries: Sequence[Entry] = ()) -> None:
        """Remove a cron: it does not fire after this call. Raise `UnknownCron`, or `Conflict` as `pause_cron` does.

        A node whose app has it publishes it again when it starts.
        """
        ...

    def raise_epoch(self, *, entries: Sequence[Entry] = ()) -> int:
        """Raise the epoch, after a restore or failover: all later fences are greater than all earlier ones."""
        ...
