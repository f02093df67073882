"""Workflows in a terminal: a tree of their steps, and a chart of who waited and worked when."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence

import click

from windlass.cli.moments import length
from windlass.cli.output import coloured, painted
from windlass.cli.shapes import GLYPHS
from windlass.core.lifecycle import State
from windlass.core.task import TaskId
from windlass.core.times import Micros
from windlass.workflow_view import Step, Workflow

WAITED, WORKED = "░", "▓"
MOST_CHILDREN = 12
CRITICAL = "◆"
_UNDER = {"": "", "├─ ": "│  ", "└─ ": "   "}


def tree(workflow: Workflow, now: Micros) -> Iterator[str]:
    """A line for each step, under the prerequisite that held it longest; the critical path is marked."""
    children = _children(workflow, now)
    names = {step.task.id: step.name for step in workflow.steps}
    # A chain may be thousands of steps long, so the way down is a loop and not a recursion.
    stack: list[tuple[str, str, Step | str]] = [("", "", root) for root in reversed(children.get(None, []))]
    while stack:
        indent, branch, step = stack.pop()
        if isinstance(step, str):
            yield indent + branch + step
            continue
        yield indent + branch + _line(step, workflow, names, now)
        below = _cut(children.get(step.task.id, []), workflow)
        inner = indent + _UNDER[branch]
        stack += [(inner, "└─ " if each is below[-1] else "├─ ", each) for each in below][::-1]


def _children(workflow: Workflow, now: Micros) -> dict[TaskId | None, list[Step]]:
    ends = {step.task.id: step.ended or now for step in workflow.steps}
    found: dict[TaskId | None, list[Step]] = {}
    for step in workflow.steps:
        above = max(step.prerequisites, key=lambda id: (id in workflow.critical, ends[id]), default=None)
        found.setdefault(above, []).append(step)
    return found


def _cut(steps: Sequence[Step], workflow: Workflow) -> list[Step | str]:
    """The steps to show; of very many only some, and how the rest stands."""
    if len(steps) <= MOST_CHILDREN:
        return list(steps)
    chosen = sorted(steps, key=lambda step: step.task.id not in workflow.critical)[: MOST_CHILDREN - 1]
    rest = [step for step in steps if step not in chosen]
    return [*(step for step in steps if step in chosen), f"… and {len(rest):,} more: {tallied(rest)}"]


def _line(step: Step, workflow: Workflow, names: dict[TaskId, str], now: Micros) -> str:
    state = step.task.state
    words = [painted(f"{GLYPHS[state]} {step.name}", state)]
    if step.task.id in workflow.critical:
        words.append(click.style(CRITICAL, fg="yellow", bold=True) if coloured() else CRITICAL)
    if step.began is not None:
        words.append(f"waited {length(step.waited(now))}, worked {length(step.worked(now))}")
    elif state.ended_badly:
        words.append(state.value)
    if len(step.prerequisites) > 1:
        others = [names[id] for id in step.prerequisites]
        words.append(f"(after {', '.join(others[:4])}{f' and {len(others) - 4} more' if len(others) > 4 else ''})")
    return "  ".join(words)


def tallied(steps: Sequence[Step]) -> str:
    """How many are in each state."""
    states = [step.task.state for step in steps]
    return ", ".join(f"{GLYPHS[state]} {states.count(state):,}" for state in State if state in states)


def gantt(workflow: Workflow, now: Micros, width: int | None = None) -> Iterator[str]:
    """A bar for each step, in the order in which they could have run: ░ waited, ▓ worked."""
    room = width or shutil.get_terminal_size().columns
    start = workflow.submitted
    end = max(workflow.ended or now, start + 1)
    names = {step.task.id: step.name if len(step.name) <= 24 else step.name[:23] + "…" for step in workflow.steps}
    label = max(map(len, names.values())) + 5
    columns = max(10, room - label - 12)
    yield f"{'':{label}}{length(end - start)} in all, {length((end - start) // columns)} a column"
    for step in sorted(workflow.steps, key=lambda step: (step.ready, step.began or now, step.name)):
        mark = CRITICAL if step.task.id in workflow.critical else " "
        head = f"{GLYPHS[step.task.state]} {names[step.task.id]:{label - 5}} {mark} "
        yield f"{painted(head, step.task.state)}{_bar(step, start, end, now, columns)}".rstrip()


def _bar(step: Step, start: Micros, end: Micros, now: Micros, columns: int) -> str:
    def column(moment: Micros) -> int:
        return min(columns, max(0, round((moment - start) * columns / (end - start))))

    ended = step.ended or now
    ready, began, over = column(step.ready), column(step.began or ended), column(ended)
    # What has run at all is seen, however short it was.
    worked = max(1, over - began) if step.began is not None else 0
    text = " " * min(ready, columns - 1) + WAITED * (began - ready) + WORKED * worked
    took = f" {length(step.worked(now))}" if step.began is not None else ""
    return f"{text[: columns + 1]}{took}"
