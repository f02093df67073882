"""The pages Dead letters and Bug: what is broken, is it fixed, and what to do with the tasks that failed."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.core.lifecycle import State
from windlass.core.task import Task
from windlass.core.times import Micros
from windlass.dashboard.canary_threads import MAX_PATIENCE, run_in_background
from windlass.dashboard.forms import Reason, read_duration, read_object
from windlass.dashboard.page import Goto, Nav, Pages
from windlass.dashboard.tracebacks import Part, split_error
from windlass.dashboard.visit import Visit
from windlass.errors import InvalidTask, NotAllowed, WindlassError
from windlass.operations import audit, dead_letters
from windlass.operations.canary import MOST_TASKS, CanaryRun, find_retried, find_runs
from windlass.operations.dead_letters import Edit
from windlass.stores.coordination import EntrySeen
from windlass.stores.dead_letters import DeadGroup

SHOWN = 100
"""How many tasks of a group the page lists."""
CHANGES = 20
PARTS = 24
"""Into how many parts the time between the first and the last listed failure is divided."""

pages = Pages()


class DeadPage(Struct, frozen=True, kw_only=True):
    """All groups, and the canaries by group."""

    groups: list[DeadGroup]
    tasks: int
    complete: bool
    """False if there are more failed tasks or bugs than these."""
    runs: Mapping[str, CanaryRun]


class FindGroup(Struct, frozen=True, kw_only=True):
    """Changes of arguments to preview, as JSON."""

    changes: str = ""


class Outcome(Struct, frozen=True, kw_only=True):
    """The latest canary of a group, and the tasks that it retried."""

    run: CanaryRun
    running: bool
    tasks: list[Task]
    """The first of them, as they are now."""
    failed_since: bool
    """True if a task of the group failed after the end of the canary."""

    @property
    def completed(self) -> int:
        """Return how many of these tasks have completed."""
        return sum(task.state is State.COMPLETED for task in self.tasks)

    @property
    def fixed(self) -> bool | None:
        """Return whether the bug is fixed, as far as is known; None while the canary runs."""
        fixed = self.run.progress.fixed
        return False if fixed and (self.failed_since or any(task.state.ended_badly for task in self.tasks)) else fixed

    @property
    def title(self) -> str:
        """Return the result in a few words."""
        if self.running:
            return "Canary running"
        if self.fixed is None:
            return "Canary stopped: its server is gone"
        if not self.fixed:
            return "Not fixed" if self.run.progress.fixed is False else "Not fixed: it failed again after the canary"
        some = "the first " if self.run.chosen > len(self.tasks) == MOST_TASKS else ""
        result = f"{self.completed:,} of {some}{len(self.tasks):,} completed"
        return f"{'Fixed' if self.completed == len(self.tasks) else 'Fixed so far'}: {result}"


class GroupPage(Struct, frozen=True, kw_only=True):
    """One group, or the result of its canary if nothing fails with this error any more."""

    id: str
    kind: str
    """The kind of its error; empty if that is not known any more."""
    group: DeadGroup | None
    """None if no task fails with this bug any more."""
    traceback: list[Part]
    tasks: list[Task]
    failures: list[int]
    """The tasks that are listed, by the time at which they failed."""
    outcome: Outcome | None
    changes: list[EntrySeen]
    example: str
    """The arguments of the newest task as JSON, without secrets."""
    edit: Edit | None
    edit_text: str
    edit_problem: str

    @property
    def running(self) -> bool:
        """Return True while a canary runs."""
        return self.outcome is not None and self.outcome.running

    @property
    def partial(self) -> bool:
        """Return True if the group has more tasks than are listed."""
        return self.group is not None and self.group.count > len(self.tasks)


class StartCanary(Reason, frozen=True, kw_only=True):
    """How long a step of a canary may take."""

    patience: str = "1m"


class EditGroup(Reason, frozen=True, kw_only=True):
    """New values of arguments, as a JSON object."""

    changes: str


@pages.show("/dead", "dead.html", title="Dead letters", nav=Nav("Dead letters", "d"))
def show_groups(visit: Visit) -> DeadPage:
    """Show the bugs among the newest failed tasks."""
    groups = dead_letters.read_groups(visit.access)
    found = groups.groups
    running = {id: run for id, run in find_runs(visit.access).items() if run.is_running(visit.now)}
    tasks = sum(group.count for group in found)
    return DeadPage(groups=found, tasks=tasks, complete=groups.complete, runs=running)


@pages.show("/dead/{group}", "dead_group.html", title="Bug", every=2.0)
def show_group(visit: Visit, group: str, query: FindGroup) -> GroupPage:
    """Show one bug, its tasks, and what an edit would do; without failed tasks, how its canary ended."""
    access = visit.access
    found = dead_letters.find(access, group)
    id = group if found is None else found.id
    outcome = _find_outcome(visit, id, found)
    page = GroupPage(
        id=id,
        kind="" if outcome is None else outcome.run.error,
        group=None,
        traceback=[],
        tasks=[],
        failures=[],
        outcome=outcome,
        changes=[] if visit.caller.limited else audit.find(access, f"dead/{id}", limit=CHANGES).entries,
        example="{}",
        edit=None,
        edit_text=query.changes,
        edit_problem="",
    )
    return page if found is None else _with_tasks(visit, page, found)


def _with_tasks(visit: Visit, page: GroupPage, group: DeadGroup) -> GroupPage:
    tasks = dead_letters.letters(visit.access, group, limit=SHOWN)
    edit, problem = _preview(visit, group, page.edit_text)
    return replace(
        page,
        kind=group.error.kind,
        group=group,
        traceback=split_error(group.error),
        tasks=tasks,
        failures=_spread([task.finished or 0 for task in tasks]),
        example=_indent(tasks[0].args) if tasks else "{}",
        edit=edit,
        edit_problem=problem,
    )


def _find_outcome(visit: Visit, id: str, group: DeadGroup | None) -> Outcome | None:
    run = find_runs(visit.access).get(id)
    if run is None:
        return None
    return Outcome(
        run=run,
        running=run.is_running(visit.now),
        tasks=find_retried(visit.access, run),
        failed_since=group is not None and group.last > run.at,
    )


@pages.act("/dead/{group}/retry")
def retry(visit: Visit, group: str, form: Reason) -> Goto:
    """Retry every task of a bug."""
    found = dead_letters.find(visit.access, group)
    if found is None:
        return _gone(group)
    done = dead_letters.retry(visit.access, found, visit.author(form.why))
    return Goto(path="dead", text=f"Bug {found.id}: {done.text}.")


@pages.act("/dead/{group}/canary")
def start_canary(visit: Visit, group: str, form: StartCanary) -> Goto:
    """Retry one task of a bug, then ten, then all, until the bug is seen again."""
    patience = read_duration("patience", form.patience)
    if patience is None or not 0 < patience.total_seconds() <= MAX_PATIENCE:
        raise InvalidTask(f"patience={form.patience!r} is out of range. Use up to an hour.")
    running = find_runs(visit.access).get(group)
    if running is not None and running.is_running(visit.now):
        raise NotAllowed(f"A canary of {running.by} retries bug {group} already. Wait until it has ended.")
    found = dead_letters.find(visit.access, group)
    if found is None:
        return _gone(group)
    text = run_in_background(visit.background, visit.access, found, patience.total_seconds(), visit.author(form.why))
    return Goto(path=f"dead/{found.id}", text=f"Canary: {text}.")


@pages.act("/dead/{group}/edit")
def edit(visit: Visit, group: str, form: EditGroup) -> Goto:
    """Submit every task of a bug again, with other values of some arguments."""
    found = dead_letters.find(visit.access, group)
    if found is None:
        return _gone(group)
    number = dead_letters.edit(visit.access, found, read_object("changes", form.changes), visit.author(form.why))
    text = f"Submitted {number:,} task{'s' * (number != 1)} with other arguments. The failed ones stay."
    return Goto(path=f"dead/{found.id}", text=text)


@pages.act("/dead/{group}/drop")
def drop(visit: Visit, group: str, form: Reason) -> Goto:
    """Remove every task of a bug for good."""
    found = dead_letters.find(visit.access, group)
    if found is None:
        return _gone(group)
    number = dead_letters.drop(visit.access, found, visit.author(form.why))
    return Goto(path="dead", text=f"Dropped {number:,} task{'s' * (number != 1)} of bug {found.id} for good.")


def _gone(group: str) -> Goto:
    return Goto(path="dead", text=f"Nothing was done: no task fails with bug {group} any more.", failed=True)


def _preview(visit: Visit, group: DeadGroup, text: str) -> tuple[Edit | None, str]:
    """Return what an edit would do, or what is wrong with it."""
    if not text.strip() or not visit.can_operate:
        return None, ""
    try:
        return dead_letters.preview_edit(visit.access, group, read_object("changes", text)), ""
    except WindlassError as error:
        return None, str(error)


def _spread(times: list[Micros]) -> list[int]:
    """Count moments in equal parts of the time from the first to the last."""
    first, last = min(times, default=0), max(times, default=0)
    found, width = [0] * PARTS, max(1, (last - first) // PARTS + 1)
    for at in times:
        found[(at - first) // width] += 1
    return found


def _indent(text: str) -> str:
    return msgspec.json.format(text.encode(), indent=2).decode()
