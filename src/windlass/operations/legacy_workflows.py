"""A workflow as people see it: its steps in order, their times, and the path that decides when it ends.

One place for the command line and the API. A workflow of up to `MOST_STEPS` steps and `MOST_EDGES` edges is read whole
(`Workflow`), in time and memory proportional to its size. A larger one is counted (`Summary`) at constant memory: its
steps can be seen page by page, but not in the order of the graph, and nobody computes its critical path.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from uuid import UUID

from msgspec import Struct

from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.core.task import Task, TaskId
from windlass.core.times import Micros
from windlass.errors import InvalidTask, WindlassError
from windlass.stores.protocol import TaskReader
from windlass.stores.workflow_reads import EdgeCursor, Step, StepCursor, StepGroup, WorkflowCursor

MOST_STEPS = 100_000
"""Up to so many steps are read whole."""
MOST_EDGES = 1_000_000
"""Up to so many edges are read whole."""
MOST_LINKS = 10_000
"""A page ends early once its steps have so many prerequisites; it has one step at least."""
_PAGE = 10_000


class UnknownWorkflow(WindlassError, LookupError):
    """No task belongs to a workflow of this name."""

    code = "unknown_workflow"


class StepView(Struct, frozen=True, kw_only=True):
    """One step, with its times put in order."""

    step: Step
    prerequisites: list[TaskId]
    """Those of the same workflow, all of them."""
    ready: Micros
    """When it could have run: submitted, and its prerequisites ended."""
    critical: bool | None = None
    """Whether it is on the critical path; None in a summary, where that is not known."""
    slack: Micros | None = None
    """How much longer it could have taken without the end coming later; None in a summary."""

    @property
    def name(self) -> str:
        """Its key, or its handler and the end of its id."""
        return step_name(self.step)

    @property
    def began(self) -> Micros | None:
        """When the attempt began that runs now or was the last; None for a step that is to run, also to run again."""
        state = self.step.state
        if self.step.claimed is None or not (state.final or state is State.LEASED):
            return None
        return max(self.step.claimed, self.ready)

    @property
    def ended(self) -> Micros | None:
        """When it ended."""
        return self.step.finished

    def waited(self, now: Micros) -> Micros:
        """How long it was ready before its latest attempt began; 0 while a prerequisite is open."""
        return 0 if self.step.state is State.WAITING else max(0, (self.began or self.ended or now) - self.ready)

    def worked(self, now: Micros) -> Micros:
        """How long its latest attempt has run."""
        return 0 if self.began is None else max(0, (self.ended or now) - self.began)


class Links:
    """For each step the places of others: `links[step]`. Two flat arrays, whatever the number of links."""

    def __init__(self, steps: int, keys: Sequence[int], values: Sequence[int]) -> None:
        """Group `values` by `keys`; within a group they keep their order."""
        starts = array("l", bytes((steps + 1) * array("l").itemsize))
        for key in keys:
            starts[key + 1] += 1
        for place in range(steps):
            starts[place + 1] += starts[place]
        ends, places = starts[:], array("l", values)
        for key, value in zip(keys, values, strict=True):
            places[ends[key]] = value
            ends[key] += 1
        self._starts, self._places = starts, places

    def __getitem__(self, place: int) -> array[int]:
        return self._places[self._starts[place] : self._starts[place + 1]]

    def number(self, place: int) -> int:
        """How many a step has."""
        return self._starts[place + 1] - self._starts[place]

    @property
    def pairs(self) -> Iterator[tuple[int, int]]:
        """All of them, by step."""
        for place in range(len(self._starts) - 1):
            for index in range(self._starts[place], self._starts[place + 1]):
                yield place, self._places[index]


class Workflow:
    """A workflow read whole. Steps are named by their place in an order in which prerequisites come first.

    The steps of a cycle, which nothing can order, come last; links between them that point ahead are left aside where
    the graph is walked.
    """

    def __init__(self, name: str, tenant: str, steps: Sequence[Step], prerequisites: Links) -> None:
        self.name, self.tenant = name, tenant
        self.steps = steps
        self.prerequisites = prerequisites
        self.places = {step.id: place for place, step in enumerate(steps)}
        self.ready = array("q", (self._ready(place) for place in range(len(steps))))
        self.critical = self._critical_path()
        """The steps that decide when it ends: of each the prerequisite that ended last."""
        self.is_critical = bytearray(len(steps))
        for place in self.critical:
            self.is_critical[place] = True
        self._slack: tuple[Micros, array[int]] | None = None

    @property
    def tasks(self) -> int:
        """How many steps it has."""
        return len(self.steps)

    @property
    def states(self) -> dict[State, int]:
        """How many steps are in each state."""
        return tally(step.state for step in self.steps)

    @property
    def submitted(self) -> Micros:
        """When its first step was submitted."""
        return min(step.submitted for step in self.steps)

    @property
    def ended(self) -> Micros | None:
        """When its last step ended; None while one is open."""
        ends = [step.finished for step in self.steps if step.finished is not None]
        return max(ends) if len(ends) == len(self.steps) else None

    def view(self, place: int, now: Micros | None = None) -> StepView:
        """One step; with its slack if `now` is given."""
        return StepView(
            step=self.steps[place],
            prerequisites=[self.steps[above].id for above in self.prerequisites[place]],
            ready=self.ready[place],
            critical=bool(self.is_critical[place]),
            slack=None if now is None else self.slack(now)[place],
        )

    def slack(self, now: Micros) -> array[int]:
        """By how much longer each step could have taken without the end coming later; 0 for those that decide it.

        As if every step began when its prerequisites had ended: the waiting in between counts as its own. What is open
        ends now, as far as anybody knows.
        """
        if self._slack is None or self._slack[0] != now:
            self._slack = (now, self._slack_at(now))
        return self._slack[1]

    def _slack_at(self, now: Micros) -> array[int]:
        ends = array("q", (now if step.finished is None else step.finished for step in self.steps))
        end = max(ends, default=now)
        latest = array("q", [end]) * len(ends)
        for place in range(len(ends) - 1, -1, -1):
            limit = latest[place] - max(0, ends[place] - self.ready[place])
            for above in self.prerequisites[place]:
                latest[above] = min(latest[above], limit)
        return array("q", (max(0, latest[place] - ends[place]) for place in range(len(ends))))

    def _ready(self, place: int) -> Micros:
        ready = self.steps[place].submitted
        for above in self.prerequisites[place]:
            ready = max(ready, self.steps[above].finished or 0)
        return ready

    def _critical_path(self) -> list[int]:
        """From the step that ends last back along the prerequisite that ended last, from the beginning."""
        if not self.steps:
            return []

        def late(place: int) -> tuple[bool, int, int]:
            """What is open ends after all that has ended, and after the open steps that come before it."""
            finished = self.steps[place].finished
            return (finished is None, finished or 0, place)

        places = (place for place, step in enumerate(self.steps) if step.state is not State.CANCELLED)
        path = [max(places, key=late, default=len(self.steps) - 1)]
        while above := [before for before in self.prerequisites[path[-1]] if before < path[-1]]:
            path.append(max(above, key=late))
        return path[::-1]


class Summary(Struct, frozen=True, kw_only=True):
    """A workflow too large to be read whole, counted."""

    name: str
    tenant: str
    groups: list[StepGroup]
    """Its steps by queue, handler and state."""

    @property
    def tasks(self) -> int:
        """How many steps it has."""
        return sum(group.tasks for group in self.groups)

    @property
    def states(self) -> dict[State, int]:
        """How many steps are in each state."""
        found = Counter[State]()
        for group in self.groups:
            found[group.state] += group.tasks
        return {state: found[state] for state in State if found[state]}

    @property
    def submitted(self) -> Micros:
        """When its first step was submitted."""
        return min(group.submitted for group in self.groups)

    @property
    def ended(self) -> Micros | None:
        """When its last step ended; None while one is open."""
        if any(not group.state.final for group in self.groups):
            return None
        return max(group.finished or 0 for group in self.groups)


class Slice(Struct, frozen=True):
    """Some steps, and where to go on: the last of them; None at the end.

    In the order of the graph, or of a summary in the order in which they were submitted.
    """

    steps: list[StepView]
    next: TaskId | None


class Listed(Struct, frozen=True, kw_only=True):
    """A workflow in a list."""

    name: str
    tenant: str
    tasks: dict[State, int]
    """How many of its steps are in each state."""
    complete: bool
    """False: only its first steps were counted, and there are more."""
    submitted: Micros
    """When its first step was submitted."""
    latest: Micros
    """When its latest step was submitted."""


class ListPage(Struct, frozen=True):
    """Some workflows, the latest submit first, and where to go on; `next` is None on the last page."""

    workflows: list[Listed]
    next: WorkflowCursor | None


def step_name(step: Step) -> str:
    """Its key, or its handler and the end of its id."""
    return step.key or f"{step.handler}-{str(step.id)[-6:]}"


def tally(states: Iterator[State]) -> dict[State, int]:
    """Count states, in their own order."""
    found = Counter(states)
    return {state: found[state] for state in State if found[state]}


def list_workflows(
    store: TaskReader,
    *,
    tenant: str | None = None,
    queue: str | None = None,
    limit: int = 100,
    after: WorkflowCursor | None = None,
) -> ListPage:
    """A page of workflows. With `queue` those that have a task in it; only these tasks are counted then."""
    found: list[Listed] = []
    page = store.workflows(tenant=tenant, limit=limit, after=after)
    for seen in page.workflows:
        groups, complete = seen.groups, seen.complete
        if queue is not None:
            if not complete and not any(group.queue == queue for group in groups):
                groups, complete = count_groups(store, seen.workflow, seen.tenant), True
            groups = [group for group in groups if group.queue == queue]
        if groups:
            counted = Summary(name=seen.workflow, tenant=seen.tenant, groups=groups)
            found.append(
                Listed(
                    name=seen.workflow,
                    tenant=seen.tenant,
                    tasks=counted.states,
                    complete=complete,
                    submitted=seen.submitted,
                    latest=seen.latest,
                )
            )
    return ListPage(found, page.after)


def workflow(store: TaskReader, name: str, *, tenant: str | None = None) -> Workflow | Summary:
    """Read a workflow, whole if it is not too large. `UnknownWorkflow` if it has no task."""
    tenant = tenant_of(store, name, tenant)
    found = _read(store, name, tenant)
    if found is None:
        return Summary(name=name, tenant=tenant, groups=count_groups(store, name, tenant))
    if not found.steps:
        raise unknown(name)
    return found


def unknown(name: str) -> UnknownWorkflow:
    """The refusal of a workflow without tasks."""
    return UnknownWorkflow(f"workflow={name!r} has no task; `windlass workflows ls` shows those that have")


def tenant_of(store: TaskReader, name: str, tenant: str | None) -> str:
    """Whose workflow is meant. Refuse a name that several tenants have, or none."""
    if tenant is not None:
        return tenant
    tenants = store.workflow_tenants(name, limit=20)
    if not tenants:
        raise unknown(name)
    if len(tenants) > 1:
        raise InvalidTask(f"workflow={name!r} is a name of several tenants; give one of {', '.join(tenants)}")
    return tenants[0]


def page(
    store: TaskReader, found: Workflow | Summary, *, limit: int, now: Micros, after: TaskId | None = None
) -> Slice:
    """The next steps after one of them, or the first ones."""
    if isinstance(found, Summary):
        return submitted_page(store, found.name, found.tenant, limit=limit, after=after)
    if after is not None and after not in found.places:
        raise _no_step(found.name, after)
    first = 0 if after is None else found.places[after] + 1
    end, links = first, 0
    while end < len(found.steps) and end - first < limit and (end == first or links < MOST_LINKS):
        links += found.prerequisites.number(end)
        end += 1
    steps = [found.view(place, now) for place in range(first, end)]
    return Slice(steps, steps[-1].step.id if end < len(found.steps) else None)


def find_step(store: TaskReader, name: str, tenant: str, text: str) -> Task:
    """A step by its id, its key, or the name under which it is shown."""
    ids = [keyed_id(tenant, name, text)] if text else []
    with suppress(ValueError):
        ids.append(TaskId(UUID(text)))
    for task in store.get(ids):
        if task is not None and (task.tenant, task.workflow) == (tenant, name):
            return task
    named: list[TaskId] = []
    some: list[str] = []
    for step in _steps(store, name, tenant):
        if step_name(step) == text:
            named.append(step.id)
        if len(some) < 20:
            some.append(step_name(step))
    for task in store.get(named) if len(named) == 1 else ():
        if task is not None:
            return task
    if not some:
        raise unknown(name)
    raise InvalidTask(f"step={text!r} names {len(named) or 'no'} step(s) of {name}; there are {', '.join(some)}")


def count_groups(store: TaskReader, name: str, tenant: str) -> list[StepGroup]:
    """Count all steps of a workflow by queue, handler and state."""
    found: dict[tuple[str, str, State], StepGroup] = {}
    after = None
    while True:
        page = store.workflow_groups(name, tenant=tenant, after=after)
        for group in page.groups:
            key = (group.queue, group.handler, group.state)
            found[key] = _added(found[key], group) if key in found else group
        after = page.after
        if after is None:
            return [found[key] for key in sorted(found)]


def first_in(store: TaskReader, found: Summary, states: Sequence[State], limit: int) -> list[Step]:
    """The first steps in some states."""
    steps: list[Step] = []
    if not any(found.states.get(state) for state in states):
        return steps
    after = None
    while len(steps) < limit:
        page = store.workflow_steps(found.name, tenant=found.tenant, states=states, limit=limit, after=after)
        steps += page.steps
        after = page.after
        if after is None:
            break
    return steps[:limit]


def _added(one: StepGroup, other: StepGroup) -> StepGroup:
    claimed = [time for time in (one.claimed, other.claimed) if time is not None]
    finished = [time for time in (one.finished, other.finished) if time is not None]
    return StepGroup(
        queue=one.queue,
        handler=one.handler,
        state=one.state,
        tasks=one.tasks + other.tasks,
        submitted=min(one.submitted, other.submitted),
        claimed=min(claimed, default=None),
        finished=max(finished, default=None),
    )


def _steps(store: TaskReader, name: str, tenant: str) -> Iterator[Step]:
    after = None
    while True:
        page = store.workflow_steps(name, tenant=tenant, limit=_PAGE, after=after)
        yield from page.steps
        after = page.after
        if after is None:
            return


def _read(store: TaskReader, name: str, tenant: str) -> Workflow | None:
    """All of a workflow; None if it is too large."""
    steps: list[Step] = []
    for step in _steps(store, name, tenant):
        if len(steps) == MOST_STEPS:
            return None
        steps.append(step)
    steps.sort(key=lambda step: (step.submitted, step.key or "", step.id))
    places = {step.id: place for place, step in enumerate(steps)}
    children, parents = array("l"), array("l")
    after = None
    while True:
        page = store.workflow_edges(name, tenant=tenant, after=after)
        for edge in page.edges:
            child, parent = places.get(edge.child), places.get(edge.parent)
            if child is not None and parent is not None:  # A step of after the first look.
                children.append(child)
                parents.append(parent)
        if len(children) > MOST_EDGES:
            return None
        after = page.after
        if after is None:
            break
    order = _in_order(Links(len(steps), children, parents), len(steps))
    moved = array("l", bytes(len(steps) * array("l").itemsize))
    for place, old in enumerate(order):
        moved[old] = place
    prerequisites = Links(len(steps), [moved[child] for child in children], [moved[parent] for parent in parents])
    return Workflow(name, tenant, [steps[old] for old in order], prerequisites)


def _in_order(prerequisites: Links, steps: int) -> list[int]:
    """Prerequisites first, and otherwise as they come; what is in a cycle, or behind one, last."""
    pairs = list(prerequisites.pairs)
    dependents = Links(steps, [parent for _, parent in pairs], [child for child, _ in pairs])
    left = array("l", (prerequisites.number(place) for place in range(steps)))
    order = [place for place in range(steps) if not left[place]]
    for place in order:  # It grows while it is gone through.
        for below in dependents[place]:
            left[below] -= 1
            if not left[below]:
                order.append(below)
    return order + [place for place in range(steps) if left[place]]


def _no_step(name: str, id: TaskId) -> InvalidTask:
    return InvalidTask(f"after={str(id)!r} is not a step of {name}; use the `next` value of the previous page")


def submitted_page(store: TaskReader, name: str, tenant: str, *, limit: int, after: TaskId | None = None) -> Slice:
    """The next steps in submit order, at a cost that does not grow with the workflow.

    Their prerequisites are read beside them, and bound the page as well.
    """
    start = None
    if after is not None:
        [last] = store.get([after])
        if last is None or (last.tenant, last.workflow) != (tenant, name):
            raise _no_step(name, after)
        start = StepCursor(last.submitted, last.id)
    chosen = store.workflow_steps(name, tenant=tenant, limit=limit, after=start)
    steps, more = chosen.steps, chosen.after is not None
    above: dict[TaskId, list[TaskId]] = {step.id: [] for step in steps}
    cursor = None if start is None else EdgeCursor(start.submitted, start.id, None)
    links = 0
    while steps:
        page = store.workflow_edges(name, tenant=tenant, limit=MOST_LINKS, after=cursor)
        for edge in page.edges:
            if edge.child in above:
                above[edge.child].append(edge.parent)
                links += 1
        cursor, last_step = page.after, steps[-1]
        if cursor is None or (cursor.submitted, cursor.child) > (last_step.submitted, last_step.id):
            break
        if links >= MOST_LINKS:
            # What comes after the cursor's child has not been read; of the child itself perhaps only a part.
            whole = [step for step in steps if (step.submitted, step.id) < (cursor.submitted, cursor.child)]
            if whole:
                steps, more = whole, True
                break
    parents = {id for step in steps for id in above[step.id]}
    ends = {task.id: task.finished or 0 for task in store.get(sorted(parents)) if task is not None}
    views = [
        StepView(
            step=step,
            prerequisites=above[step.id],
            ready=max([step.submitted, *(ends.get(id, 0) for id in above[step.id])]),
        )
        for step in steps
    ]
    return Slice(views, steps[-1].id if more and steps else None)
