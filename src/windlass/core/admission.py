"""Decide whether a store accepts a batch, given what the store knows. All stores use these functions.

Errors name tasks as the caller did: by key, by the id that the caller gave, or by position in the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from windlass.core.graph import MAX_PLACEHOLDERS
from windlass.core.ids import keyed_id, workflow_id
from windlass.core.ordering import Queue
from windlass.core.submission import Draft
from windlass.core.task import NewTask, OnFailure, TaskId
from windlass.core.times import Micros
from windlass.errors import (
    CycleFound,
    InvalidTask,
    KeyConflict,
    NotAllowed,
    QueueFull,
    UnknownPrerequisite,
    UnknownTask,
)


class Scoped(Protocol):
    """The tenant and workflow of a task."""

    @property
    def tenant(self) -> str: ...
    @property
    def workflow(self) -> str | None: ...


def new_drafts(drafts: Sequence[Draft], known: Mapping[TaskId, bytes | None]) -> Sequence[Draft]:
    """Return the drafts that are not stored yet, or raise `KeyConflict`. `known` has fingerprints by id."""
    if not known:
        return drafts
    conflicts = [
        one.new.key or "" for one in drafts if one.id in known and known[one.id] != one.fingerprint
    ]  # Only a task with a key has a fingerprint.
    if conflicts:
        raise KeyConflict(conflicts)
    return [one for one in drafts if one.id not in known]


def check_prerequisites(
    drafts: Sequence[Draft],
    find: Callable[[TaskId], Scoped | None],
    forward: Callable[[UUID], Micros | None],
) -> dict[TaskId, tuple[UUID, Micros]]:
    """Return the forward references of a batch: id to workflow and time limit. Raise `UnknownPrerequisite`.

    `find` looks up a task of the batch or of the store. `forward` returns the time limit of a workflow's forward
    references, or None if the workflow allows none.
    """
    ahead: dict[TaskId, tuple[UUID, Micros]] = {}
    unknown: dict[object, None] = {}
    waiting: list[object] = []
    for nth, one in enumerate(drafts):
        if not one.prerequisites:
            continue
        missing = [above for above in one.prerequisites if not in_scope(one.new, find(above))]
        if not missing:
            continue
        keys = prerequisite_keys(one.new)
        workflow = workflow_id(one.new.tenant, one.new.workflow or "")
        limit = None if one.new.workflow is None else forward(workflow)
        refused = [above for above in missing if above not in keys or limit is None]
        if refused:
            unknown.update((keys.get(above, above), None) for above in refused)
            waiting.append(one.new.key or one.new.id or nth)
        elif limit is not None:
            ahead.update((above, (workflow, limit)) for above in missing)
    if unknown:
        raise UnknownPrerequisite(list(unknown), () if waiting == [0] and len(drafts) == 1 else waiting)
    return ahead


def check_placeholders(
    ahead: Mapping[TaskId, tuple[UUID, Micros]], drafts: Iterable[Draft], already: Mapping[UUID, int]
) -> None:
    """Raise `InvalidTask` for too many open forward references. `already` counts those of earlier batches."""
    for workflow, there in already.items():
        if there + sum(one == workflow for one, _ in ahead.values()) > MAX_PLACEHOLDERS:
            named = {workflow_id(one.new.tenant, one.new.workflow or ""): one.new.workflow for one in drafts}
            raise InvalidTask(
                f"prerequisites: workflow {named.get(workflow)!r} has more than {MAX_PLACEHOLDERS:,} open forward "
                "references. Submit some of the tasks that they name first."
            )


def check_room(queue: Queue, queued: int, more: int) -> None:
    """Raise `QueueFull` if the queue has no room for `more` tasks."""
    if queue.max_waiting is not None and queued + more > queue.max_waiting:
        raise QueueFull(queue.name, queue.max_waiting)


def check_seal(workflow: str, tenant: str, open_references: int, *, opened: bool, missing: bool) -> None:
    """Check that a workflow was opened, and has no open forward references unless `missing` ends them."""
    if not opened:
        raise UnknownTask(f"workflow {workflow!r} of tenant {tenant!r}")
    if open_references and not missing:
        raise NotAllowed(f"workflow {workflow!r} has {open_references} open forward references. Submit them first.")


def seal_for(
    draft: Draft,
    batch: Mapping[TaskId, NewTask],
    is_unsealed: Callable[[UUID], bool],
    waits_for_seal: Callable[[TaskId], bool],
) -> tuple[UUID, ...]:
    """Return the seal that a task waits for: that of its unsealed workflow, for a root and for `OnFailure.RUN`.

    A root is a task with no prerequisite of the same workflow that is in the batch, or stored and itself waiting for
    the seal. Other stored prerequisites do not count, because they may have run before the workflow was opened. A task
    that runs whatever its prerequisites' ends would otherwise start before the seal if they are cancelled.
    """
    workflow = draft.new.workflow
    if workflow is None:
        return ()
    id = workflow_id(draft.new.tenant, workflow)
    if not is_unsealed(id):
        return ()
    is_root = not any(
        batch[above].workflow is not None if above in batch else waits_for_seal(above) for above in draft.prerequisites
    )
    return (id,) if is_root or draft.new.on_failure == OnFailure.RUN else ()


def cycle(members: Sequence[TaskId], key_of: Callable[[TaskId], str | None]) -> CycleFound:
    """Return the error for tasks that wait for each other, named by key if they have one."""
    return CycleFound([key_of(id) or id for id in members])


def prerequisite_keys(new: NewTask) -> dict[TaskId, str]:
    """Return the ids of the prerequisites that the caller named by key, with those keys."""
    return {keyed_id(new.tenant, new.workflow, name): name for name in new.prerequisites if not isinstance(name, UUID)}


def in_scope(new: NewTask, there: Scoped | None) -> bool:
    """Return True if a task may wait for this one: it belongs to the same workflow, or to none."""
    return there is not None and there.tenant == new.tenant and there.workflow in (None, new.workflow)
