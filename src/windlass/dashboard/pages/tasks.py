"""The page Tasks: where is mine. A filter, how the matching tasks divide, and the tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from windlass.core.lifecycle import State
from windlass.core.query import Query, parse
from windlass.core.task import Task
from windlass.dashboard.page import Nav, Pages
from windlass.dashboard.visit import Visit
from windlass.errors import InvalidFilter
from windlass.operations import bulk_runs, facets, tasks
from windlass.operations.bulk import Verb
from windlass.operations.bulk_runs import BulkRun
from windlass.operations.facets import Facets
from windlass.stores.protocol import Filter
from windlass.wire.cursors import cursor_text, parse_cursor

pages = Pages()

PAGE = 50
VIEWS = (
    ("All", ""),
    ("To run", "state:runnable"),
    ("Running", "state:leased"),
    ("Retrying", "state:retrying"),
    ("Failed", "state:failed"),
    ("Scheduled", "state:scheduled"),
    ("Waiting long", "state:runnable age>10m"),
)


class TasksQuery(Struct, frozen=True, kw_only=True):
    """Which tasks, in the filter language, and after which one."""

    q: Annotated[str, Meta(max_length=4_000)] = ""
    after: Annotated[str, Meta(max_length=200)] | None = None


class Choice(Struct, frozen=True, kw_only=True):
    """A value of a facet, and the filter that requires it, or no longer does."""

    value: str
    tasks: int
    chosen: bool
    q: str


class Choices(Struct, frozen=True, kw_only=True):
    """The values of one field."""

    field: str
    values: Sequence[Choice]


class TasksPage(Struct, frozen=True, kw_only=True):
    """What the page shows."""

    q: str
    problem: str = ""
    """Why the filter cannot be used."""
    tasks: Sequence[Task] = ()
    after: str | None = None
    """Where the next page starts."""
    first: bool = True
    total: int = 0
    exact: bool = True
    sampled: int | None = None
    choices: Sequence[Choices] = ()
    views: Sequence[tuple[str, str]] = VIEWS
    runs: Sequence[BulkRun] = ()
    """The long actions that are running."""

    @property
    def verbs(self) -> Sequence[Verb]:
        """Return what can be done to the tasks."""
        return (Verb.RETRY, Verb.CANCEL, Verb.PURGE)


@pages.show("/tasks", "tasks.html", title="Tasks", nav=Nav("Tasks", "t"))
def show_tasks(visit: Visit, query: TasksQuery) -> TasksPage:
    """Show the tasks that match a filter, newest first."""
    try:
        parsed = parse(query.q)
    except InvalidFilter as error:
        return TasksPage(q=query.q, problem=str(error))
    access = visit.access
    found = tasks.find(access, Filter(query=parsed), limit=PAGE, after=parse_cursor(query.after, access.seal))
    divided = facets.get_facets(access, parsed)
    return TasksPage(
        q=query.q,
        tasks=found.tasks,
        after=None if found.after is None else cursor_text(found.after, access.seal),
        first=query.after is None,
        total=divided.total,
        exact=divided.exact,
        sampled=divided.sampled,
        choices=_choices(parsed, divided),
        runs=bulk_runs.get_running(access),
    )


def _choices(query: Query, divided: Facets) -> list[Choices]:
    order = {state.value: place for place, state in enumerate(State)}
    found: list[Choices] = []
    for facet in divided.facets:
        values = [
            Choice(
                value=value,
                tasks=number,
                chosen=value in facet.chosen,
                q=str(facets.require(query, facet.field, None if value in facet.chosen else value)),
            )
            for value, number in facet.values.items()
        ]
        if facet.field == "state":
            values.sort(key=lambda each: order[each.value])
        if len(values) > 1 or any(each.chosen for each in values):
            found.append(Choices(field=facet.field, values=values))
    return found
