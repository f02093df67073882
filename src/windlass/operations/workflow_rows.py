"""The steps of a workflow as a bounded number of rows and bars, for lists and Gantt charts.

The output is bounded for a workflow of any size: similar steps share a row, and a gap stands for steps that are not
shown, with how many they are and their states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

from windlass.core.lifecycle import State
from windlass.core.times import Micros
from windlass.operations.presentation import GLYPHS
from windlass.operations.workflow_graph import Workflow, step_name

SIMILAR = 3
"""From this number on, similar steps share a row."""
_URGENT = ({State.FAILED, State.EXPIRED}, {State.LEASED, State.RETRYING})


class StepRow(Struct, frozen=True):
    """Similar steps in one row: same handler, state and prerequisites, and none on the critical path."""

    places: Sequence[int]


class Gap(Struct, frozen=True):
    """Steps that are not shown at this place."""

    states: dict[State, int]

    @property
    def text(self) -> str:
        """Return how many steps these are, and their states."""
        return f"… {sum(self.states.values()):,} more: {format_states(self.states)}"


Row: TypeAlias = int | StepRow | Gap


def format_states(states: dict[State, int]) -> str:
    """Format the number of steps in each state."""
    return ", ".join(f"{GLYPHS[state]} {number:,}" for state, number in states.items())


def summarize(workflow: Workflow, limit: int) -> list[Row]:
    """Return about `limit` rows that stand for all steps, in order.

    Few steps get a row each. Otherwise similar steps share a row; and if there are still too many rows, failed and
    running steps, both ends of the critical path and the largest groups come first, and gaps stand for the rest.
    """
    if workflow.tasks <= limit:
        return list(range(workflow.tasks))
    rows = _merge_similar(workflow)
    if len(rows) <= limit:
        return list(rows)
    chosen = _choose(rows, workflow, limit)
    found: list[Row] = []
    left_out = Counter[State]()
    for index, row in enumerate(rows):
        if index in chosen:
            if left_out:
                found.append(Gap(order_states(left_out)))
                left_out.clear()
            found.append(row)
        else:
            left_out.update(_count(workflow, row))
    return [*found, Gap(order_states(left_out))] if left_out else found


def _merge_similar(workflow: Workflow) -> list[int | StepRow]:
    similar: dict[tuple[str, State, bytes], list[int]] = {}
    for place, step in enumerate(workflow.steps):
        if not workflow.is_critical[place]:
            key = (step.handler, step.state, workflow.prerequisites[place].tobytes())
            similar.setdefault(key, []).append(place)
    groups = {places[0]: places for places in similar.values() if len(places) >= SIMILAR}
    folded = {place for places in groups.values() for place in places[1:]}
    return [
        StepRow(groups[place]) if place in groups else place for place in range(workflow.tasks) if place not in folded
    ]


def _choose(rows: Sequence[int | StepRow], workflow: Workflow, limit: int) -> set[int]:
    """Return the indexes of the rows to show."""
    quarter = max(1, limit // 4)
    first = [row if isinstance(row, int) else row.places[0] for row in rows]
    path = [index for index, row in enumerate(rows) if isinstance(row, int) and workflow.is_critical[row]]
    sizes = {index: len(row.places) for index, row in enumerate(rows) if isinstance(row, StepRow)}
    largest = sorted(sizes, key=lambda index: (-sizes[index], index))
    urgent = [[n for n, place in enumerate(first) if workflow.steps[place].state in states] for states in _URGENT]
    chosen: set[int] = set()
    for indexes, most in (
        *((indexes, quarter) for indexes in urgent),
        (_interleave_ends(path), quarter),
        (largest, quarter),
        (_interleave_ends(path), limit),
        (range(len(rows)), limit),
    ):
        room = min(most, limit - len(chosen))
        for index in indexes:
            if room <= 0:
                break
            if index not in chosen:
                chosen.add(index)
                room -= 1
    return chosen


def _interleave_ends(indexes: Sequence[int]) -> Iterator[int]:
    for distance in range((len(indexes) + 1) // 2):
        yield indexes[distance]
        yield indexes[-1 - distance]


def _count(workflow: Workflow, row: int | StepRow) -> Counter[State]:
    if isinstance(row, int):
        return Counter([workflow.steps[row].state])
    return Counter({workflow.steps[row.places[0]].state: len(row.places)})


def order_states(states: Counter[State]) -> dict[State, int]:
    return {state: states[state] for state in State if states[state]}


def format_group(workflow: Workflow, places: Sequence[int]) -> str:
    """Format similar steps as their handler and number."""
    return f"{workflow.steps[places[0]].handler} ×{len(places):,}"


def format_steps(workflow: Workflow, places: Sequence[int]) -> str:
    """Format the names of the first steps, and how many more there are."""
    more = f" and {len(places) - 4:,} more" if len(places) > 4 else ""
    return ", ".join(step_name(workflow.steps[place]) for place in places[:4]) + more


class Bar(Struct, frozen=True, kw_only=True):
    """One bar of a Gantt chart."""

    name: str
    state: State
    critical: bool
    ready: Micros
    began: Micros | None
    ended: Micros
    worked: Micros
    places: Sequence[int]


def make_bars(workflow: Workflow, rows: Iterable[Row], now: Micros) -> tuple[list[Bar], dict[State, int]]:
    """Return a bar for each row, ordered by when its steps could run, and the states of the steps in gaps."""
    left_out = Counter[State]()
    bars: list[Bar] = []
    for row in rows:
        if isinstance(row, Gap):
            left_out.update(row.states)
        else:
            bars.append(_bar(workflow, [row] if isinstance(row, int) else row.places, now))
    bars.sort(key=lambda bar: (bar.ready, bar.began or now, bar.name))
    return bars, order_states(left_out)


def _bar(workflow: Workflow, places: Sequence[int], now: Micros) -> Bar:
    """Return the bar of one step, or of several: from when the first was ready until the last ended."""
    views = [workflow.view(place) for place in places]
    began = min((view.began for view in views if view.began is not None), default=None)
    ended = max(view.stopped(now) for view in views)
    return Bar(
        name=views[0].name if len(places) == 1 else format_group(workflow, places),
        state=views[0].step.state,
        critical=bool(views[0].critical),
        ready=min(view.ready for view in views),
        began=began,
        ended=ended,
        worked=0 if began is None else max(0, ended - began),
        places=places,
    )
