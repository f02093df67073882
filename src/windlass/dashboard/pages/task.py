"""The page of one task: what happened to it, and what it waits for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct, field

from windlass.core.lifecycle import State
from windlass.core.task import Attempt, Change, Task, TaskId
from windlass.dashboard.forms import Reason
from windlass.dashboard.page import Goto, Pages
from windlass.dashboard.svg.timeline import Segment, find_segments
from windlass.dashboard.tracebacks import Part, split_error
from windlass.dashboard.visit import Visit
from windlass.errors import InvalidTask
from windlass.operations import audit, dead_letters, tasks
from windlass.operations.argument_fields import (
    MOST_CHARACTERS,
    ArgumentField,
    EditedField,
    get_fields,
    parse_fields,
)
from windlass.operations.last_success import Comparison, Difference, compare_with_last_success
from windlass.operations.tasks import TaskDetails
from windlass.server.events.topics import TaskTopic, Topic
from windlass.stores.coordination import EntrySeen
from windlass.stores.dead_letters import DeadGroup
from windlass.stores.protocol import Neighbour

pages = Pages()

MOST_NEIGHBOURS = 10
MOST_LINES = 1_000
"""How many lines of the output of an attempt are shown, the last ones."""
MOST_COMPARED = 500
"""How many characters of a value the comparison shows."""
BEFORE = 40
"""How many characters it shows before the first one that differs in a long value."""


class Kind(StrEnum):
    """How an argument is edited."""

    TEXT = "text"
    JSON = "json"


class TaskQuery(Struct, frozen=True, kw_only=True):
    """How to show the timeline."""

    first_wait: bool = True


class ShownOutput(Struct, frozen=True, kw_only=True):
    """The last lines of the output of an attempt."""

    text: str = ""
    cut: bool = False
    """True if the output has more lines than are shown."""


class ShownAttempt(Struct, frozen=True, kw_only=True):
    """One ended attempt with its error and its output."""

    number: int
    attempt: Attempt
    traceback: Sequence[Part]
    output: ShownOutput


class CurrentAttempt(Struct, frozen=True, kw_only=True):
    """The attempt that runs now, with its output so far."""

    number: int
    output: ShownOutput


class ShownDifference(Struct, frozen=True, kw_only=True):
    """What differs from the last task of the same handler that completed, cut where the two sides differ."""

    field: str
    here: str
    there: str
    hidden: bool


class TaskPage(Struct, frozen=True, kw_only=True):
    """What the page shows."""

    details: TaskDetails
    segments: Sequence[Segment]
    skip_first_wait: bool
    running: CurrentAttempt | None
    attempts: Sequence[ShownAttempt]
    """The newest first."""
    arguments: Sequence[ArgumentField]
    result: str | None
    prerequisites: Sequence[Neighbour]
    dependents: Sequence[Neighbour]
    more_neighbours: int
    group: DeadGroup | None
    comparison: Comparison | None
    differences: Sequence[ShownDifference]
    entries: Sequence[EntrySeen]

    @property
    def task(self) -> Task:
        """Return the task."""
        return self.details.task

    @property
    def question(self) -> str:
        """Return what people want to know about a task in its state."""
        if self.task.state.final:
            return "How did it end?"
        return "What is it doing?" if self.task.state is State.LEASED else "Why is it not running?"

    @property
    def ending(self) -> str:
        """Return how it ended. The error of its last attempt is shown with that attempt, so it is only named here."""
        task, last = self.task, self.attempts[0] if self.attempts else None
        if last is not None and task.state is State.COMPLETED:
            return f"{task.state.value} in attempt {last.number}"
        error = None if last is None else last.attempt.error
        if last is not None and error is not None and (task.reason or "").startswith(error.kind):
            return f"{task.state.value} in attempt {last.number} with {error.kind}"
        return f"{task.state.value}: {task.reason}" if task.reason else task.state.value

    @property
    def waited(self) -> int:
        """Return how long it has waited, in microseconds."""
        return sum(each.length for each in self.segments if each.attempt is None)

    @property
    def worked(self) -> int:
        """Return how long attempts have worked, in microseconds."""
        return sum(each.length for each in self.segments if each.attempt is not None)


def follow_task(visit: Visit, id: str, **_: Any) -> Topic:
    """Follow the state and the progress of the task."""
    return TaskTopic(task=tasks.look_up(visit.access, id).id, unrestricted=not visit.caller.limited)


@pages.show("/tasks/{id}", "task.html", title="Task", follows=follow_task, every=10)
def show_task(visit: Visit, id: str, query: TaskQuery) -> TaskPage:
    """Show one task. Eight digits of its id are enough."""
    access = visit.access
    found = tasks.details(access, tasks.look_up(access, id).id)
    task = found.task
    around = tasks.graph(access, task.id)
    shown = [around.prerequisites[:MOST_NEIGHBOURS], around.dependents[:MOST_NEIGHBOURS]]
    ended = task.state.ended_badly or task.state is State.RETRYING
    comparison = compare_with_last_success(access, task.id) if ended else None
    return TaskPage(
        details=found,
        segments=find_segments(task, found.attempts, visit.now),
        skip_first_wait=not query.first_wait,
        running=_running(found),
        attempts=_attempts(found),
        arguments=get_fields(access, task.id),
        result=None if task.result is None else _pretty(task.result),
        prerequisites=shown[0],
        dependents=shown[1],
        more_neighbours=len(around.prerequisites) + len(around.dependents) - sum(map(len, shown)),
        group=dead_letters.find_group(access, task.id),
        comparison=comparison,
        differences=[] if comparison is None else [_cut(each) for each in comparison.differences],
        entries=[] if visit.caller.limited else audit.find(access, f"task/{task.id}", limit=20).entries,
    )


class EditForm(Reason, frozen=True, kw_only=True):
    """The fields of the arguments: their names, how they were shown, and their texts, in the same order."""

    name: list[str] = field(default_factory=list[str])
    kind: list[Kind] = field(default_factory=list[Kind])
    value: list[str] = field(default_factory=list[str])


class ChangeForm(Reason, frozen=True, kw_only=True):
    """The new priority of a task."""

    priority: int


@pages.act("/tasks/{id}/retry")
def retry(visit: Visit, form: Reason, id: UUID) -> Goto:
    """Run a task again that ended badly."""
    done = tasks.retry(visit.access, TaskId(id), visit.author(form.why))
    text = "Retried the task." if done.tasks else f"Not retried: the task is {done.state}."
    return Goto(path=f"tasks/{id}", text=text, failed=not done.tasks)


@pages.act("/tasks/{id}/cancel")
def cancel(visit: Visit, form: Reason, id: UUID) -> Goto:
    """Cancel an unfinished task."""
    done = tasks.cancel(visit.access, TaskId(id), visit.author(form.why))
    message = "Asked the task to stop." if done.state is State.LEASED else "Cancelled the task."
    text = message if done.tasks else f"Not cancelled: the task is {done.state}."
    return Goto(path=f"tasks/{id}", text=text, failed=not done.tasks)


@pages.act("/tasks/{id}/run-now")
def run_now(visit: Visit, form: Reason, id: UUID) -> Goto:
    """Make a task due now that is scheduled or will be retried."""
    tasks.change(visit.access, TaskId(id), Change(at=timedelta(0)), visit.author(form.why))
    return Goto(path=f"tasks/{id}", text="The task is due now.")


@pages.act("/tasks/{id}/priority")
def set_priority(visit: Visit, form: ChangeForm, id: UUID) -> Goto:
    """Change the priority of an unfinished task."""
    tasks.change(visit.access, TaskId(id), Change(priority=form.priority), visit.author(form.why))
    return Goto(path=f"tasks/{id}", text=f"Set the priority to {form.priority}.")


@pages.act("/tasks/{id}/edit")
def edit(visit: Visit, form: EditForm, id: UUID) -> Goto:
    """Submit a task that ended badly again, with the arguments that were changed. The old task stays as it is."""
    if not len(form.name) == len(form.kind) == len(form.value):
        raise InvalidTask("args: the form is incomplete. Reload the page and try again.")
    edited = [
        EditedField(name=name, as_text=kind is Kind.TEXT, text=value)
        for name, kind, value in zip(form.name, form.kind, form.value, strict=True)
    ]
    changes = parse_fields(visit.access, TaskId(id), edited)
    if not changes:
        raise InvalidTask("args: nothing was changed. To run the task again as it is, retry it.")
    receipt = tasks.edit_and_retry(visit.access, TaskId(id), changes, visit.author(form.why))
    return Goto(path=f"tasks/{receipt.id}", text=f"Submitted in place of {id}, with other arguments.")


def _running(found: TaskDetails) -> CurrentAttempt | None:
    if found.task.state is not State.LEASED:
        return None
    text = next((log.text for log in found.logs if log.running), "")
    return CurrentAttempt(number=len(found.attempts) + 1, output=_last_lines(text))


def _attempts(found: TaskDetails) -> list[ShownAttempt]:
    logs = {log.fence: log.text for log in found.logs}
    shown: list[ShownAttempt] = []
    for number, attempt in enumerate(found.attempts, 1):
        traceback = [] if attempt.error is None else split_error(attempt.error)
        output = _last_lines(logs.get(attempt.fence, ""))
        shown.append(ShownAttempt(number=number, attempt=attempt, traceback=traceback, output=output))
    return shown[::-1]


def _last_lines(text: str) -> ShownOutput:
    lines = text.splitlines()
    return ShownOutput(text="\n".join(lines[-MOST_LINES:]), cut=len(lines) > MOST_LINES)


def _pretty(text: str) -> str:
    return msgspec.json.format(text)[:MOST_CHARACTERS]


def _cut(difference: Difference) -> ShownDifference:
    """Cut both sides to what is around the first character that differs."""
    here, there = (("–" if side is None else side) for side in (difference.here, difference.there))
    pairs = enumerate(zip(here, there, strict=False))
    same = next((index for index, (one, other) in pairs if one != other), min(len(here), len(there)))
    start = max(0, same - BEFORE) if max(len(here), len(there)) > MOST_COMPARED else 0

    def cut(text: str) -> str:
        part = text[start : start + MOST_COMPARED]
        return ("…" if start else "") + part + ("…" if start + MOST_COMPARED < len(text) else "")

    return ShownDifference(field=difference.field, here=cut(here), there=cut(there), hidden=difference.hidden)
