"""Dead letters as people see them: bugs first, tasks second. One place for the command line, the API and the dashboard.

A group is every failed task that ended with the same error. Stores keep and read the groups (`stores.dead_letters`).
"""

from __future__ import annotations

from windlass.core.task import Task
from windlass.errors import WindlassError
from windlass.stores.dead_letters import DeadGroup
from windlass.stores.protocol import Filter, TaskReader
from windlass.stores.totals import COUNTED

LOOKED_AT = COUNTED
"""How many of the newest failed tasks are grouped."""
_PAGE = 500
SHORTEST = 2
"""How many digits of a group's id must be given at least."""


class UnknownGroup(WindlassError, LookupError):
    """No failed task has an error of this fingerprint, or several groups begin so."""

    code = "unknown_group"


def groups(store: TaskReader, filter: Filter | None = None, *, limit: int = LOOKED_AT) -> list[DeadGroup]:
    """Return every bug among the newest failed tasks of a queue and tenant, the most frequent first."""
    where = filter or Filter()
    return store.dead_groups(queue=where.queue, tenant=where.tenant, limit=limit).groups


def group(store: TaskReader, id: str, filter: Filter | None = None) -> DeadGroup:
    """Return the group with this id, or the only one whose id begins so."""
    there = groups(store, filter)
    fitting = [each for each in there if len(id) >= SHORTEST and each.id.startswith(id.lower())]
    if len(fitting) == 1:
        return fitting[0]
    names = ", ".join(each.id for each in fitting or there[:20]) or "none: nothing is failed"
    raise UnknownGroup(f"group={id!r} names {len(fitting) or 'no'} group{'s' * (len(fitting) > 1)}; there are {names}")


def letters(store: TaskReader, group: DeadGroup, filter: Filter | None = None, *, limit: int = LOOKED_AT) -> list[Task]:
    """Return the newest tasks of a group, newest first."""
    where, found, after = filter or Filter(), list[Task](), None
    while len(found) < limit:
        page = store.dead_letters(
            group.id, queue=where.queue, tenant=where.tenant, limit=min(_PAGE, limit - len(found)), after=after
        )
        found += page.tasks
        after = page.after
        if after is None:
            break
    return found
