"""Retry, cancel, purge or reprioritize many tasks: a page that shows the effect first, the action, and its progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated
from uuid import UUID

from msgspec import Meta, Struct

from windlass.core.filter import STATE, Condition, Op, Pattern, Query
from windlass.core.lifecycle import UNFINISHED, State
from windlass.core.query import parse
from windlass.core.task import Change, Task, TaskId
from windlass.dashboard.bulk_threads import BulkThread
from windlass.dashboard.page import Goto, Pages
from windlass.dashboard.visit import Visit
from windlass.errors import InvalidTask, NotAllowed, UnknownTask
from windlass.operations import bulk_runs, facets, tasks
from windlass.operations.bulk import BulkAction, Verb
from windlass.operations.bulk_runs import BulkRun
from windlass.operations.capacity import estimate_added_seconds
from windlass.stores.protocol import Filter

pages = Pages()

SHOWN = 10
MOST_QUEUES = 20


class BulkVerb(StrEnum):
    """What can be done to several tasks at once."""

    RETRY = "retry"
    CANCEL = "cancel"
    PURGE = "purge"
    PRIORITY = "priority"
    """Only for tasks that were picked."""

    @property
    def states(self) -> frozenset[State]:
        """Return the states of the tasks to which it applies. Other tasks stay as they are."""
        return UNFINISHED if self is BulkVerb.PRIORITY else Verb(self.value).states

    @property
    def effect(self) -> str:
        """Return what it does, in a sentence."""
        return {
            "retry": "They run again, with fresh counters.",
            "cancel": "They will not run. Running tasks are asked to stop, and killed after ten seconds. "
            "Tasks that depend on them are cancelled too.",
            "purge": "They are removed for good, with their results and logs. This cannot be undone.",
            "priority": "Higher runs sooner. Tasks that already run are not affected.",
        }[self.value]


class BulkQuery(Struct, frozen=True, kw_only=True):
    """Which verb, and for which tasks: those with these ids, or all that match."""

    verb: BulkVerb
    q: Annotated[str, Meta(max_length=4_000)] = ""
    id: list[UUID] = []
    all: bool = False


class BulkForm(BulkQuery, frozen=True, kw_only=True):
    """What was confirmed."""

    why: str = ""
    priority: int = 0


class BulkPage(Struct, frozen=True, kw_only=True):
    """What the page shows before anything happens."""

    verb: BulkVerb
    q: str
    all: bool
    ids: Sequence[TaskId]
    total: int
    exact: bool
    tasks: Sequence[Task]
    divided: Mapping[str, Mapping[str, int]]
    """By field and value, how many tasks."""
    seconds: float | None = None
    """How long the present workers need for them."""


class RunPage(Struct, frozen=True, kw_only=True):
    """How far a long action is."""

    run: BulkRun
    running: bool
    text: str
    can_stop: bool
    undo: list[int]
    """The audit entries that this person can undo."""

    @property
    def share(self) -> float:
        """Return the part that is done."""
        return min(1.0, self.run.done / self.run.total) if self.run.total else 0.0


@pages.show("/tasks/bulk", "tasks_bulk.html", title="Change tasks")
def confirm(visit: Visit, query: BulkQuery) -> BulkPage:
    """Show what an action would do."""
    return _confirm_filter(visit, query) if query.all else _confirm_ids(visit, query)


@pages.act("/tasks/bulk")
def run(visit: Visit, form: BulkForm) -> Goto:
    """Do it."""
    if form.verb is BulkVerb.PRIORITY:
        done = _set_priority(visit, form)
        return Goto(path="tasks", params={"q": form.q}, text=f"Set priority {form.priority} of {_number(done)}.")
    verb = Verb(form.verb.value)
    which = Filter(query=parse(form.q)) if form.all else [TaskId(id) for id in form.id]
    action = BulkThread(visit.access, verb, which, visit.author(form.why), form.q)
    if not action.start(visit.background):
        return Goto(path=f"tasks/bulk/{action.id}")
    if action.error is not None:
        raise action.error
    return Goto(path="tasks", params={"q": form.q}, text=f"{verb.done.capitalize()} {_number(action.done)}.")


@pages.show("/tasks/bulk/{run}", "bulk_run.html", title="Change tasks", every=1.0, personal=True)
def show_run(visit: Visit, run: str) -> RunPage:
    """Show how far a long action is."""
    found = bulk_runs.get(visit.access, run)
    running = found.is_running(visit.now)
    return RunPage(
        run=found,
        running=running,
        text=_describe(found, running=running),
        can_stop=visit.can_operate and found.can_stop(visit.now),
        undo=list(found.undo) if visit.can_operate else [],
    )


@pages.act("/tasks/bulk/{run}/stop")
def stop_run(visit: Visit, run: str) -> Goto:
    """Stop a long action after its current batch."""
    bulk_runs.ask_to_stop(visit.access, run)
    return Goto(path=f"tasks/bulk/{run}", text="It stops after the current batch.")


def _describe(run: BulkRun, *, running: bool) -> str:
    done = f"{run.verb.done.capitalize()} {run.done:,} of {'' if run.exact else 'at least '}{_number(run.total)}"
    if running:
        return f"{done}." if run.counted else f"Counting: {_number(run.total)} so far. Nothing has changed yet."
    if run.problem:
        return f"{done}, then it ended early: {run.problem.rstrip('.')}. What is done stays done."
    if not run.ended:
        rest = "What is done stays done." if run.in_steps else "If it had begun, a node completes it."
        return f"{done} when its server last reported. {rest}"
    if run.stop and run.done < run.total:
        return f"{done}, then it was stopped. What is done stays done; the other tasks are as they were."
    return f"{run.verb.done.capitalize()} {_number(run.done)}."


def _set_priority(visit: Visit, form: BulkForm) -> int:
    if form.all:
        raise InvalidTask("priority: pick the tasks first. It cannot be set for a whole filter.")
    done = 0
    for id in form.id:
        try:
            tasks.change(visit.access, TaskId(id), Change(priority=form.priority), visit.author(form.why))
        except (UnknownTask, NotAllowed):
            continue  # It has ended since it was picked.
        done += 1
    return done


def _confirm_ids(visit: Visit, query: BulkQuery) -> BulkPage:
    found = [task for id in query.id if (task := _find(visit, TaskId(id))) is not None]
    chosen = [task for task in found if task.state in query.verb.states]
    divided = {field: Counter(str(getattr(task, field)) for task in chosen) for field in ("state", "queue", "tenant")}
    return BulkPage(
        verb=query.verb,
        q=query.q,
        all=False,
        ids=[task.id for task in chosen],
        total=len(chosen),
        exact=True,
        tasks=chosen[:SHOWN],
        divided=divided,
        seconds=_seconds(visit, query.verb, divided["queue"]),
    )


def _confirm_filter(visit: Visit, query: BulkQuery) -> BulkPage:
    parsed, states = parse(query.q), query.verb.states
    if query.verb is BulkVerb.PRIORITY:
        raise InvalidTask("priority: pick the tasks first. It cannot be set for a whole filter.")
    action = BulkAction(visit.access, Verb(query.verb.value), Filter(query=parsed), visit.author())
    total = action.count()
    values = tuple(Pattern((state.value,)) for state in sorted(states))
    applies = Query((*parsed.conditions, Condition(field=STATE, op=Op.IS, values=values)))
    parts = facets.get_facets(visit.access, applies)
    # A facet also counts what another value of its field would match; here only what matches is of interest.
    divided = {
        facet.field: {value: number for value, number in facet.values.items() if number and _fits(facet, value)}
        for facet in parts.facets
    }
    return BulkPage(
        verb=query.verb,
        q=query.q,
        all=True,
        ids=[],
        total=total,
        exact=action.exact,
        tasks=tasks.find(visit.access, Filter(query=parsed, states=states), limit=SHOWN).tasks,
        divided=divided if parts.sampled is None else {},
        seconds=None if parts.sampled else _seconds(visit, query.verb, divided.get("queue", {})),
    )


def _fits(facet: facets.Facet, value: str) -> bool:
    return not facet.chosen or value in facet.chosen


def _find(visit: Visit, id: TaskId) -> Task | None:
    try:
        return tasks.get(visit.access, id)
    except UnknownTask:
        return None


def _seconds(visit: Visit, verb: BulkVerb, queues: Mapping[str, int]) -> float | None:
    if verb is not BulkVerb.RETRY or visit.caller.limited or len(queues) > MOST_QUEUES:
        return None
    return estimate_added_seconds(visit.access.store, queues)


def _number(tasks: int) -> str:
    return f"{tasks:,} task{'s' * (tasks != 1)}"
