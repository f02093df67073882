"""Finding tasks for somebody who may not see everything of them.

A filter that asks for what is secret would be a way to read it: `args.password:a*`, `args.password:b*`, and so on. So
conditions on arguments, on reasons and on free text are judged here, on tasks as they are shown; the store is asked for
all others. What is found is then the same as what a reader could have found by eye.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from windlass.core.filter import ARGS, FREE, Condition, Query
from windlass.core.task import Task
from windlass.operations.handler_catalog import HandlerCatalog
from windlass.redaction import redact, redact_text
from windlass.stores.protocol import Cursor, Filter, Page, TaskReader

MOST_LOOKED_AT = 10_000
"""How many tasks one call looks at; a page may be short for it, and says where to go on."""
_AT_ONCE = 1_000


def find_shown(store: TaskReader, offers: HandlerCatalog, filter: Filter, limit: int, after: Cursor | None) -> Page:
    """A page of the tasks that match as they are shown, newest first."""
    conditions = () if filter.query is None else filter.query.conditions
    judged = Query(tuple(each for each in conditions if _looks_inside(each)))
    if not judged.conditions:
        return store.find(filter, limit=limit, after=after)
    asked = replace(filter, query=Query(tuple(each for each in conditions if not _looks_inside(each))))
    found: list[Task] = []
    looked_at = 0
    while True:
        page = store.find(asked, limit=_AT_ONCE, after=after)
        for task in page.tasks:
            if judged.matches(_shown(task, offers), 0):
                found.append(task)
            if len(found) == limit:
                return Page(found, Cursor(task.submitted, task.id))
        looked_at += _AT_ONCE
        if page.after is None or looked_at >= MOST_LOOKED_AT:
            return Page(found, page.after)
        after = page.after


def is_plain(query: Query) -> bool:
    """Whether a query asks for nothing that may be secret, so that the store finds what a reader could find."""
    return not any(map(_looks_inside, query.conditions))


def _looks_inside(condition: Condition) -> bool:
    return condition.field in (FREE, "error") or condition.field.startswith(ARGS)


def _shown(task: Task, offers: HandlerCatalog) -> Task:
    args = redact(msgspec.json.decode(task.args), offers.parameters(task.handler))
    reason = None if task.reason is None else redact_text(task.reason)
    return replace(task, args=msgspec.json.encode(args).decode(), reason=reason)
