"""Workflows as people see and change them.

A workflow of up to `MAX_STEPS` steps and `MAX_EDGES` edges is read as a graph (`Workflow`), in time and memory
proportional to its size. A larger one is only counted (`Summary`): its steps are listed page by page in submit order,
without a critical path.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from enum import StrEnum
from itertools import islice
from uuid import UUID

from msgspec import Struct
from msgspec.structs import astuple

from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.core.task import Attempt, NewTask, Task, TaskId
from windlass.core.times import Micros
from windlass.errors import InvalidTask, NotAllowed, Refused, UnknownTask, WindlassError
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.paging import pages
from windlass.operations.redact import redact_attempt, redact_step, redact_task
from windlass.operations.workflow_graph import Links, StepView, Summary, Workflow, sort_steps, step_name
from windlass.stores.protocol import Filter, Receipt, TaskReader
from windlass.stores.workflow_reads import (
    SCANNED,
    EdgeCursor,
    EdgePage,
    Step,
    StepCursor,
    StepGroup,
    WorkflowCursor,
    WorkflowSeen,
)

MAX_STEPS = 100_000
"""How many steps are read as a graph."""
MAX_EDGES = 1_000_000
"""How many edges are read as a graph."""
MAX_LINKS = 10_000
"""A page ends early once its steps have this many prerequisites. It has at least one step."""
MAX_RETRYING = 100
"""Of how many steps that are to run again the latest attempt is read."""
MAX_PAGES = 10
"""How many pages of workflows are searched for those in the caller's queue."""
MAX_SEARCHED = 1_000
"""How many workflows one search looks at."""
MAX_LAST = 100
"""Of how many last steps the deadline is read."""
_PAGE = 10_000
_SEARCH_PAGE = 100


class UnknownWorkflow(WindlassError, LookupError):
    """No task belongs to a workflow of this name, or the caller may not see it."""

    code = "unknown_workflow"

    def __init__(self, name: str) -> None:
        super().__init__(f"Unknown workflow: {name!r}. It has no tasks. `windlass workflows ls` lists those that have.")


class Slice(Struct, frozen=True):
    """Some steps, and the last of them if there are more; else None.

    They are in the order of the graph; those of a summary are in submit order.
    """

    steps: list[StepView]
    next: TaskId | None


class Listed(Struct, frozen=True, kw_only=True):
    """A workflow in a list."""

    name: str
    tenant: str
    tasks: dict[State, int]
    """The number of steps in each state."""
    complete: bool
    """False if only its first steps were counted."""
    submitted: Micros
    """When its first step was submitted."""
    latest: Micros
    """When its latest step was submitted."""


class Stage(StrEnum):
    """How far a workflow is, to choose from a list."""

    ANY = "any"
    UNFINISHED = "unfinished"
    FAILING = "failing"
    """Some step failed or expired."""
    COMPLETED = "completed"

    def includes(self, tasks: Mapping[State, int]) -> bool:
        """Return True if a workflow with these numbers of steps is at this stage."""
        states = {state for state, number in tasks.items() if number}
        match self:
            case Stage.ANY:
                return True
            case Stage.UNFINISHED:
                return any(not state.final for state in states)
            case Stage.FAILING:
                return bool(states & {State.FAILED, State.EXPIRED})
            case Stage.COMPLETED:
                return states == {State.COMPLETED}


class ListPage(Struct, frozen=True):
    """Some workflows, the latest submit first. `after` is None on the last page."""

    workflows: list[Listed]
    after: WorkflowCursor | None


def find(
    access: Access, *, tenant: str | None = None, limit: int = 100, after: WorkflowCursor | None = None
) -> ListPage:
    """Return a page of workflows. A caller who is limited to a queue sees only the tasks in it."""
    where = access.narrow(Filter(tenant=tenant))
    if where is None:
        return ListPage([], None)
    found: list[Listed] = []
    listed = pages(lambda cursor: access.store.workflows(tenant=where.tenant, limit=limit, after=cursor), after)
    for number, page in enumerate(listed, 1):
        if where.queue is None:
            return ListPage([_listed(seen, seen.groups, complete=seen.complete) for seen in page.workflows], page.after)
        for seen in page.workflows:
            groups, complete = seen.groups, seen.complete
            if not complete and not any(group.queue == where.queue for group in groups):
                groups, complete = count_groups(access.store, seen.workflow, seen.tenant), True
            groups = [group for group in groups if group.queue == where.queue]
            if groups:
                found.append(_listed(seen, groups, complete=complete))
            if len(found) == limit:
                return ListPage(found, WorkflowCursor(seen.latest, seen.workflow, seen.tenant))
        if page.after is not None and number >= MAX_PAGES:
            # The store's cursor names a workflow that the caller may not see. This one only has its time, so the next
            # page starts with all workflows of that time.
            cursor = WorkflowCursor(page.after.submitted + 1, "", "")
            if after is None or astuple(cursor) < astuple(after):
                return ListPage([each for each in found if each.latest > page.after.submitted], cursor)
    return ListPage(found, None)


def search(
    access: Access,
    *,
    name: str = "",
    stage: Stage = Stage.ANY,
    tenant: str | None = None,
    limit: int = 50,
    after: WorkflowCursor | None = None,
) -> ListPage:
    """Return a page of the workflows at a stage whose name contains a text, ignoring case.

    A call looks at `MAX_SEARCHED` workflows at most, so a page may be short or empty although there are more.
    """
    found: list[Listed] = []
    looked = 0
    for page in pages(lambda cursor: find(access, tenant=tenant, limit=_SEARCH_PAGE, after=cursor), after):
        for each in page.workflows:
            looked += 1
            if name.casefold() in each.name.casefold() and stage.includes(each.tasks):
                found.append(each)
            if len(found) == limit or looked == MAX_SEARCHED:
                more = each is not page.workflows[-1] or page.after is not None
                return ListPage(found, WorkflowCursor(each.latest, each.name, each.tenant) if more else None)
    return ListPage(found, None)


def find_deadline(access: Access, found: Workflow) -> Micros | None:
    """Return the earliest deadline of the last steps: those for which no other step waits. None if they have none."""
    leads = bytearray(found.tasks)
    for _, parent in found.prerequisites.pairs:
        leads[parent] = True
    last = [step.id for step, inner in zip(found.steps, leads, strict=True) if not inner][:MAX_LAST]
    deadlines = [task.deadline for task in access.store.get(last) if task is not None and task.deadline is not None]
    return min(deadlines, default=None)


def find_tenant(access: Access, name: str, tenant: str | None = None) -> str:
    """Return whose workflow is meant. Refuse one that the caller may not see as a whole, and an ambiguous name."""
    caller = access.caller
    if caller.tenant not in (None, tenant or caller.tenant):
        raise UnknownWorkflow(name)
    found = tenant or caller.tenant
    if found is None:
        return _only_tenant(access, name)
    if caller.queue is None:
        exists = bool(access.store.workflow_groups(name, tenant=found, limit=1).groups)
    else:
        exists = is_within(access.store, name, found, caller.queue)
    if not exists:
        raise UnknownWorkflow(name)
    return found


def get(access: Access, name: str, *, tenant: str | None = None) -> Workflow | Summary:
    """Return a workflow: as a graph, or counted if it is too large."""
    tenant = find_tenant(access, name, tenant)
    found = _read_graph(access.store, name, tenant)
    return (
        Summary(name=name, tenant=tenant, groups=count_groups(access.store, name, tenant)) if found is None else found
    )


def page(access: Access, found: Workflow | Summary, *, limit: int, after: TaskId | None = None) -> Slice:
    """Return the next steps of a workflow after one of them, or the first ones."""
    if isinstance(found, Summary):
        return _page_by_submit(access, found.name, found.tenant, limit=limit, after=after)
    if after is not None and after not in found.places:
        raise _unknown_step(found.name, after)
    first = 0 if after is None else found.places[after] + 1
    end, links = first, 0
    while end < len(found.steps) and end - first < limit and (end == first or links < MAX_LINKS):
        links += found.prerequisites.number(end)
        end += 1
    now = access.now  # Once: the slack of all steps is computed again for another moment.
    steps = [found.view(place, now) for place in range(first, end)]
    return Slice(steps, steps[-1].step.id if end < len(found.steps) else None)


def steps(access: Access, name: str, *, tenant: str | None = None, limit: int, after: TaskId | None = None) -> Slice:
    """Return the next steps of a workflow of any size, in submit order."""
    return _page_by_submit(access, name, find_tenant(access, name, tenant), limit=limit, after=after)


def edges(
    access: Access, name: str, *, tenant: str | None = None, limit: int = SCANNED, after: EdgeCursor | None = None
) -> EdgePage:
    """Return a page of the edges of a workflow of any size."""
    tenant = find_tenant(access, name, tenant)
    return access.store.workflow_edges(name, tenant=tenant, limit=limit, after=after)


def find_step(access: Access, name: str, text: str, *, tenant: str | None = None) -> Task:
    """Return a step by its id, its key, or the name under which it is shown."""
    return redact_task(_find_step(access, name, find_tenant(access, name, tenant), text), access.catalog)


def find_first(access: Access, found: Summary, states: Sequence[State], limit: int) -> list[Step]:
    """Return the first steps of a large workflow that are in some states."""
    if not any(found.states.get(state) for state in states):
        return []
    chosen = pages(
        lambda after: access.store.workflow_steps(
            found.name, tenant=found.tenant, states=states, limit=limit, after=after
        )
    )
    return [redact_step(step) for step in islice((step for page in chosen for step in page.steps), limit)]


def open_unsealed(
    access: Access,
    name: str,
    tasks: Sequence[NewTask],
    author: Author,
    *,
    tenant: str,
    forward: timedelta | None = None,
) -> list[Receipt]:
    """Open a workflow and submit its first tasks, all of this or nothing. It waits for `seal` before it runs."""
    _check_all_queues(access)
    entry = author.entry(f"workflow/{name}", "opened", f"opened workflow {name} of {tenant}", tenant=tenant)
    return access.store.open_workflow(name, tenant=tenant, sealed=False, forward=forward, tasks=tasks, entries=[entry])


def seal(access: Access, name: str, author: Author, *, tenant: str | None = None, missing: bool = False) -> str:
    """Run a workflow whose tasks have all been submitted. Return its tenant.

    With `missing`, tasks that were named but never submitted count as ended badly.
    """
    tenant = choose_tenant(access, tenant)
    _check_all_queues(access)
    entry = author.entry(
        f"workflow/{name}", "sealed", f"sealed workflow {name} of {tenant}", tenant=tenant, missing=missing
    )
    try:
        access.store.seal_workflow(name, tenant=tenant, missing=missing, entries=[entry])
    except UnknownTask:
        raise UnknownWorkflow(name) from None
    return tenant


def retry(
    access: Access, name: str, step: str, author: Author, *, tenant: str | None = None, dry_run: bool = False
) -> int:
    """Retry a step that ended badly, and everything that was cancelled because of it. Return how many tasks it is."""
    _check_all_queues(access)
    tenant = find_tenant(access, name, tenant)
    task = _find_step(access, name, tenant, step)
    if not task.state.ended_badly:
        text = f"Step {step} is {task.state.value}. Only a failed, cancelled or expired step can be retried."
        raise NotAllowed(text)
    text = f"retried workflow {name} of {tenant} from {step}"
    entry = author.entry(f"workflow/{name}", "retried", text, tenant=tenant, step=step)
    return access.store.retry([task.id], dependents=True, dry_run=dry_run, entries=[entry])


def choose_tenant(access: Access, given: str | None) -> str:
    """Return the tenant for which a caller submits: the given one, the token's own, or the default."""
    own = access.caller.tenant
    if given is not None and own not in (None, given):
        raise Refused("forbidden", f"tenant={given!r}: this token submits for {own} only.", field="tenant")
    return given or own or "default"


def count_groups(store: TaskReader, name: str, tenant: str) -> list[StepGroup]:
    """Count all steps of a workflow by queue, handler and state."""
    found: dict[tuple[str, str, State], StepGroup] = {}
    for page in pages(lambda after: store.workflow_groups(name, tenant=tenant, after=after)):
        for group in page.groups:
            key = (group.queue, group.handler, group.state)
            found[key] = _add(found[key], group) if key in found else group
    return [found[key] for key in sorted(found)]


def _listed(seen: WorkflowSeen, groups: Sequence[StepGroup], *, complete: bool) -> Listed:
    return Listed(
        name=seen.workflow,
        tenant=seen.tenant,
        tasks=Summary(name=seen.workflow, tenant=seen.tenant, groups=list(groups)).states,
        complete=complete,
        submitted=seen.submitted,
        latest=seen.latest,
    )


def is_within(store: TaskReader, name: str, tenant: str, queue: str) -> bool:
    """Return True if all steps of a workflow are in one queue, so that a caller who is limited to it may see them."""
    return {group.queue for group in count_groups(store, name, tenant)} == {queue}


def _only_tenant(access: Access, name: str) -> str:
    store, queue = access.store, access.caller.queue
    tenants = store.workflow_tenants(name, limit=20 if queue is None else 1_000)
    if queue is not None:
        tenants = [tenant for tenant in tenants if is_within(store, name, tenant, queue)][:20]
    if not tenants:
        raise UnknownWorkflow(name)
    if len(tenants) > 1:
        raise InvalidTask(f"workflow={name!r} exists for several tenants. Choose one of {', '.join(tenants)}.")
    return tenants[0]


def _check_all_queues(access: Access) -> None:
    if access.caller.queue is not None:
        raise Refused("forbidden", "A workflow may use many queues, and this token is limited to one queue.")


def _find_step(access: Access, name: str, tenant: str, text: str) -> Task:
    store = access.store
    ids = [keyed_id(tenant, name, text)] if text else []
    with suppress(ValueError):
        ids.append(TaskId(UUID(text)))
    for task in store.get(ids):
        if task is not None and (task.tenant, task.workflow) == (tenant, name):
            return task
    matching: list[TaskId] = []
    names: list[str] = []
    for step in _each_step(store, name, tenant):
        if step_name(step) == text:
            matching.append(step.id)
        if len(names) < 20:
            names.append(step_name(step))
    for task in store.get(matching) if len(matching) == 1 else ():
        if task is not None:
            return task
    if not names:
        raise UnknownWorkflow(name)
    found = "no step" if not matching else f"{len(matching):,} steps"
    raise InvalidTask(f"step={text!r} matches {found} of {name}. Its steps are: {', '.join(names)}.")


def _add(one: StepGroup, other: StepGroup) -> StepGroup:
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


def _each_step(store: TaskReader, name: str, tenant: str) -> Iterator[Step]:
    for page in pages(lambda after: store.workflow_steps(name, tenant=tenant, limit=_PAGE, after=after)):
        yield from page.steps


def _read_graph(store: TaskReader, name: str, tenant: str) -> Workflow | None:
    """Return a workflow as a graph; None if it is too large."""
    found = [redact_step(step) for step in islice(_each_step(store, name, tenant), MAX_STEPS + 1)]
    if len(found) > MAX_STEPS:
        return None
    if not found:
        raise UnknownWorkflow(name)
    found.sort(key=lambda step: (step.submitted, step.key or "", step.id))
    places = {step.id: place for place, step in enumerate(found)}
    children, parents = array("l"), array("l")
    for page in pages(lambda after: store.workflow_edges(name, tenant=tenant, after=after)):
        for edge in page.edges:
            child, parent = places.get(edge.child), places.get(edge.parent)
            if child is not None and parent is not None:  # Steps that were submitted after the first read are left out.
                children.append(child)
                parents.append(parent)
        if len(children) > MAX_EDGES:
            return None
    order = sort_steps(Links(len(found), children, parents), len(found))
    moved = array("l", bytes(len(found) * array("l").itemsize))
    for place, old in enumerate(order):
        moved[old] = place
    prerequisites = Links(len(found), [moved[child] for child in children], [moved[parent] for parent in parents])
    return Workflow(name, tenant, [found[old] for old in order], prerequisites, _read_failed(store, found))


def _read_failed(store: TaskReader, steps: Iterable[Step]) -> dict[TaskId, Attempt]:
    """Return the latest attempt of steps that are to run again; of the first such steps, if there are many."""
    again = islice((step.id for step in steps if step.state is State.RETRYING), MAX_RETRYING)
    found = ((id, store.attempts(id)) for id in again)
    return {id: redact_attempt(attempts[-1]) for id, attempts in found if attempts}


def _unknown_step(name: str, id: TaskId) -> InvalidTask:
    return InvalidTask(f"after={str(id)!r} is not a step of {name}. Use the `next` value of the previous page.")


def _page_by_submit(access: Access, name: str, tenant: str, *, limit: int, after: TaskId | None) -> Slice:
    """Return the next steps in submit order, at a cost that does not grow with the workflow.

    Their prerequisites are read with them and also limit the page.
    """
    store, start = access.store, None
    if after is not None:
        [last] = store.get([after])
        if last is None or (last.tenant, last.workflow) != (tenant, name):
            raise _unknown_step(name, after)
        start = StepCursor(last.submitted, last.id)
    chosen = store.workflow_steps(name, tenant=tenant, limit=limit, after=start)
    found, more = chosen.steps, chosen.after is not None
    above: dict[TaskId, list[TaskId]] = {step.id: [] for step in found}
    cursor = None if start is None else EdgeCursor(start.submitted, start.id, None)
    links = 0
    while found:
        page = store.workflow_edges(name, tenant=tenant, limit=MAX_LINKS, after=cursor)
        for edge in page.edges:
            if edge.child in above:
                above[edge.child].append(edge.parent)
                links += 1
        cursor, last_step = page.after, found[-1]
        if cursor is None or (cursor.submitted, cursor.child) > (last_step.submitted, last_step.id):
            break
        if links >= MAX_LINKS:
            # Edges after the cursor's child were not read, and perhaps not all edges of the child itself.
            whole = [step for step in found if (step.submitted, step.id) < (cursor.submitted, cursor.child)]
            if whole:
                found, more = whole, True
                break
    parents = {id for step in found for id in above[step.id]}
    ends = {task.id: task.finished or 0 for task in store.get(sorted(parents)) if task is not None}
    failed = _read_failed(store, found)
    views = [
        StepView(
            step=redact_step(step),
            prerequisites=above[step.id],
            ready=max([step.submitted, *(ends.get(id, 0) for id in above[step.id])]),
            failed=failed.get(step.id),
        )
        for step in found
    ]
    return Slice(views, found[-1].id if more and found else None)
