"""Measure claim + settle for several batch sizes, processes and numbers of finished rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.databases import Database
from benchmarks.drain import Cycle, DrainResult, drain, make_cycle, warm_up
from benchmarks.plan import AIMED_AT, Cell, Plan
from benchmarks.processes import Ready, run_together
from benchmarks.progress import log_progress
from benchmarks.table import EMPTY, Result

WHAT = "claim + settle"
ENOUGH = {1: 0.2, 10: 0.5}
"""The share of the fastest rate that small batches need as waiting tasks."""


def measure_drains(database: Database, plan: Plan) -> Iterator[Result]:
    """Measure all cells in all conditions."""
    for finished in (0, *(many for many in sorted(plan.finished) if many <= database.largest)):
        database.empty()
        if finished:
            log_progress(f"{database.name}: filling {finished:,} finished rows")
            database.fill(finished, finished=True)
        for cell in plan.list_cells(finished):
            if database.shared or cell.processes == 1:
                yield _measure_cell(database, plan, finished, cell)


def _measure_cell(database: Database, plan: Plan, finished: int, cell: Cell) -> Result:
    condition = f"{finished:,} finished" if finished else EMPTY
    log_progress(f"{database.name}: {WHAT}, {condition}, batch {cell.batch:,}, processes {cell.processes}")
    windlass: list[float] = []
    bare: list[float] = []
    for _ in range(plan.get_rounds(cell)):
        windlass.append(_measure_rate(database, plan, finished, cell, lambda: make_cycle(database.store())))
        if database.shared:
            bare.append(_measure_rate(database, plan, finished, cell, lambda: database.bare().cycle))
    return Result(
        what=WHAT,
        condition=condition,
        batch=cell.batch,
        processes=cell.processes,
        windlass=max(windlass),
        bare=max(bare, default=None),
        aim=_get_aim(database, finished, cell),
    )


def _get_aim(database: Database, finished: int, cell: Cell) -> str:
    if cell != (AIMED_AT, 1) or not database.shared:
        return ""
    return "≥ 0.8 of bare, 0.8 to 1.2 of empty" if finished else "≥ 0.8 of bare"


def _measure_rate(database: Database, plan: Plan, finished: int, cell: Cell, make: Callable[[], Cycle]) -> float:
    """Return the sum of the rates of all processes. Tasks left over from a round do not matter."""
    if not finished:
        database.empty()
    database.fill(int(database.fastest * plan.seconds * ENOUGH.get(cell.batch, 1.0)) + 1_000, finished=False)

    def job(ready: Ready) -> DrainResult:
        cycle = make()
        warm_up(cycle)
        ready()
        return drain(cycle, cell.batch, seconds=plan.seconds)

    parts = run_together(cell.processes, job) if database.shared else [job(lambda: None)]
    return sum(part.rate for part in parts)
