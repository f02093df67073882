"""What people change by hand: the verbs, the filter by which they name tasks, and how they say what they have seen.

Every verb takes `entries` for the audit log. They are written in the same transaction as the change itself, and only if
there is one: a call that is refused, fails, or finds nothing to do leaves no entry. Over many tasks a SQL store writes
them when it decides what to do, or with the first tasks that it purges; if the answer to that commit is lost they may
come to stand there twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol, TypeAlias

from msgspec import Struct

from windlass.core.filter import Query
from windlass.core.lifecycle import State
from windlass.core.manifest import Manifest
from windlass.core.names import check_type
from windlass.core.ordering import Queue
from windlass.core.task import Change, Task, TaskId
from windlass.core.task_update import Version
from windlass.core.times import Micros
from windlass.core.validation import check_ids
from windlass.stores.coordination import Entry

CANCEL_GRACE = timedelta(seconds=10)


class Filter(Struct, frozen=True, kw_only=True):
    """Which tasks: all conditions that are given must hold."""

    states: frozenset[State] = frozenset()
    queue: str | None = None
    tenant: str | None = None
    workflow: str | None = None
    handler: str | None = None
    query: Query | None = None
    """Whatever else: see `core.query.parse`."""

    def check(self) -> None:
        """Refuse a filter with a field of the wrong type, such as one state instead of a set of states."""
        right = "pass a set of State, as in {State.FAILED}"
        check_type("filter.states", self.states, (frozenset, set, tuple, list), right)
        for state in self.states:
            check_type("filter.states", state, State, right)
        for field in ("queue", "tenant", "workflow", "handler"):
            check_type(f"filter.{field}", getattr(self, field), (str, type(None)), "pass text or None")
        check_type("filter.query", self.query, (Query, type(None)), "make one with core.query.parse")

    def matches(self, task: Task, now: Micros) -> bool:
        """Whether the task is one of them at this moment."""
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
    """Refuse anything but a well-formed `Filter`."""
    check_type("filter", filter, Filter, "pass a Filter")
    filter.check()


def check_which(which: object) -> None:
    """Refuse anything but a well-formed `Filter` or a list of task ids."""
    if isinstance(which, Filter):
        which.check()
    else:
        check_ids(which, "which")


class Operator(Protocol):
    """What people change by hand. The verbs that take a `Filter` work in short transactions."""

    def cancel(
        self, which: Selection, *, reason: str, grace: timedelta = CANCEL_GRACE, entries: Sequence[Entry] = ()
    ) -> int:
        """Cancel unfinished tasks. A leased one is asked to stop, and made to by the sweep after `grace`.

        Answers how many of the tasks that `which` names were cancelled or asked to stop by this call. All of them get
        `reason`; then the cascade cancels whatever else waits for them, which is not counted. After this returns no
        new attempt of them starts, and a later success does not unblock what waits.
        """
        ...

    def update(
        self, task: TaskId, change: Change, *, expect: Version | None = None, entries: Sequence[Entry] = ()
    ) -> Task:
        """Change an unfinished task and its place in the queue. Raises `UnknownTask`, or `NotAllowed` when it ended.

        With `expect` only if it is still as it was seen, else `Conflict`: of several changes that expect the same
        version one happens. One that was changed and changed back meanwhile is as it was seen. `CommitUnknown` when
        the answer was lost and somebody has changed it since.
        """
        ...

    def retry(
        self, which: Selection, *, dependents: bool = False, dry_run: bool = False, entries: Sequence[Entry] = ()
    ) -> int:
        """Bring failed, cancelled or expired tasks back with fresh counters; how many. Others are left as they are.

        Each waits again for those of its prerequisites that are unfinished or come back too, and passes over others
        that ended badly. With `dependents` comes back, in the same operation, whatever was cancelled because one of
        these tasks ended badly, and so on down; but not a task with another prerequisite that ended badly and stays so.
        With `dry_run` nothing is changed, and the answer is how many it would be.
        """
        ...

    def purge(self, which: Selection, *, entries: Sequence[Entry] = ()) -> int:
        """Remove finished tasks for good, dead letters too; how many. Unfinished ones are left as they are."""
        ...

    def configure(self, queue: Queue, *, expect: Queue | None = None, entries: Sequence[Entry] = ()) -> None:
        """Set a queue's settings. Other rules of order give the tasks that are already there their new places.

        With `expect` only if the settings are still those, else `Conflict`; one that nobody has configured has the
        defaults. Setting what is set already is no change, but gives the tasks their places once more.
        """
        ...

    def open_workflow(
        self,
        workflow: str,
        *,
        tenant: str = "default",
        sealed: bool = True,
        forward: timedelta | None = None,
        entries: Sequence[Entry] = (),
    ) -> None:
        """Prepare a workflow. Unsealed, its tasks wait for `seal_workflow`, so it can be submitted in parts.

        With `forward`, a prerequisite may be named before it is submitted; after that time it counts as missing.
        Without this call a workflow is sealed and takes no forward references. Repeating a call changes nothing.
        """
        ...

    def seal_workflow(
        self, workflow: str, *, tenant: str = "default", missing: bool = False, entries: Sequence[Entry] = ()
    ) -> None:
        """Let an unsealed workflow run. `NotAllowed` while forward references are open, unless `missing` ends them."""
        ...

    def publish(self, manifest: Manifest, *, entries: Sequence[Entry] = ()) -> None:
        """Make handlers and crons known, by name. Others stay as they are; a cron keeps its pause and what it fired.

        `entries` are written only if a handler or cron is new or differs from the one that was known.
        """
        ...

    def pause_cron(
        self, name: str, paused: bool, *, by: str = "", why: str = "", entries: Sequence[Entry] = ()
    ) -> None:
        """Let a cron fire no more, or fire again. Raises `UnknownCron`."""
        ...

    def raise_epoch(self) -> int:
        """After a restore or failover: make every later fence greater than any handed out before it."""
        ...
