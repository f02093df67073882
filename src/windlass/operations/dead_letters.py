"""Dead letters as people see and change them: failed tasks, grouped by bug.

A group is every failed task that ended with the same error. Stores keep the groups (`stores.dead_letters`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain, islice
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from windlass.core.fingerprint import LENGTH, error_group
from windlass.core.lifecycle import State
from windlass.core.payload import encode_args
from windlass.core.task import NewTask, Task, TaskId
from windlass.errors import InvalidTask, WindlassError
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.paging import pages
from windlass.operations.redact import redact_error, redact_task
from windlass.operations.tasks import make_successor
from windlass.stores.coordination import Entry
from windlass.stores.dead_letters import DeadGroup, DeadGroups
from windlass.stores.protocol import Filter
from windlass.stores.totals import COUNTED

PAGE = 500
EXAMPLES = 3
MIN_DIGITS = 2
"""How many digits of a group's id must be given at least."""
_ID = re.compile(rf"[0-9a-f]{{{LENGTH}}}")


class UnknownGroup(WindlassError, LookupError):
    """No group has this id, or several ids begin with it."""

    code = "unknown_group"


class GroupRetried(Struct, frozen=True, kw_only=True):
    """Progress of a retry. `fixed` is null while that is unknown, and without a canary."""

    group: str
    retried: int
    left: int
    fixed: bool | None
    text: str


class EditedTask(Struct, frozen=True, kw_only=True):
    """The arguments of a task before and after an edit, as JSON text without secrets."""

    id: TaskId
    handler: str
    before: str
    after: str


class Edit(Struct, frozen=True, kw_only=True):
    """What an edit of a group does: how many tasks it submits again, and some of them."""

    total: int
    examples: list[EditedTask]


def get_all(
    access: Access, *, queue: str | None = None, tenant: str | None = None, limit: int = COUNTED
) -> list[DeadGroup]:
    """Return the bugs among the newest failed tasks, the most frequent first."""
    return read_groups(access, queue=queue, tenant=tenant, limit=limit).groups


def read_groups(
    access: Access, *, queue: str | None = None, tenant: str | None = None, limit: int = COUNTED
) -> DeadGroups:
    """Return the same as `get_all`, and whether there are more failed tasks or bugs than these."""
    where = access.narrow(Filter(queue=queue, tenant=tenant))
    if where is None:
        return DeadGroups([], complete=True)
    found = access.store.dead_groups(queue=where.queue, tenant=where.tenant, limit=limit)
    groups = [replace(group, error=redact_error(group.error)) for group in found.groups]
    return DeadGroups(groups, complete=found.complete)


def get(access: Access, id: str) -> DeadGroup:
    """Return one bug by its id, or by at least two digits from the beginning of the id."""
    known = get_all(access)
    matching = [group for group in known if len(id) >= MIN_DIGITS and group.id.startswith(id.lower())]
    if len(matching) == 1:
        return matching[0]
    if not known:
        raise UnknownGroup(f"group={id!r} is unknown. No task has failed.")
    names, number = ", ".join(group.id for group in matching or known[:20]), len(matching) or "no"
    raise UnknownGroup(f"group={id!r} matches {number} group{'s' * (len(matching) > 1)}. The groups are: {names}.")


def find(access: Access, id: str) -> DeadGroup | None:
    """Return the bug with this id; None if no task fails with it any more. Raise `UnknownGroup` for part of an id."""
    if not _ID.fullmatch(id):
        return get(access, id)
    return next((group for group in get_all(access) if group.id == id), None)


def find_group(access: Access, id: TaskId) -> DeadGroup | None:
    """Return the group of a failed task; None if it has not failed, or its group is too old to be counted."""
    task = access.task(id)
    if task.state is not State.FAILED:
        return None
    ended = access.store.attempts(id)
    group = error_group(ended[-1].error if ended else None, task.reason)
    return next((each for each in get_all(access) if each.id == group), None)


def letters(access: Access, group: DeadGroup, *, limit: int = COUNTED) -> list[Task]:
    """Return the newest tasks of a group."""
    size, tenant, queue = min(PAGE, limit), access.caller.tenant, access.caller.queue
    found = pages(
        lambda after: access.store.dead_letters(group.id, queue=queue, tenant=tenant, limit=size, after=after)
    )
    tasks = islice(chain.from_iterable(page.tasks for page in found), limit)
    return [redact_task(task, access.catalog) for task in tasks]


def get_ids(access: Access, group: DeadGroup, *, limit: int = COUNTED) -> list[TaskId]:
    """Return the ids of the newest tasks of a group."""
    size, tenant, queue = min(PAGE, limit), access.caller.tenant, access.caller.queue
    found = pages(lambda after: access.store.dead_ids(group.id, queue=queue, tenant=tenant, limit=size, after=after))
    return list(islice(chain.from_iterable(page.ids for page in found), limit))


def retry(access: Access, group: DeadGroup, author: Author) -> GroupRetried:
    """Retry every task of a group, and the tasks that were cancelled because of them."""
    chosen = get_ids(access, group)
    entry = group_entry(group, "retried", f"retried {group.id}", len(chosen), author)
    number = access.store.retry(chosen, dependents=True, entries=[entry])
    more = number - len(chosen)
    text = f"retried {number}" + (f", {more} of them cancelled because of the others" if more > 0 else "")
    return GroupRetried(group=group.id, retried=number, left=0, fixed=None, text=text)


def preview_edit(access: Access, group: DeadGroup, changes: Mapping[str, Any]) -> Edit:
    """Return what `edit` would do. Raise `InvalidTask` if the changed arguments of a task do not fit its handler."""
    made = _successors(access, group, changes)

    def show(task: Task) -> str:
        return redact_task(task, access.catalog).args

    examples = [
        EditedTask(
            id=old.id, handler=old.handler, before=show(old), after=show(replace(old, args=encode_args(new.args)))
        )
        for old, new in made[:EXAMPLES]
    ]
    return Edit(total=len(made), examples=examples)


def edit(access: Access, group: DeadGroup, changes: Mapping[str, Any], author: Author) -> int:
    """Submit every task of a group again, with some arguments changed. Return how many were new; the old ones stay.

    Nothing is submitted if one of them would be refused. A repeated edit with the same changes submits nothing new.
    """
    made, created = _successors(access, group, changes), 0
    for start in range(0, len(made), PAGE):
        batch = [new for _, new in made[start : start + PAGE]]
        text = f"submitted the tasks of {group.id} again with other values of {', '.join(sorted(changes))}"
        receipts = access.store.submit(batch, entries=[group_entry(group, "edited", text, len(batch), author)])
        created += sum(receipt.created for receipt in receipts)
    return created


def drop(access: Access, group: DeadGroup, author: Author) -> int:
    """Remove every task of a group for good, in batches with one audit entry each. Return how many were removed."""
    chosen, dropped = get_ids(access, group), 0
    for start in range(0, len(chosen), PAGE):
        batch = chosen[start : start + PAGE]
        entry = group_entry(group, "dropped", f"dropped {group.id}", len(batch), author)
        dropped += access.store.purge(batch, entries=[entry])
    return dropped


def _successors(access: Access, group: DeadGroup, changes: Mapping[str, Any]) -> list[tuple[Task, NewTask]]:
    """Return the stored tasks of a group, with the tasks that would replace them."""
    if not changes:
        raise InvalidTask('changes={} changes nothing. Name arguments and their new values, as in {"total": 1}.')
    ids = get_ids(access, group)
    found = chain.from_iterable(access.store.get(ids[start : start + PAGE]) for start in range(0, len(ids), PAGE))
    stored = [task for task in found if task is not None and task.state is State.FAILED]
    return [(task, make_successor(access, task, changes)) for task in stored]


def group_entry(group: DeadGroup, action: str, text: str, count: int, author: Author) -> Entry:
    """Return the audit entry of an action on `count` tasks of a group."""
    return author.entry(f"dead/{group.id}", action, f"{text}, {count:,} task{'s' * (count != 1)}")
