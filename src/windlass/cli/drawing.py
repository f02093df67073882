"""Workflows in a terminal: a tree of their steps, a chart of who waited and worked when, and what to show of many.

Whatever the size of a workflow, the output is bounded: steps that are alike become one line, long chains are cut in the
middle, and each line that stands for others says how many they are and in which states.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import click
from msgspec import Struct

from windlass.cli.output import coloured, painted
from windlass.cli.shapes import GLYPHS
from windlass.cli.time_options import length
from windlass.core.lifecycle import State
from windlass.core.times import Micros
from windlass.operations.legacy_workflows import Workflow, step_name

WAITED, WORKED = "░", "▓"
CRITICAL = "◆"
MOST_CHILDREN = 12
"""Up to so many steps under one are drawn one by one; of more, those that are alike become one line."""
ALIKE = 3
"""So many steps that are alike become one line, where steps are many."""
MOST_DEEP = 30
"""So many levels of a tree are drawn."""
IN_A_ROW = 8
"""A longer part of a chain, all in one state, is cut in the middle."""
_UNDER = {"": "", "├─ ": "│  ", "└─ ": "   "}
_URGENT = ({State.FAILED, State.EXPIRED}, {State.LEASED, State.RETRYING})


class Group(Struct, frozen=True):
    """Steps that are alike: one handler, one state, the same prerequisites. None of them is critical."""

    places: Sequence[int]


class Gap(Struct, frozen=True):
    """Steps that are left out here."""

    states: dict[State, int]

    @property
    def text(self) -> str:
        """How many they are, and in which states."""
        return f"… {sum(self.states.values()):,} more: {tallied(self.states)}"


Row: TypeAlias = int | Group | Gap


def tallied(states: dict[State, int]) -> str:
    """How many are in each state."""
    return ", ".join(f"{GLYPHS[state]} {number:,}" for state, number in states.items())


def digest(workflow: Workflow, limit: int) -> list[Row]:
    """About `limit` rows that stand for all steps, in order.

    All steps if they are few. Else steps that are alike become one row; and if that is not enough, the failed and the
    running steps, both ends of the critical path and the largest groups are chosen first, and gaps stand for the rest.
    """
    if workflow.tasks <= limit:
        return list(range(workflow.tasks))
    rows = _folded(workflow)
    if len(rows) <= limit:
        return list(rows)
    chosen = _chosen(rows, workflow, limit)
    found: list[Row] = []
    left_out = Counter[State]()
    for index, row in enumerate(rows):
        if index in chosen:
            if left_out:
                found.append(Gap(_in_state_order(left_out)))
                left_out.clear()
            found.append(row)
        else:
            left_out.update(_count(workflow, row))
    return [*found, Gap(_in_state_order(left_out))] if left_out else found


def _folded(workflow: Workflow) -> list[int | Group]:
    alike: dict[tuple[str, State, bytes], list[int]] = {}
    for place, step in enumerate(workflow.steps):
        if not workflow.is_critical[place]:
            key = (step.handler, step.state, workflow.prerequisites[place].tobytes())
            alike.setdefault(key, []).append(place)
    groups = {places[0]: places for places in alike.values() if len(places) >= ALIKE}
    folded = {place for places in groups.values() for place in places[1:]}
    return [
        Group(groups[place]) if place in groups else place for place in range(workflow.tasks) if place not in folded
    ]


def _chosen(rows: Sequence[int | Group], workflow: Workflow, limit: int) -> set[int]:
    """Which rows to show: by their index."""
    quarter = max(1, limit // 4)
    first = [row if isinstance(row, int) else row.places[0] for row in rows]
    path = [index for index, row in enumerate(rows) if isinstance(row, int) and workflow.is_critical[row]]
    sizes = {index: len(row.places) for index, row in enumerate(rows) if isinstance(row, Group)}
    largest = sorted(sizes, key=lambda index: (-sizes[index], index))
    urgent = [[n for n, place in enumerate(first) if workflow.steps[place].state in states] for states in _URGENT]
    chosen: set[int] = set()
    for indexes, most in (
        *((indexes, quarter) for indexes in urgent),
        (_from_both_ends(path), quarter),
        (largest, quarter),
        (_from_both_ends(path), limit),
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


def _from_both_ends(indexes: Sequence[int]) -> Iterator[int]:
    for distance in range((len(indexes) + 1) // 2):
        yield indexes[distance]
        yield indexes[-1 - distance]


def _count(workflow: Workflow, row: int | Group) -> Counter[State]:
    if isinstance(row, int):
        return Counter([workflow.steps[row].state])
    return Counter({workflow.steps[row.places[0]].state: len(row.places)})


def _in_state_order(states: Counter[State]) -> dict[State, int]:
    return {state: states[state] for state in State if states[state]}


def group_name(workflow: Workflow, places: Sequence[int]) -> str:
    """A name for steps that are alike."""
    return f"{workflow.steps[places[0]].handler} ×{len(places):,}"


class _Part(Struct, frozen=True):
    """What a line of the tree is about: some steps that are alike, with all that hangs below the first of them."""

    place: int
    times: int
    """How many steps it stands for."""
    last: int | None = None
    """The last of them, where it is known."""


class Tree:
    """A workflow as a tree: each step under the prerequisite that held it longest.

    Subtrees that are alike are drawn once. No part of it is recursive: a chain may be as long as the workflow.
    """

    def __init__(self, workflow: Workflow, now: Micros) -> None:
        self._workflow, self._now = workflow, now
        self._children: dict[int, list[int]] = {}
        for place in range(workflow.tasks):
            self._children.setdefault(self._above(place), []).append(place)
        self._shapes = self._shaped()

    def lines(self, limit: int, after: int | None = None) -> Iterator[str]:
        """About `limit` lines: the whole tree, or what hangs below one step."""
        left_out, drawn = Counter[State](), 0
        tops = self._parts(-1 if after is None else after, 1)
        stack: list[tuple[str, str, int, _Part | str]] = [("", "", 0, top) for top in reversed(tops)]
        while stack:
            indent, branch, depth, part = stack.pop()
            if isinstance(part, str):
                yield indent + branch + part
            elif drawn >= limit:
                left_out += self._states_below(part)
            elif depth >= MOST_DEEP:
                yield f"{indent}{branch}{Gap(_in_state_order(self._states_below(part))).text}"
            else:
                yield indent + branch + self._line(part)
                inner = indent + _UNDER[branch]
                row, last = self._row_below(part)
                if row:
                    yield f"{inner}└─ {Gap(_in_state_order(row)).text}"
                    inner += "   "
                below = self._parts(last, part.times)
                stack += [(inner, "├─ " if more else "└─ ", depth + 1, each) for more, each in enumerate(below[::-1])]
            drawn += 1
        if left_out:
            yield Gap(_in_state_order(left_out)).text

    def _above(self, place: int) -> int:
        """The step under which one is drawn; -1 for none."""
        above = [before for before in self._workflow.prerequisites[place] if before < place]
        return max(above, key=lambda id: (self._workflow.is_critical[id], self._end(id)), default=-1)

    def _end(self, place: int) -> Micros:
        return self._workflow.steps[place].finished or self._now

    def _shaped(self) -> list[int]:
        """For each step a number that it shares with those whose subtrees are alike."""
        known: dict[object, int] = {}
        shapes = [0] * self._workflow.tasks
        for place in range(self._workflow.tasks - 1, -1, -1):
            step = self._workflow.steps[place]
            several = self._workflow.prerequisites.number(place) > 1
            below = Counter(shapes[child] for child in self._children.get(place, ()))
            shape = (
                step.handler,
                step.state,
                self._workflow.is_critical[place],
                self._workflow.prerequisites[place].tobytes() if several else b"",
                tuple(sorted(below.items())),
            )
            shapes[place] = known.setdefault(shape, len(known))
        return shapes

    def _parts(self, place: int, times: int) -> list[_Part | str]:
        """What is drawn below a step that stands for `times` of them."""
        children = self._children.get(place, [])
        alike: dict[int, list[int]] = {}
        for child in children:
            alike.setdefault(self._shapes[child] if len(children) > MOST_CHILDREN else child, []).append(child)
        parts: list[_Part] = []
        for places in alike.values():
            if len(places) >= ALIKE:
                parts.append(_Part(places[0], len(places) * times, places[-1] if times == 1 else None))
            else:
                parts += [_Part(each, times) for each in places]
        if len(parts) <= MOST_CHILDREN:
            return [*parts]
        ranked = sorted(parts, key=lambda part: (not self._workflow.is_critical[part.place], -part.times))
        chosen = set(ranked[: MOST_CHILDREN - 1])
        rest = Counter[State]()
        for part in parts:
            if part not in chosen:
                rest += self._states_below(part)
        return [*(part for part in parts if part in chosen), Gap(_in_state_order(rest)).text]

    def _row_below(self, part: _Part) -> tuple[Counter[State], int]:
        """The steps of a chain below one that are left out, and the last of them, or the step itself.

        Of a chain in one state the first steps and the last ones are drawn.
        """
        row, place = [part.place], part.place
        state = self._workflow.steps[place].state
        while len(below := self._children.get(place, [])) == 1 and self._workflow.steps[below[0]].state is state:
            place = below[0]
            row.append(place)
        above = self._above(part.place)
        begins = above < 0 or len(self._children[above]) > 1 or self._workflow.steps[above].state is not state
        if begins or len(row) <= IN_A_ROW:
            return Counter(), part.place
        return Counter({state: (len(row) - 3) * part.times}), row[-3]

    def _states_below(self, part: _Part) -> Counter[State]:
        found = Counter[State]()
        stack = [part.place]
        while stack:
            place = stack.pop()
            found[self._workflow.steps[place].state] += part.times
            stack += self._children.get(place, ())
        return found

    def _line(self, part: _Part) -> str:
        step, workflow = self._workflow.steps[part.place], self._workflow
        name = step_name(step) if part.times == 1 else f"{step.handler} ×{part.times:,}"
        words = [painted(f"{GLYPHS[step.state]} {name}", step.state)]
        if part.last is not None:
            words.append(f"({step_name(step)} … {step_name(workflow.steps[part.last])})")
        if workflow.is_critical[part.place]:
            words.append(click.style(CRITICAL, fg="yellow", bold=True) if coloured() else CRITICAL)
        if part.times == 1:
            view = workflow.view(part.place)
            if view.began is not None:
                words.append(f"waited {length(view.waited(self._now))}, worked {length(view.worked(self._now))}")
            elif step.state.ended_badly:
                words.append(step.state.value)
        if workflow.prerequisites.number(part.place) > 1:
            words.append(f"(after {names(workflow, workflow.prerequisites[part.place])})")
        return "  ".join(words)


def names(workflow: Workflow, places: Sequence[int]) -> str:
    """The first of some steps by name, and how many more there are."""
    more = f" and {len(places) - 4:,} more" if len(places) > 4 else ""
    return ", ".join(step_name(workflow.steps[place]) for place in places[:4]) + more


class _Bar(Struct, frozen=True, kw_only=True):
    """A line of the chart."""

    name: str
    state: State
    critical: bool
    ready: Micros
    began: Micros | None
    ended: Micros
    worked: Micros


def gantt(workflow: Workflow, now: Micros, rows: Iterable[Row], width: int | None = None) -> Iterator[str]:
    """A bar for each row, in the order in which they could have run: ░ waited, ▓ worked."""
    room = width or shutil.get_terminal_size().columns
    start = workflow.submitted
    end = max(workflow.ended or now, start + 1)
    left_out = Counter[State]()
    bars: list[_Bar] = []
    for row in rows:
        if isinstance(row, Gap):
            left_out.update(row.states)
        else:
            bars.append(_bar(workflow, [row] if isinstance(row, int) else row.places, now))
    shown = {bar.name: bar.name if len(bar.name) <= 24 else bar.name[:23] + "…" for bar in bars}
    label = max(map(len, shown.values()), default=0) + 5
    columns = max(10, room - label - 12)
    yield f"{'':{label}}{length(end - start)} in all, {length((end - start) // columns)} a column"
    for bar in sorted(bars, key=lambda bar: (bar.ready, bar.began or now, bar.name)):
        head = f"{GLYPHS[bar.state]} {shown[bar.name]:{label - 5}} {CRITICAL if bar.critical else ' '} "
        yield f"{painted(head, bar.state)}{_drawn(bar, start, end, columns)}".rstrip()
    if left_out:
        yield Gap(_in_state_order(left_out)).text


def _bar(workflow: Workflow, places: Sequence[int], now: Micros) -> _Bar:
    """One step; or several, from when the first was ready until the last ended."""
    views = [workflow.view(place) for place in places]
    began = min((view.began for view in views if view.began is not None), default=None)
    ended = max(view.ended or now for view in views)
    return _Bar(
        name=views[0].name if len(places) == 1 else group_name(workflow, places),
        state=views[0].step.state,
        critical=bool(views[0].critical),
        ready=min(view.ready for view in views),
        began=began,
        ended=ended,
        worked=0 if began is None else max(0, ended - began),
    )


def _drawn(bar: _Bar, start: Micros, end: Micros, columns: int) -> str:
    def column(moment: Micros) -> int:
        return min(columns, max(0, round((moment - start) * columns / (end - start))))

    ready, began, over = column(bar.ready), column(bar.began or bar.ended), column(bar.ended)
    # What has run at all is seen, however short it was.
    worked = max(1, over - began) if bar.began is not None else 0
    text = " " * min(ready, columns - 1) + WAITED * (began - ready) + WORKED * worked
    took = f" {length(bar.worked)}" if bar.began is not None else ""
    return f"{text[: columns + 1]}{took}"
