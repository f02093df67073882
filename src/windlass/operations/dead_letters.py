"""Dead letters as people see and change them: failed tasks, grouped by bug.

A group is every failed task that ended with the same error. Stores keep the groups (`stores.dead_letters`).
"""

from __future__ import annotations

from itertools import chain, islice

from msgspec import Struct
from msgspec.structs import replace

from windlass.core.task import Task, TaskId
from windlass.errors import WindlassError
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.paging import pages
from windlass.operations.redact import redact_error, redact_task
from windlass.stores.coordination import Entry
from windlass.stores.dead_letters import DeadGroup
from windlass.stores.protocol import Filter
from windlass.stores.totals import COUNTED

PAGE = 500
MIN_DIGITS = 2
"""How many digits of a group's id must be given at least."""


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


def get_all(
    access: Access, *, queue: str | None = None, tenant: str | None = None, limit: int = COUNTED
) -> list[DeadGroup]:
    """Return the bugs among the newest failed tasks, the most frequent first."""
    where = access.narrow(Filter(queue=queue, tenant=tenant))
    if where is None:
        return []
    found = access.store.dead_groups(queue=where.queue, tenant=where.tenant, limit=limit).groups
    return [replace(group, error=redact_error(group.error)) for group in found]


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


def drop(access: Access, group: DeadGroup, author: Author) -> int:
    """Remove every task of a group for good, in batches with one audit entry each. Return how many were removed."""
    chosen, dropped = get_ids(access, group), 0
    for start in range(0, len(chosen), PAGE):
        batch = chosen[start : start + PAGE]
        entry = group_entry(group, "dropped", f"dropped {group.id}", len(batch), author)
        dropped += access.store.purge(batch, entries=[entry])
    return dropped


def group_entry(group: DeadGroup, action: str, text: str, count: int, author: Author) -> Entry:
    """Return the audit entry of an action on `count` tasks of a group."""
    return author.entry(f"dead/{group.id}", action, f"{text}, {count:,} task{'s' * (count != 1)}")
