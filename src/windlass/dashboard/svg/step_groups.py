"""Collapse a workflow to a graph that fits on a page: similar steps become one group, long chains are shortened.

Ways to collapse are tried from the finest to the coarsest, and the first that fits counts: every step for itself; steps
with the same handler and the same prerequisites together; steps whose handler and history of handlers are the same
together; steps of one handler on one level together; the smallest groups of a level together; whole levels together.
Every step is in exactly one group, and the groups do not depend on the states of the steps, so the picture holds still
while the workflow runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from windlass.core.lifecycle import State
from windlass.dashboard.svg.layered_layout import drop_implied, find_ranks
from windlass.operations.workflow_graph import Workflow, count_states

MOST_GROUPS = 60
MOST_EDGES = 240
MOST_LEVELS = 32
MOST_JOINED = 12
"""How many groups are left where whole levels are joined."""
MOST_WIDE = 10
"""How many groups stand side by side at most."""
LONGEST_CHAIN = 6
"""A longer chain is shortened."""


class Group(Struct, frozen=True, kw_only=True):
    """A node of the collapsed graph: some steps of a workflow."""

    places: list[int]
    label: str
    states: dict[State, int]
    critical: bool
    """Whether one of the steps is on the critical path."""
    handler: str | None
    """The handler of all the steps; None if they have several."""

    @property
    def tasks(self) -> int:
        """Return the number of steps."""
        return len(self.places)

    @property
    def state(self) -> State:
        """Return the state that matters most: what failed, then what runs, then what comes next."""
        return next(state for state in _URGENT if state in self.states)


class CollapsedGraph(Struct, frozen=True, kw_only=True):
    """The groups of a workflow and the edges between them, as (upper, lower)."""

    groups: list[Group]
    edges: list[tuple[int, int]]
    critical: frozenset[tuple[int, int]]
    """The edges of the critical path."""
    whole: bool
    """True if every step is a group of its own."""


_URGENT = (
    State.FAILED, State.EXPIRED, State.RETRYING, State.LEASED, State.RUNNABLE, State.SCHEDULED, State.WAITING,
    State.CANCELLED, State.COMPLETED,
)  # fmt: skip


def collapse(workflow: Workflow, *, most: int = MOST_GROUPS) -> CollapsedGraph:
    """Return the finest graph that has at most `most` groups."""
    ways: Sequence[Callable[[Workflow], Iterable[int]]] = (_each, _by_prerequisites, _by_history, _by_level)
    if workflow.tasks > most * 50:
        ways = ways[1:]  # Only a chain could fit, and the next way shortens it as well.
    coarse: list[_Collapsing] = []
    for way in ways:
        graph = _Collapsing(workflow, way(workflow))
        if graph.fits(most):
            return graph.build()
        coarse.append(graph.shorten_chains())
        if coarse[-1].fits(most):
            return coarse[-1].build()
    for graph in coarse[-2:]:
        narrow = graph.narrow().shorten_chains()
        if narrow.fits(most):
            return narrow.build()
    return coarse[-1].join_levels(min(MOST_JOINED, most)).build()


def _number(keys: Iterable[object]) -> list[int]:
    known: dict[object, int] = {}
    return [known.setdefault(key, len(known)) for key in keys]


def _above(workflow: Workflow, place: int) -> list[int]:
    """Return the prerequisites of a step. Links that close a cycle are left out."""
    return [above for above in workflow.prerequisites[place] if above < place]


def _each(workflow: Workflow) -> Iterable[int]:
    return range(workflow.tasks)


def _by_prerequisites(workflow: Workflow) -> list[int]:
    return _number((step.handler, tuple(sorted(_above(workflow, place)))) for place, step in enumerate(workflow.steps))


def _by_history(workflow: Workflow) -> list[int]:
    known: dict[object, int] = {}
    found: list[int] = []
    for place, step in enumerate(workflow.steps):
        key = (step.handler, frozenset(found[above] for above in _above(workflow, place)))
        found.append(known.setdefault(key, len(known)))
    return found


def _by_level(workflow: Workflow) -> list[int]:
    levels: list[int] = []
    for place in range(workflow.tasks):
        levels.append(1 + max((levels[above] for above in _above(workflow, place)), default=-1))
    return _number((levels[place], step.handler) for place, step in enumerate(workflow.steps))


class _Collapsing:
    """A workflow with a group for each step. The edges between groups never form a cycle."""

    def __init__(self, workflow: Workflow, groups: Iterable[int]) -> None:
        self._workflow = workflow
        self._of = _number(groups)
        self._members: list[list[int]] = [[] for _ in range(max(self._of, default=-1) + 1)]
        for place, group in enumerate(self._of):
            self._members[group].append(place)
        self._edges = sorted(
            {
                (self._of[above], self._of[place])
                for place in range(workflow.tasks)
                for above in _above(workflow, place)
                if self._of[above] != self._of[place]
            }
        )
        self._ranks = find_ranks(len(self._members), self._edges)

    def fits(self, most: int) -> bool:
        """Return True if the graph can be drawn."""
        if len(self._members) > most:
            return False
        levels = max(self._ranks, default=0) + 1
        widest = max((self._ranks.count(rank) for rank in set(self._ranks)), default=0)
        return levels <= MOST_LEVELS and widest <= MOST_WIDE and len(self._drawn_edges()) <= MOST_EDGES

    def shorten_chains(self) -> _Collapsing:
        """Join the middle of each long chain."""
        above: list[list[int]] = [[] for _ in self._members]
        below: list[list[int]] = [[] for _ in self._members]
        for upper, lower in self._edges:
            above[lower].append(upper)
            below[upper].append(lower)
        joined = list(range(len(self._members)))
        for chain in _chains(above, below):
            for group in chain[3:-1] if len(chain) > LONGEST_CHAIN else ():
                joined[group] = chain[2]
        return _Collapsing(self._workflow, [joined[group] for group in self._of])

    def narrow(self) -> _Collapsing:
        """Join the smallest groups of each wide level. Those on the critical path stay."""
        levels: dict[int, list[int]] = {}
        for group, rank in enumerate(self._ranks):
            levels.setdefault(rank, []).append(group)
        joined = list(range(len(self._members)))
        critical = {self._of[place] for place in self._workflow.critical}
        for groups in levels.values():
            if len(groups) <= MOST_WIDE:
                continue
            ranked = sorted(groups, key=lambda group: (group not in critical, -len(self._members[group]), group))
            for group in ranked[MOST_WIDE - 1 :]:
                joined[group] = ranked[MOST_WIDE - 1]
        return _Collapsing(self._workflow, [joined[group] for group in self._of])

    def join_levels(self, most: int) -> _Collapsing:
        """Join all steps of neighboring levels, so that at most `most` groups are left."""
        levels = max(self._ranks, default=0) + 1
        parts = min(levels, most)
        return _Collapsing(self._workflow, [self._ranks[group] * parts // levels for group in self._of])

    def build(self) -> CollapsedGraph:
        """Return the graph."""
        workflow = self._workflow
        return CollapsedGraph(
            groups=[self._group(members) for members in self._members],
            edges=self._drawn_edges(),
            critical=self._critical_edges(),
            whole=len(self._members) == workflow.tasks,
        )

    def _drawn_edges(self) -> list[tuple[int, int]]:
        return drop_implied(len(self._members), self._edges, self._critical_edges())

    def _critical_edges(self) -> frozenset[tuple[int, int]]:
        path = [self._of[place] for place in self._workflow.critical]
        return frozenset((upper, lower) for upper, lower in itertools.pairwise(path) if upper != lower)

    def _group(self, places: list[int]) -> Group:
        workflow = self._workflow
        handlers = sorted({workflow.steps[place].handler for place in places})
        if len(places) == 1:
            label = workflow.steps[places[0]].key or handlers[0]
        elif len(handlers) == 1:
            label = handlers[0]
        else:
            label = f"{len(places):,} steps"
        return Group(
            places=places,
            label=label,
            states=count_states(workflow.steps[place].state for place in places),
            critical=any(workflow.is_critical[place] for place in places),
            handler=handlers[0] if len(handlers) == 1 else None,
        )


def _chains(above: Sequence[Sequence[int]], below: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield the longest runs of groups that have one group before and one after them."""
    for first in range(len(above)):
        follows = len(above[first]) == 1 and len(below[above[first][0]]) == 1
        if follows:
            continue
        chain = [first]
        while len(below[chain[-1]]) == 1 and len(above[below[chain[-1]][0]]) == 1:
            chain.append(below[chain[-1]][0])
        yield chain
