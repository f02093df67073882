"""A workflow as people see it: its steps, how they hang together, and the path that takes longest.

Read from a store once, and from then on plain values: one place for the command line, the API and the dashboard.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from windlass.core.lifecycle import State
from windlass.core.task import Task, TaskId
from windlass.core.times import Micros
from windlass.errors import InvalidTask, WindlassError
from windlass.stores.protocol import Filter, TaskReader

MOST_STEPS = 10_000
_PAGE = 1_000


class UnknownWorkflow(WindlassError, LookupError):
    """No task belongs to a workflow of this name."""

    code = "unknown_workflow"


class Step(Struct, frozen=True, kw_only=True):
    """One task of a workflow, with its times put in order."""

    task: Task
    name: str
    """Its key, or its handler and the end of its id."""
    prerequisites: tuple[TaskId, ...]
    """Those of the same workflow."""
    ready: Micros
    """When it could have run: submitted, and its prerequisites ended."""
    began: Micros | None
    ended: Micros | None

    def waited(self, now: Micros) -> Micros:
        """How long it stood ready before its latest attempt began."""
        return max(0, (self.began or self.ended or now) - self.ready)

    def worked(self, now: Micros) -> Micros:
        """How long its latest attempt has run."""
        return 0 if self.began is None else max(0, (self.ended or now) - self.began)


class Workflow(Struct, frozen=True, kw_only=True):
    """All of it, in an order in which prerequisites come first."""

    name: str
    tenant: str
    steps: tuple[Step, ...]
    critical: tuple[TaskId, ...]
    """The steps that decide when it ends: of each the prerequisite that ended last."""

    @property
    def states(self) -> dict[State, int]:
        """How many steps are in each state."""
        states = [step.task.state for step in self.steps]
        return {state: states.count(state) for state in State if state in states}

    @property
    def submitted(self) -> Micros:
        """When its first step was submitted."""
        return min(step.task.submitted for step in self.steps)

    @property
    def ended(self) -> Micros | None:
        """When its last step ended; None while one is open."""
        ends = [step.ended for step in self.steps]
        return None if None in ends else max(end for end in ends if end is not None)

    def step(self, text: str) -> Step:
        """A step by its name or id."""
        found = [step for step in self.steps if text in (step.name, step.task.key, str(step.task.id))]
        if len(found) == 1:
            return found[0]
        names = ", ".join(step.name for step in self.steps[:20])
        raise InvalidTask(f"step={text!r} names {len(found) or 'no'} step(s) of {self.name}; there are {names}")


class Listed(Struct, frozen=True, kw_only=True):
    """A workflow in a list: how many of its tasks are in each state, of those that were looked at."""

    name: str
    tenant: str
    tasks: dict[State, int]
    submitted: Micros
    """When the first of them was submitted."""


def listed(store: TaskReader, filter: Filter, *, limit: int = MOST_STEPS) -> list[Listed]:
    """Every workflow that one of the newest `limit` tasks belongs to, the newest first."""
    found: dict[tuple[str, str], list[Task]] = {}
    after, left = None, limit
    while left > 0:
        page = store.find(filter, limit=min(_PAGE, left), after=after)
        for task in page.tasks:
            if task.workflow is not None:
                found.setdefault((task.tenant, task.workflow), []).append(task)
        left, after = left - len(page.tasks), page.after
        if after is None:
            break
    return [_listed(name, tenant, tasks) for (tenant, name), tasks in found.items()]


def workflow(store: TaskReader, name: str, *, tenant: str | None = None) -> Workflow:
    """Read one. `UnknownWorkflow` if it has no task."""
    tasks = _tasks(store, Filter(workflow=name, tenant=tenant))
    if not tasks:
        raise UnknownWorkflow(f"workflow={name!r} has no task; `windlass workflows ls` shows those that have")
    tenants = sorted({task.tenant for task in tasks})
    if len(tenants) > 1:
        raise InvalidTask(f"workflow={name!r} is a name of several tenants; give one of {', '.join(tenants)}")
    known = {task.id: task for task in tasks}
    edges = {id: _prerequisites(store, id, known) for id in known}
    steps = tuple(_step(known[id], edges[id], known) for id in _in_order(edges, known))
    return Workflow(name=name, tenant=tenants[0], steps=steps, critical=critical_path(steps))


def slack(steps: Sequence[Step], now: Micros) -> dict[TaskId, Micros]:
    """By how much longer each step could have taken without the end coming later; 0 for those that decide it.

    As if every step began when its prerequisites had ended: the waiting in between counts as its own. What is open ends
    now, as far as anybody knows. The steps come in an order in which prerequisites are first.
    """
    ends = {step.task.id: now if step.ended is None else step.ended for step in steps}
    latest = dict.fromkeys(ends, max(ends.values(), default=now))
    for step in reversed(steps):
        taken = max(0, ends[step.task.id] - step.ready)
        for before in step.prerequisites:
            latest[before] = min(latest[before], latest[step.task.id] - taken)
    return {id: max(0, latest[id] - ends[id]) for id in ends}


def critical_path(steps: Sequence[Step]) -> tuple[TaskId, ...]:
    """From the step that ends last back along the prerequisite that ended last, told from the beginning.

    The steps come in an order in which prerequisites are first.
    """
    by_id = {step.task.id: step for step in steps}
    place = {step.task.id: number for number, step in enumerate(steps)}
    if not by_id:
        return ()

    def late(step: Step) -> tuple[bool, int, int]:
        """What is open ends after all that has ended, and after the open steps that come before it."""
        return (step.ended is None, step.ended or 0, place[step.task.id])

    path = [max((step for step in steps if step.task.state is not State.CANCELLED), key=late, default=steps[-1])]
    while path[-1].prerequisites:
        path.append(max((by_id[id] for id in path[-1].prerequisites), key=late))
    return tuple(step.task.id for step in reversed(path))


def _listed(name: str, tenant: str, tasks: Sequence[Task]) -> Listed:
    states = [task.state for task in tasks]
    counts = {state: states.count(state) for state in State if state in states}
    return Listed(name=name, tenant=tenant, tasks=counts, submitted=min(task.submitted for task in tasks))


def _tasks(store: TaskReader, filter: Filter) -> list[Task]:
    found: list[Task] = []
    after = None
    while len(found) < MOST_STEPS:
        page = store.find(filter, limit=_PAGE, after=after)
        found += page.tasks
        after = page.after
        if after is None:
            return found
    raise InvalidTask(f"workflow={filter.workflow!r} has over {MOST_STEPS:,} tasks, too many to be shown at once")


def _prerequisites(store: TaskReader, id: TaskId, known: Mapping[TaskId, Task]) -> tuple[TaskId, ...]:
    return tuple(each.id for each in store.neighbourhood(id).prerequisites if each.id in known)


def _step(task: Task, prerequisites: Iterable[TaskId], known: Mapping[TaskId, Task]) -> Step:
    before = tuple(prerequisites)
    ends = [known[id].finished for id in before]
    ready = max([task.submitted, *(end for end in ends if end is not None)])
    return Step(
        task=task,
        name=task.key or f"{task.handler}-{str(task.id)[-6:]}",
        prerequisites=before,
        ready=ready,
        began=None if task.claimed is None else max(task.claimed, ready),
        ended=task.finished,
    )


def _in_order(edges: Mapping[TaskId, Sequence[TaskId]], known: Mapping[TaskId, Task]) -> list[TaskId]:
    """Prerequisites first, the older first, then by key."""
    left = {id: len(before) for id, before in edges.items()}
    after: dict[TaskId, list[TaskId]] = {}
    for id, before in edges.items():
        for each in before:
            after.setdefault(each, []).append(id)

    def birth(id: TaskId) -> tuple[Micros, str, TaskId]:
        return known[id].submitted, known[id].key or "", id

    ready = sorted((id for id, open_ in left.items() if not open_), key=birth)
    for id in ready:  # It grows while it is gone through.
        for each in sorted(after.get(id, ()), key=birth):
            left[each] -= 1
            if not left[each]:
                ready.append(each)
    return ready
