"""Claim + settle a second, over batch sizes, processes and the number of finished rows in the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.drain import Cycle, Drained, drain, through, warm_up
from benchmarks.homes import Home
from benchmarks.plan import AIMED_AT, Cell, Plan
from benchmarks.processes import Ready, together
from benchmarks.progress import say
from benchmarks.table import EMPTY, Result

WHAT = "claim + settle"
ENOUGH = {1: 0.2, 10: 0.5}
"""Small batches take fewer tasks: what part of the home's fastest rate has to stand ready for them."""


def drains(home: Home, plan: Plan) -> Iterator[Result]:
    """All cells of all conditions."""
    for finished in (0, *(many for many in sorted(plan.finished) if many <= home.largest)):
        home.empty()
        if finished:
            say(f"{home.name}: filling {finished:,} finished rows")
            home.fill(finished, finished=True)
        for cell in plan.cells(finished):
            if home.shared or cell.processes == 1:
                yield _measured(home, plan, finished, cell)


def _measured(home: Home, plan: Plan, finished: int, cell: Cell) -> Result:
    condition = f"{finished:,} finished" if finished else EMPTY
    say(f"{home.name}: {WHAT}, {condition}, batch {cell.batch:,}, processes {cell.processes}")
    windlass: list[float] = []
    bare: list[float] = []
    for _ in range(plan.rounds_of(cell)):
        windlass.append(_rate(home, plan, finished, cell, lambda: through(home.store())))
        if home.shared:
            bare.append(_rate(home, plan, finished, cell, lambda: home.bare().cycle))
    return Result(
        what=WHAT,
        condition=condition,
        batch=cell.batch,
        processes=cell.processes,
        windlass=max(windlass),
        bare=max(bare, default=None),
        aim=_aim(home, finished, cell),
    )


def _aim(home: Home, finished: int, cell: Cell) -> str:
    if cell != (AIMED_AT, 1) or not home.shared:
        return ""
    return "≥ 0.8 of bare, 0.8 to 1.2 of empty" if finished else "≥ 0.8 of bare"


def _rate(home: Home, plan: Plan, finished: int, cell: Cell, make: Callable[[], Cycle]) -> float:
    """The rates of all processes added up. What a round leaves behind is small against what was filled in."""
    if not finished:
        home.empty()
    home.fill(int(home.fastest * plan.seconds * ENOUGH.get(cell.batch, 1.0)) + 1_000, finished=False)

    def job(ready: Ready) -> Drained:
        cycle = make()
        warm_up(cycle)
        ready()
        return drain(cycle, cell.batch, seconds=plan.seconds)

    parts = together(cell.processes, job) if home.shared else [job(lambda: None)]
    return sum(part.rate for part in parts)
