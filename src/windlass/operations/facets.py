"""How the tasks that match a filter divide: by state, queue, tenant and handler, with links to narrower filters.

A filter by state, queue and tenant alone is answered from the stored counts, exactly, however many tasks there are. For
any other filter, the newest matching tasks stand for all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from windlass.core.filter import STATE, Condition, Op, Pattern, Query
from windlass.core.task import Task
from windlass.operations.access import Access
from windlass.operations.tasks import find_stored, is_plain
from windlass.stores.protocol import Count, Filter
from windlass.stores.totals import is_grouped, sum_groups

SAMPLE = 500
"""How many matching tasks stand for all of them."""
MOST_VALUES = 12


class Facet(Struct, frozen=True, kw_only=True):
    """The most frequent values of one field, and the values that the filter requires."""

    field: str
    values: Mapping[str, int]
    """How many tasks would match if the filter required this value."""
    chosen: frozenset[str]


class Facets(Struct, frozen=True, kw_only=True):
    """How the matching tasks divide."""

    total: int
    exact: bool
    """False if at least `total` tasks match, perhaps more."""
    facets: Sequence[Facet]
    sampled: int | None = None
    """Of how many of the newest matching tasks the facets are; None if they are of all."""


def get_facets(access: Access, query: Query) -> Facets:
    """Count the tasks that match, and divide them."""
    filter = access.narrow(Filter(query=query))
    if filter is None:
        return Facets(total=0, exact=True, facets=[])
    if is_grouped(filter):
        counts = access.counts()
        fields = (STATE, "queue", "tenant")
        facets = [_count_facet(field, query, counts) for field in fields]
        return Facets(total=sum_groups(filter, counts), exact=True, facets=facets)
    page = find_stored(access, Filter(query=query), limit=SAMPLE)
    facets = [_sample_facet(field, query, page.tasks) for field in (STATE, "queue", "tenant", "handler")]
    if page.after is None:
        return Facets(total=len(page.tasks), exact=True, facets=facets)
    total, exact = len(page.tasks), False
    if is_plain(query):
        found = access.store.count(filter)
        total, exact = found.tasks, found.exact
    return Facets(total=total, exact=exact, facets=facets, sampled=len(page.tasks))


def require(query: Query, field: str, value: str | None) -> Query:
    """Return the filter with one value required of a field, in place of what it required before; None for any.

    >>> str(require(parse("state:failed queue:mail age>1h"), "queue", "bulk"))
    'state:failed age>1h queue:bulk'
    """
    kept = tuple(each for each in query.conditions if each.field != field or each.excluded or each.op is not Op.IS)
    added = () if value is None else (Condition(field=field, op=Op.IS, values=(Pattern((value,)),)),)
    return Query((*kept, *added))


def _count_facet(field: str, query: Query, counts: Sequence[Count]) -> Facet:
    filter = Filter(query=require(query, field, None))
    found: Counter[str] = Counter()
    for each in counts:
        tasks = sum_groups(filter, [each])
        if tasks > 0:
            found[_value(each, field)] += tasks
    return _facet(field, query, found)


def _sample_facet(field: str, query: Query, tasks: Sequence[Task]) -> Facet:
    return _facet(field, query, Counter(_value(task, field) for task in tasks))


def _facet(field: str, query: Query, found: Counter[str]) -> Facet:
    chosen = query.names(field) or frozenset()
    shown = dict(found.most_common(MOST_VALUES))
    return Facet(field=field, values={**shown, **{value: found[value] for value in chosen}}, chosen=chosen)


def _value(each: Task | Count, field: str) -> str:
    return str(getattr(each, field))
