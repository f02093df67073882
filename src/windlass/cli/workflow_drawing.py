"""Draw workflows in a terminal: a tree of the steps and a Gantt chart.

The output is bounded for a workflow of any size: similar steps share a line, long chains are cut in the middle, and a
line that stands for other steps shows how many they are and their states.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import Struct

from windlass.cli.output import color, style
from windlass.core.lifecycle import State
from windlass.core.times import Micros
from windlass.operations.presentation import GLYPHS, format_span
from windlass.operations.workflow_graph import Workflow, step_name
from windlass.operations.workflow_rows import SIMILAR, Bar, Gap, Row, format_steps, make_bars, order_states

WAITED, WORKED = "░", "▓"
CRITICAL = "◆"
MOST_CHILDREN = 12
"""Up to this many steps under one are drawn one by one. Of more, similar steps share a line."""
MOST_DEEP = 30
"""How many levels of a tree are drawn."""
IN_A_ROW = 8
"""A longer part of a chain in one state is cut in the middle."""
_UNDER = {"": "", "├─ ": "│  ", "└─ ": "   "}


class _Subtree(Struct, frozen=True):
    """One line of the tree: similar steps, with what is below the first of them."""

    place: int
    times: int
    """How many steps the line stands for."""
    last: int | None = None
    """The last of the steps, if it is known."""


class Tree:
    """A workflow as a tree: each step under the prerequisite that delayed it longest.

    Similar subtrees are drawn once. Nothing here is recursive: a chain may be as long as the workflow.
    """

    def __init__(self, workflow: Workflow, now: Micros) -> None:
        self._workflow, self._now = workflow, now
        self._children: dict[int, list[int]] = {}
        for place in range(workflow.tasks):
            self._children.setdefault(self._above(place), []).append(place)
        self._shapes = self._number_shapes()

    def lines(self, limit: int, after: int | None = None) -> Iterator[str]:
        """Yield about `limit` lines: the whole tree, or what is below one step."""
        left_out, drawn = Counter[State](), 0
        tops = self._subtrees(-1 if after is None else after, 1)
        stack: list[tuple[str, str, int, _Subtree | str]] = [("", "", 0, top) for top in reversed(tops)]
        while stack:
            indent, branch, depth, subtree = stack.pop()
            if isinstance(subtree, str):
                yield indent + branch + subtree
            elif drawn >= limit:
                left_out += self._states_below(subtree)
            elif depth >= MOST_DEEP:
                yield f"{indent}{branch}{Gap(order_states(self._states_below(subtree))).text}"
            else:
                yield indent + branch + self._line(subtree)
                inner = indent + _UNDER[branch]
                row, last = self._cut_chain(subtree)
                if row:
                    yield f"{inner}└─ {Gap(order_states(row)).text}"
                    inner += "   "
                below = self._subtrees(last, subtree.times)
                stack += [(inner, "├─ " if more else "└─ ", depth + 1, each) for more, each in enumerate(below[::-1])]
            drawn += 1
        if left_out:
            yield Gap(order_states(left_out)).text

    def _above(self, place: int) -> int:
        """Return the step under which a step is drawn; -1 for none."""
        above = [before for before in self._workflow.prerequisites[place] if before < place]
        return max(above, key=lambda id: (self._workflow.is_critical[id], self._end(id)), default=-1)

    def _end(self, place: int) -> Micros:
        return self._workflow.steps[place].finished or self._now

    def _number_shapes(self) -> list[int]:
        """Return a number for each step. Steps with similar subtrees have the same number."""
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

    def _subtrees(self, place: int, times: int) -> list[_Subtree | str]:
        """Return the subtrees below a step that stands for `times` steps."""
        children = self._children.get(place, [])
        similar: dict[int, list[int]] = {}
        for child in children:
            similar.setdefault(self._shapes[child] if len(children) > MOST_CHILDREN else child, []).append(child)
        subtrees: list[_Subtree] = []
        for places in similar.values():
            if len(places) >= SIMILAR:
                subtrees.append(_Subtree(places[0], len(places) * times, places[-1] if times == 1 else None))
            else:
                subtrees += [_Subtree(each, times) for each in places]
        if len(subtrees) <= MOST_CHILDREN:
            return [*subtrees]
        ranked = sorted(subtrees, key=lambda subtree: (not self._workflow.is_critical[subtree.place], -subtree.times))
        chosen = set(ranked[: MOST_CHILDREN - 1])
        rest = Counter[State]()
        for subtree in subtrees:
            if subtree not in chosen:
                rest += self._states_below(subtree)
        return [*(subtree for subtree in subtrees if subtree in chosen), Gap(order_states(rest)).text]

    def _cut_chain(self, subtree: _Subtree) -> tuple[Counter[State], int]:
        """Return the states of the steps that are cut out of a chain, and the last of these steps.

        Of a chain in one state, the first and the last steps are drawn. Without a cut, the last step is the first one.
        """
        row, place = [subtree.place], subtree.place
        state = self._workflow.steps[place].state
        while len(below := self._children.get(place, [])) == 1 and self._workflow.steps[below[0]].state is state:
            place = below[0]
            row.append(place)
        above = self._above(subtree.place)
        begins = above < 0 or len(self._children[above]) > 1 or self._workflow.steps[above].state is not state
        if begins or len(row) <= IN_A_ROW:
            return Counter(), subtree.place
        return Counter({state: (len(row) - 3) * subtree.times}), row[-3]

    def _states_below(self, subtree: _Subtree) -> Counter[State]:
        found = Counter[State]()
        stack = [subtree.place]
        while stack:
            place = stack.pop()
            found[self._workflow.steps[place].state] += subtree.times
            stack += self._children.get(place, ())
        return found

    def _line(self, subtree: _Subtree) -> str:
        step, workflow = self._workflow.steps[subtree.place], self._workflow
        name = step_name(step) if subtree.times == 1 else f"{step.handler} ×{subtree.times:,}"
        words = [color(f"{GLYPHS[step.state]} {name}", step.state)]
        if subtree.last is not None:
            words.append(f"({step_name(step)} … {step_name(workflow.steps[subtree.last])})")
        if workflow.is_critical[subtree.place]:
            words.append(style(CRITICAL, fg="yellow", bold=True))
        if subtree.times == 1:
            view = workflow.view(subtree.place)
            if view.began is not None:
                words.append(
                    f"waited {format_span(view.waited(self._now))}, worked {format_span(view.worked(self._now))}"
                )
            elif step.state.ended_badly:
                words.append(step.state.value)
        if workflow.prerequisites.number(subtree.place) > 1:
            words.append(f"(after {format_steps(workflow, workflow.prerequisites[subtree.place])})")
        return "  ".join(words)


def draw_gantt(workflow: Workflow, now: Micros, rows: Iterable[Row], width: int | None = None) -> Iterator[str]:
    """Yield a bar for each row, ordered by when its steps could run: ░ waited, ▓ worked."""
    room = width or shutil.get_terminal_size().columns
    start = workflow.submitted
    end = max(workflow.ended or now, start + 1)
    bars, left_out = make_bars(workflow, rows, now)
    shown = {bar.name: bar.name if len(bar.name) <= 24 else bar.name[:23] + "…" for bar in bars}
    label = max(map(len, shown.values()), default=0) + 5
    columns = max(10, room - label - 12)
    yield f"{'':{label}}{format_span(end - start)} in total, {format_span((end - start) // columns)} per column"
    for bar in bars:
        head = f"{GLYPHS[bar.state]} {shown[bar.name]:{label - 5}} {CRITICAL if bar.critical else ' '} "
        yield f"{color(head, bar.state)}{_draw_bar(bar, start, end, columns)}".rstrip()
    if left_out:
        yield Gap(left_out).text


def _draw_bar(bar: Bar, start: Micros, end: Micros, columns: int) -> str:
    def column(moment: Micros) -> int:
        return min(columns, max(0, round((moment - start) * columns / (end - start))))

    ready, began, over = column(bar.ready), column(bar.began or bar.ended), column(bar.ended)
    # A step that ran gets at least one column.
    worked = max(1, over - began) if bar.began is not None else 0
    text = " " * min(ready, columns - 1) + WAITED * (began - ready) + WORKED * worked
    took = f" {format_span(bar.worked)}" if bar.began is not None else ""
    return f"{text[: columns + 1]}{took}"
