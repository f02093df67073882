"""The pages Dead letters and Bug: what is broken, is it fixed, and what to do with the tasks that failed."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from windlass.core.task import Task
from windlass.core.times import Micros
from windlass.dashboard.canary_threads import MAX_PATIENCE, run_in_background
from windlass.dashboard.forms import Reason, read_duration, read_object
from windlass.dashboard.page import Goto, Nav, Pages
from windlass.dashboard.tracebacks import Part, split_error
from windlass.dashboard.visit import Visit
from windlass.errors import InvalidTask, NotAllowed, WindlassError
from windlass.operations import audit, dead_letters
from windlass.operations.canary import CanaryRun, find_run
from windlass.operations.dead_letters import Edit
from windlass.stores.coordination import EntrySeen
from windlass.stores.dead_letters import DeadGroup

SHOWN = 100
"""How many tasks of a group the page lists."""
CHANGES = 20
PARTS = 24
"""Into how many parts the time between the first and the last failure is divided."""

pages = Pages()


class DeadPage(Struct, frozen=True, kw_only=True):
    """All groups."""

    groups: list[DeadGroup]
    tasks: int


class FindGroup(Struct, frozen=True, kw_only=True):
    """Changes of arguments to preview, as JSON."""

    changes: str = ""


class GroupPage(Struct, frozen=True, kw_only=True):
    """One group."""

    group: DeadGroup
    traceback: list[Part]
    tasks: list[Task]
    failures: list[int]
    """The tasks that are listed, by the time at which they failed."""
    run: CanaryRun | None
    running: bool
    changes: list[EntrySeen]
    example: str
    """The arguments of the newest task as JSON, without secrets."""
    edit: Edit | None
    edit_text: str
    edit_problem: str


class StartCanary(Reason, frozen=True, kw_only=True):
    """How long a step of a canary may take."""

    patience: str = "1m"


class EditGroup(Reason, frozen=True, kw_only=True):
    """New values of arguments, as a JSON object."""

    changes: str


@pages.show("/dead", "dead.html", title="Dead letters", nav=Nav("Dead letters", "d"))
def show_groups(visit: Visit) -> DeadPage:
    """Show the bugs among the newest failed tasks."""
    found = dead_letters.get_all(visit.access)
    return DeadPage(groups=found, tasks=sum(group.count for group in found))


@pages.show("/dead/{group}", "dead_group.html", title="Bug", every=2.0)
def show_group(visit: Visit, group: str, query: FindGroup) -> GroupPage:
    """Show one bug, its tasks, and what an edit would do."""
    access = visit.access
    found = dead_letters.get(access, group)
    tasks = dead_letters.letters(access, found, limit=SHOWN)
    run = find_run(access, found)
    edit, problem = _preview(visit, found, query.changes)
    return GroupPage(
        group=found,
        traceback=split_error(found.error),
        tasks=tasks,
        failures=_spread([task.finished or 0 for task in tasks], found.first, found.last),
        run=run,
        running=run is not None and run.is_running(visit.now),
        changes=[] if visit.caller.limited else audit.find(access, f"dead/{found.id}", limit=CHANGES).entries,
        example=_indent(tasks[0].args) if tasks else "{}",
        edit=edit,
        edit_text=query.changes,
        edit_problem=problem,
    )


@pages.act("/dead/{group}/retry")
def retry(visit: Visit, group: str, form: Reason) -> Goto:
    """Retry every task of a bug."""
    found = dead_letters.get(visit.access, group)
    done = dead_letters.retry(visit.access, found, visit.author(form.why))
    return Goto(path="dead", text=f"Bug {found.id}: {done.text}.")


@pages.act("/dead/{group}/canary")
def start_canary(visit: Visit, group: str, form: StartCanary) -> Goto:
    """Retry one task of a bug, then ten, then all, until the bug is seen again."""
    patience = read_duration("patience", form.patience)
    if patience is None or not 0 < patience.total_seconds() <= MAX_PATIENCE:
        raise InvalidTask(f"patience={form.patience!r} is out of range. Use up to an hour.")
    found = dead_letters.get(visit.access, group)
    running = find_run(visit.access, found)
    if running is not None and running.is_running(visit.now):
        raise NotAllowed(f"A canary of {running.by} retries bug {found.id} already. Wait until it has ended.")
    text = run_in_background(visit.access, found, patience.total_seconds(), visit.author(form.why))
    return Goto(path=f"dead/{found.id}", text=f"Canary: {text}.")


@pages.act("/dead/{group}/edit")
def edit(visit: Visit, group: str, form: EditGroup) -> Goto:
    """Submit every task of a bug again, with other values of some arguments."""
    found = dead_letters.get(visit.access, group)
    number = dead_letters.edit(visit.access, found, read_object("changes", form.changes), visit.author(form.why))
    text = f"Submitted {number:,} task{'s' * (number != 1)} with other arguments. The failed ones stay."
    return Goto(path=f"dead/{found.id}", text=text)


@pages.act("/dead/{group}/drop")
def drop(visit: Visit, group: str, form: Reason) -> Goto:
    """Remove every task of a bug for good."""
    found = dead_letters.get(visit.access, group)
    number = dead_letters.drop(visit.access, found, visit.author(form.why))
    return Goto(path="dead", text=f"Dropped {number:,} task{'s' * (number != 1)} of bug {found.id} for good.")


def _preview(visit: Visit, group: DeadGroup, text: str) -> tuple[Edit | None, str]:
    """Return what an edit would do, or what is wrong with it."""
    if not text.strip() or not visit.can_operate:
        return None, ""
    try:
        return dead_letters.preview_edit(visit.access, group, read_object("changes", text)), ""
    except WindlassError as error:
        return None, str(error)


def _spread(times: list[Micros], first: Micros, last: Micros) -> list[int]:
    """Count moments in equal parts of a period."""
    found, width = [0] * PARTS, max(1, (last - first) // PARTS + 1)
    for at in times:
        if first <= at <= last:
            found[(at - first) // width] += 1
    return found


def _indent(text: str) -> str:
    return msgspec.json.format(text.encode(), indent=2).decode()
