"""Tasks as people see and change them. Every task that is returned is without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from windlass.call_limits import check_canceled
from windlass.core.filter import ARGS, FREE, Condition, Query
from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.core.payload import encode_args
from windlass.core.query import parse
from windlass.core.references import referenced_ids
from windlass.core.task import Attempt, Change, NewTask, Task, TaskId
from windlass.core.task_update import Version, is_stopped_by_request, version_of
from windlass.core.times import Micros, to_datetime, when
from windlass.core.waits import WAITS, make_wait
from windlass.core.why import Why
from windlass.errors import InvalidPayload, InvalidTask, NotAllowed, Refused, UnknownPrerequisite, UnknownTask
from windlass.operations.access import Access
from windlass.operations.admission import check_admission
from windlass.operations.author import Author
from windlass.operations.caller import Caller
from windlass.operations.cascade import check_cascade
from windlass.operations.conflicts import retry_on_conflict
from windlass.operations.edit_task import edit_task
from windlass.operations.explain import explain, visible_neighbours
from windlass.operations.handler_catalog import unchecked_handler
from windlass.operations.paging import pages
from windlass.operations.redact import redact_attempt, redact_log, redact_progress, redact_task, redact_why
from windlass.operations.reversal import ChangedSince, FieldChange, Fields, Reversal, compare_fields
from windlass.stores.protocol import Cursor, Filter, Log, Neighbourhood, Page, ProgressSeen, Receipt

MAX_SCANNED = 10_000
"""How many tasks one `find` compares with conditions that may touch secrets. A page may be short because of it."""
MAX_SEARCHED = 8 * 2**20
"""How many bytes one `find` searches for them: the arguments of a task count once for each value to search for."""
MAX_PAGE_BYTES = 8 * 2**20
"""How many bytes of arguments a page may have. It may be short because of it."""
PAGE = 1_000
FIRST_CHUNK, LAST_CHUNK = 100, 400
"""How many tasks are read from the store at once: few, because each may have arguments of 256 KB."""
CHUNK_BYTES = 2**20
_PART_OF_ID = re.compile(r"(?=(?:-?[0-9a-fA-F]){8})[0-9a-fA-F-]+")


class TaskDetails(Struct, frozen=True, kw_only=True):
    """One task with its attempts, output and progress, and what it waits for."""

    task: Task
    attempts: list[Attempt]
    logs: list[Log]
    progress: ProgressSeen | None
    why: Why


class Changed(Struct, frozen=True):
    """What a cancel or a retry of one task did: how many tasks it changed (0 or 1), and the task's state now."""

    tasks: int
    state: State


def find(access: Access, filter: Filter, *, limit: int = 100, after: Cursor | None = None) -> Page:
    """Return a page of the tasks that match, newest first.

    Conditions on arguments, reasons and free text are compared with the tasks as they are shown: otherwise a filter
    such as `args.password:a*` could read a secret letter by letter. The store evaluates all other conditions.
    """
    page = find_stored(access, filter, limit=limit, after=after)
    return Page([redact_task(task, access.catalog) for task in page.tasks], page.after)


def find_stored(access: Access, filter: Filter, *, limit: int, after: Cursor | None = None) -> Page:
    """Return the same page as `find` with the secrets still in it. Only for operations."""
    narrowed = access.narrow(filter)
    if narrowed is None:
        return Page([], None)
    conditions = () if narrowed.query is None else narrowed.query.conditions
    judged = Query(tuple(each for each in conditions if _may_touch_secrets(each)))
    if not judged.conditions:
        return _first_tasks(access, narrowed, limit, after)
    wanted = replace(narrowed, query=Query(tuple(each for each in conditions if not _may_touch_secrets(each))))
    return _judge(access, wanted, judged, limit, after)


def _first_tasks(access: Access, filter: Filter, limit: int, after: Cursor | None) -> Page:
    """Return the first tasks, up to a number and a size."""
    found: list[Task] = []
    size = 0
    for chunk in _chunks(access, filter, after, limit):
        for task in chunk.tasks:
            found.append(task)
            size += len(task.args)
            if len(found) == limit or size > MAX_PAGE_BYTES:
                is_last = chunk.after is None and task is chunk.tasks[-1]
                return Page(found, None if is_last else Cursor(task.submitted, task.id))
        # The store has read as many tasks as one call may read.
        if len(chunk.tasks) < FIRST_CHUNK:
            return Page(found, chunk.after)
    return Page(found, None)


def _judge(access: Access, wanted: Filter, judged: Query, limit: int, after: Cursor | None) -> Page:
    """Return the first tasks that match conditions on what may be secret, of as many as one call may compare."""
    found: list[Task] = []
    scanned = searched = size = 0
    for chunk in _chunks(access, wanted, after, LAST_CHUNK):
        for task in chunk.tasks:
            scanned += 1
            searched += len(task.args) * judged.searches
            if judged.matches(redact_task(task, access.catalog), 0):
                found.append(task)
                size += len(task.args)
            if len(found) == limit or searched > MAX_SEARCHED or size > MAX_PAGE_BYTES:
                return Page(found, Cursor(task.submitted, task.id))
        if scanned >= MAX_SCANNED or not chunk.tasks:
            return Page(found, chunk.after)
    return Page(found, None)


def _chunks(access: Access, filter: Filter, after: Cursor | None, most: int) -> Iterator[Page]:
    """Yield the tasks in chunks, which grow while their arguments are small."""
    number = FIRST_CHUNK
    while True:
        check_canceled()
        chunk = access.store.find(filter, limit=min(number, max(1, most)), after=after)
        yield chunk
        after = chunk.after
        if after is None:
            return
        small = sum(len(task.args) for task in chunk.tasks) < CHUNK_BYTES
        number = min(2 * number, LAST_CHUNK) if small else FIRST_CHUNK


def each(access: Access, filter: Filter, *, page_size: int = PAGE) -> Iterator[Task]:
    """Yield the tasks that match, newest first. Pages are read as they are needed: use `islice` for the first ones."""
    for page in pages(lambda after: find(access, filter, limit=page_size, after=after)):
        yield from page.tasks


def is_plain(query: Query) -> bool:
    """Return True if no condition touches what may be secret, so that the store can evaluate all of them."""
    return not any(map(_may_touch_secrets, query.conditions))


def get(access: Access, id: TaskId) -> Task:
    """Return one task. Raise `UnknownTask` for one that does not exist or that the caller may not see."""
    return redact_task(access.task(id), access.catalog)


def look_up(access: Access, text: str) -> Task:
    """Return the task with this id. Eight digits from the beginning or the end of the id are enough."""
    if not _PART_OF_ID.fullmatch(text) or len(text.replace("-", "")) == 32:
        return get(access, parse_id(text))
    found = find(access, Filter(query=parse(f"id:{text}*,*{text}")), limit=2).tasks
    if len(found) == 1:
        return found[0]
    if not found:
        raise UnknownTask(f"{text}. No recent task id starts or ends with it. Use the full id")
    raise InvalidTask(f"id={text!r} matches {found[0].id} and {found[1].id}. Use more digits.")


def parse_id(text: str) -> TaskId:
    """Return a task id from its text."""
    try:
        return TaskId(UUID(text))
    except ValueError:
        raise InvalidTask(f"id={text!r} is not a task id. `windlass tasks ls` lists them.") from None


def details(access: Access, id: TaskId) -> TaskDetails:
    """Return one task with everything that is recorded about it."""
    task = access.task(id)
    [seen] = access.store.progress_of([id])
    return TaskDetails(
        task=redact_task(task, access.catalog),
        attempts=[redact_attempt(attempt) for attempt in access.store.attempts(id)],
        logs=[redact_log(log) for log in access.store.logs(id)],
        progress=None if seen is None else redact_progress(seen),
        why=redact_why(explain(access.store, task, access.caller), access.catalog),
    )


def attempts(access: Access, id: TaskId) -> list[Attempt]:
    """Return the ended attempts of a task with their errors, oldest first."""
    return [redact_attempt(attempt) for attempt in access.store.attempts(access.task(id).id)]


def logs(access: Access, id: TaskId) -> list[Log]:
    """Return the output of the attempts of a task, oldest first. The last one may still run."""
    return [redact_log(log) for log in access.store.logs(access.task(id).id)]


def progress(access: Access, id: TaskId) -> ProgressSeen | None:
    """Return the latest progress that a task reported; None if it reported none."""
    [seen] = access.store.progress_of([access.task(id).id])
    return None if seen is None else redact_progress(seen)


def graph(access: Access, id: TaskId) -> Neighbourhood:
    """Return the prerequisites and the dependents of a task that the caller may see, up to 1,000 of each."""
    return visible_neighbours(access.store, access.store.neighbourhood(access.task(id).id), access.caller)


def why(access: Access, id: TaskId) -> Why:
    """Explain what a task waits for, and what would let it run."""
    return redact_why(explain(access.store, access.task(id), access.caller), access.catalog)


def change(access: Access, id: TaskId, change: Change, author: Author, *, expect: Version | None = None) -> Task:
    """Change the priority or the times of an unfinished task. With `expect`, only if it is still in that version."""
    fields = {name: getattr(change, name) for name in Change.__struct_fields__}
    given = {name: value for name, value in fields.items() if not isinstance(value, UnsetType)}
    values = ", ".join(f"{name}={value}" for name, value in given.items())
    if given.get("expires") is not None:
        access.task(id)
        check_cascade(access, [id])

    def attempt() -> Task:
        task, new = access.task(id), _resolve(given, access.store.look([], ahead=timedelta(0)).now)
        present = _changeable_fields(task)
        undo = compare_fields(present, {**present, **new})
        entry = author.entry(f"task/{id}", "changed", f"set {values} of {task.handler} {id}", undo=undo)
        return access.store.update(id, _to_change(new), expect=expect or version_of(task), entries=[entry])

    changed = attempt() if expect is not None else retry_on_conflict(f"task {id}", attempt)
    return redact_task(changed, access.catalog)


def restore(access: Access, id: str, reversal: Reversal) -> int:
    """Undo a cancel of a task, or a change of its priority or its times. Raise `NotAllowed` for one that has ended.

    Return the number of tasks that went back.
    """
    if "state" in reversal.change.after:
        return restore_cancelled(access, [TaskId(UUID(id))], reversal)

    def attempt() -> None:
        task = access.task(TaskId(UUID(id)))
        present = _changeable_fields(task)
        restored = reversal.revert(present)
        if "expires" in reversal.change.after:
            check_cascade(access, [task.id])
        change = _to_change({name: restored.get(name) for name in reversal.change.after})
        access.store.update(task.id, change, expect=version_of(task), entries=[reversal.note(present, restored)])

    retry_on_conflict(f"task {id}", attempt)
    return 1


def _changeable_fields(task: Task) -> Fields:
    return {name: getattr(task, name) for name in ("priority", "deadline", "due", "expires")}


def _resolve(given: Mapping[str, Any], now: Micros) -> Fields:
    """Return the fields of a task that a change sets, with times as instants, as the audit log keeps them."""
    new = {name: value if name == "priority" else when(value, now, name) for name, value in given.items()}
    if "at" in new:
        new["due"] = new.pop("at") or now
    return new


def _to_change(fields: Fields) -> Change:
    """Return the change that sets these fields of a task."""
    times = {"at" if name == "due" else name: value for name, value in fields.items() if name != "priority"}
    moments: Fields = {name: None if value is None else to_datetime(value) for name, value in times.items()}
    return Change(priority=fields.get("priority", UNSET), **moments)


def cancel(access: Access, id: TaskId, author: Author) -> Changed:
    """Cancel an unfinished task. A running task is asked to stop, and killed after ten seconds."""
    task = access.task(id)
    check_cascade(access, [id])
    reason = cancel_reason(author)
    undo = {"undo": note_cancel(reason)} if is_restorable(task) else {}
    entry = author.entry(f"task/{id}", "cancelled", f"cancelled {task.handler} {id}", **undo)
    number = access.store.cancel([id], reason=reason, entries=[entry])
    return Changed(number, access.task(id).state)


def is_restorable(task: Task) -> bool:
    """Return True if a cancel of a task could be undone, unless a worker claims the task first."""
    return not task.state.final and not is_stopped_by_request(task)


def note_cancel(reason: str, tasks: Sequence[TaskId] = ()) -> FieldChange:
    """Return how to undo a cancel of tasks, or of the one that is the subject of the entry."""
    return FieldChange(before={}, after={"state": State.CANCELLED.value, "reason": reason}, tasks=list(tasks))


def restore_cancelled(access: Access, ids: Sequence[TaskId], reversal: Reversal) -> int:
    """Undo a cancel: the tasks that are still cancelled for its reason go back to where they were.

    So do the tasks that were cancelled because of them, unless the caller is limited to a queue. Return the number of
    tasks that went back. Raise `ChangedSince` if none is left, or `NotAllowed` if those had started: a worker may have
    claimed them after the operator had seen them waiting.
    """
    reason = reversal.change.after["reason"]
    found = [task for task in access.store.get(ids) if task is not None and access.caller.can_see(task)]
    if not found:
        raise UnknownTask(ids[0])
    cancelled = [task for task in found if task.state is State.CANCELLED and task.reason == reason]
    left = [task.id for task in cancelled if not is_stopped_by_request(task)]
    if not left:
        if cancelled:
            text = "tasks that had started when they were cancelled stay as they are. Retry them instead."
            raise NotAllowed(f"Entry {reversal.entry.number} cannot be undone: {text}")
        raise ChangedSince
    dependents, store = access.caller.queue is None, access.store
    whole = len(found) == len(ids) or not access.caller.limited
    whole = whole and (dependents or store.retry(left, dependents=True, dry_run=True) == len(left))
    entry = reversal.note_done(whole=whole, restored=len(left))
    return store.retry(left, dependents=dependents, restore=True, entries=[entry])


def retry(access: Access, id: TaskId, author: Author) -> Changed:
    """Run a failed, cancelled or expired task again, with fresh counters."""
    task = access.task(id)
    entry = author.entry(f"task/{id}", "retried", f"retried {task.handler} {id}")
    number = access.store.retry([id], entries=[entry])
    return Changed(number, access.task(id).state)


def cancel_reason(author: Author) -> str:
    """Return the reason that a cancelled task shows."""
    return author.why or f"cancelled by {author.by}"


def edit_and_retry(access: Access, id: TaskId, changes: Mapping[str, Any], author: Author) -> Receipt:
    """Submit a task that ended badly again, with other arguments. The old task stays as it is."""
    new = make_successor(access, access.task(id), changes)
    new_id = keyed_id(new.tenant, new.workflow, new.key or "")
    entry = author.entry(
        f"task/{id}",
        "edited",
        f"submitted {new_id} in place of {id}, with other arguments",
        successor=new_id,
        changed=sorted(changes)[:100],
    )
    [receipt] = access.store.submit([new], entries=[entry])
    return receipt


def make_successor(access: Access, old: Task, changes: Mapping[str, Any]) -> NewTask:
    """Return the task that replaces a stored one, with other arguments. Raise `InvalidTask` if they do not fit."""
    new = edit_task(old, changes, access.catalog.parameters(old.handler), access.catalog.key_template(old.handler))
    kept = referenced_ids(old.args)
    _check_prerequisites(access, [replace(new, prerequisites=tuple(set(new.prerequisites) - set(kept)))])
    return new


def new_task(
    access: Access, handler: str, args: Mapping[str, Any], fields: Mapping[str, Any], *, unchecked: bool = False
) -> NewTask:
    """Return a task that this caller may submit: the handler's own options, and the caller's `fields` on top.

    With `unchecked`, its handler may be one that no node has published yet.
    """
    if unchecked or handler in WAITS:
        info = unchecked_handler(handler)
    else:
        info = access.catalog.info(handler)
        access.catalog.check(handler, args)
    access.catalog.check_key(handler, fields["limit"] if "limit" in fields else info.new_task_template().limit)
    new = info.new_task(args, fields)
    if handler in WAITS:
        new = make_wait(new)
    if access.caller.tenant is not None and "tenant" not in fields:
        new = replace(new, tenant=access.caller.tenant)
    _check_may_submit(access.caller, new)
    _check_references(new)
    return new


def submit(access: Access, tasks: Sequence[NewTask]) -> list[Receipt]:
    """Submit tasks made by `new_task`, all of them or none."""
    _check_prerequisites(access, tasks)
    check_admission(access.store, tasks)
    return access.store.submit(tasks)


def _may_touch_secrets(condition: Condition) -> bool:
    return condition.field in (FREE, "error") or condition.field.startswith(ARGS)


def _check_may_submit(caller: Caller, new: NewTask) -> None:
    if caller.tenant not in (None, new.tenant):
        text = f"tenant={new.tenant!r}: this token submits for {caller.tenant} only."
        raise Refused("forbidden", text, field="tenant")
    if caller.queue not in (None, new.queue):
        raise Refused("forbidden", f"queue={new.queue!r}: this token submits to {caller.queue} only.", field="queue")


def _check_prerequisites(access: Access, tasks: Sequence[NewTask]) -> None:
    """Refuse a prerequisite that the caller may not see as unknown: a task can read the results of its prerequisites.

    A caller who is limited to a queue cannot name a task before it is submitted, since its queue is not known yet. The
    store compares the tenants.
    """
    if access.caller.queue is None:
        return
    named = {id: name for new in tasks for id, name in _prerequisites(new).items()}
    stored = dict(zip(named, access.store.get(list(named)), strict=True)) if named else {}
    batch = {new.id or keyed_id(new.tenant, new.workflow, new.key or "") for new in tasks if new.id or new.key}
    hidden = [
        named[id]
        for id, task in stored.items()
        if (id not in batch if task is None else not access.caller.can_see(task))
    ]
    if hidden:
        raise UnknownPrerequisite(hidden)


def _prerequisites(new: NewTask) -> dict[TaskId, UUID | str]:
    """Return the prerequisites of a task by id, as the caller wrote them."""
    return {
        TaskId(name) if isinstance(name, UUID) else keyed_id(new.tenant, new.workflow, name): name
        for name in new.prerequisites
    }


def _check_references(new: NewTask) -> None:
    """Refuse a reference to the result of a task that is not a prerequisite: only those are checked for the tenant."""
    named = _prerequisites(new)
    foreign = [task for task in referenced_ids(encode_args(new.args)) if task not in named]
    if foreign:
        raise InvalidPayload(f"args: {foreign[0]} is referenced but is not a prerequisite. Name it in `after`.")
