"""The part of a filter that a database can evaluate."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from uuid import UUID

from msgspec import Struct

from windlass.core.filter import Condition, Op, Pattern, Query, allowed_states
from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.core.task import TaskId
from windlass.core.times import Micros
from windlass.stores.protocol import Filter

INDEXED = frozenset({State.FAILED, State.LEASED, State.RUNNABLE, State.SCHEDULED, State.RETRYING})
"""The states that have an index."""
MOST_IDS = 1_000


class Prefetch(Struct, frozen=True, kw_only=True):
    """Necessary conditions: a matching task has one of these values (None: any) and a submit time in this range."""

    states: list[str] | None
    queues: list[str] | None
    tenants: list[str] | None
    workflows: list[str] | None
    handlers: list[str] | None
    ids: list[TaskId] | None
    since: Micros
    before: Micros
    complete: bool
    """True if these conditions are also sufficient."""

    @property
    def empty(self) -> bool:
        """True if no task can match."""
        return [] in (self.states, self.queues, self.tenants, self.workflows, self.handlers, self.ids)

    @property
    def few_states(self) -> set[str]:
        """The states, if all of them have an index; else empty."""
        return set() if self.states is None or not INDEXED.issuperset(self.states) else {*self.states}


def prefetch(filter: Filter, now: Micros) -> Prefetch:
    """Return the necessary conditions of a filter."""
    query = filter.query or Query()
    states = allowed_states(query) & (filter.states or frozenset(State))
    workflows = _names(query, "workflow", filter.workflow)
    since, before = query.submitted(now)
    return Prefetch(
        states=None if len(states) == len(State) else sorted(states),
        queues=_names(query, "queue", filter.queue),
        tenants=_names(query, "tenant", filter.tenant),
        # Empty text means no workflow, which no index covers.
        workflows=None if workflows is not None and "" in workflows else workflows,
        handlers=_names(query, "handler", filter.handler),
        ids=_ids(query, filter),
        since=since,
        before=before,
        complete=all(map(_is_complete, query.conditions)) and "" not in (workflows or ()),
    )


def _names(query: Query, field: str, given: str | None) -> list[str] | None:
    named = query.names(field)
    if given is not None:
        named = frozenset({given}) if named is None else named & {given}
    return None if named is None else sorted(named)


def _is_complete(condition: Condition) -> bool:
    """Return True if the other values of a `Prefetch` imply this condition."""
    match condition.field:
        case "state":
            return True
        case "age":
            return not condition.excluded
        case "queue" | "tenant" | "handler" | "workflow":
            literal = all(isinstance(value, Pattern) and value.literal is not None for value in condition.values)
            return literal and condition.op is Op.IS and not condition.excluded
        case _:
            return False


def _ids(query: Query, filter: Filter) -> list[TaskId] | None:
    """Return the ids that can match: those in the filter, or those of its keys, tenants and workflows. None: any."""
    named = query.names("id")
    if named is not None:
        return [TaskId(UUID(text)) for text in sorted(named)]
    keys, tenants = _names(query, "key", None), _names(query, "tenant", filter.tenant)
    workflows = _names(query, "workflow", filter.workflow)
    if keys is None or tenants is None or workflows is None or "" in keys or _many(keys, tenants, workflows):
        return None
    return [keyed_id(tenant, workflow or None, key) for tenant, workflow, key in product(tenants, workflows, keys)]


def _many(*several: Sequence[str]) -> bool:
    number = 1
    for values in several:
        number *= len(values)
    return number > MOST_IDS
