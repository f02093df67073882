"""Dead letters as people see and change them: failed tasks, grouped by bug.

A group is every failed task that ended with the same error. Stores keep the groups (`stores.dead_letters`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

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


class Letters(Struct, frozen=True, kw_only=True):
    """A group and its tasks, newest first."""

    group: DeadGroup
    tasks: Sequence[Task]

    @property
    def ids(self) -> list[TaskId]:
        """Return the ids of the tasks."""
        return [task.id for task in self.tasks]


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
    names = ", ".join(group.id for group in matching or known[:20]) or "none, because no task has failed"
    number = len(matching) or "no"
    raise UnknownGroup(f"group={id!r} matches {number} group{'s' * (len(matching) > 1)}. The groups are: {names}.")


def letters(access: Access, group: DeadGroup, *, limit: int = COUNTED) -> Letters:
    """Return a group with its newest tasks."""
    tenant, queue = access.caller.tenant, access.caller.queue
    found = pages(
        lambda after: access.store.dead_letters(
            group.id, queue=queue, tenant=tenant, limit=min(PAGE, limit), after=after
        )
    )
    tasks = islice((task for page in found for task in page.tasks), limit)
    return Letters(group=group, tasks=[redact_task(task, access.catalog) for task in tasks])


def retry(access: Access, group: DeadGroup, author: Author) -> int:
    """Retry every task of a group. Return how many were retried."""
    ids = letters(access, group).ids
    return access.store.retry(ids, entries=[group_entry(group, "retried", f"retried {group.id}", author)])


def drop(access: Access, group: DeadGroup, author: Author) -> int:
    """Remove every task of a group for good. Return how many were removed."""
    ids = letters(access, group).ids
    return access.store.purge(ids, entries=[group_entry(group, "dropped", f"dropped {group.id}", author)])


def group_entry(group: DeadGroup, action: str, text: str, author: Author) -> Entry:
    """Return the audit entry of an action on a group."""
    return author.entry(f"dead/{group.id}", action, f"{text}, {group.count:,} task{'s' * (group.count != 1)}")
