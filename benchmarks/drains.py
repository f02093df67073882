"""Measure claim + settle for several batch sizes, processes and numbers of finished and waiting tasks."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.cost import Mark, combine
from benchmarks.databases import Database
from benchmarks.drain import drain, make_cycle, mark, warm_up
from benchmarks.plan import Cell, Plan
from benchmarks.processes import Ready, run_together
from benchmarks.progress import log_progress
from benchmarks.table import Result, choose_median

WHAT = "claim + settle"


def measure_drains(database: Database, plan: Plan) -> Iterator[Result]:
    """Measure all cells among more and more finished tasks, and among many waiting ones."""
    database.empty()
    filled = 0
    for finished in (0, *(many for many in sorted(plan.finished) if many <= database.largest)):
        if finished:
            log_progress(f"{database.name}: filling in {finished:,} finished tasks")
            database.fill(finished - filled, finished=True)
            filled = finished
        yield from _measure_cells(database, plan, f"{finished:,} finished")
    if plan.waiting:
        log_progress(f"{database.name}: filling in {plan.waiting:,} waiting tasks")
        database.fill(plan.waiting, finished=False)
        yield from _measure_cells(database, plan, f"{filled:,} finished, {plan.waiting:,} waiting")


def _measure_cells(database: Database, plan: Plan, condition: str) -> Iterator[Result]:
    for cell in plan.list_cells():
        if database.shared or cell.processes == 1:
            log_progress(f"{database.name}: {WHAT}, {condition}, batch {cell.batch:,}, processes {cell.processes}")
            yield Result(
                what=WHAT,
                condition=condition,
                batch=cell.batch,
                processes=cell.processes,
                cost=choose_median([combine(_drain(database, plan, cell)) for _ in range(plan.rounds)]),
            )


def _drain(database: Database, plan: Plan, cell: Cell) -> list[tuple[Mark, Mark]]:
    """Drain in several processes. Return both marks of each. Tasks that are left over do not matter."""
    share = plan.get_tasks(cell.batch) // cell.processes
    database.fill(cell.processes * (share + cell.batch + 100), finished=False)

    def job(ready: Ready) -> tuple[Mark, Mark]:
        cycle = make_cycle(database.store())
        warm_up(cycle)
        ready()
        before = mark(database.server_pid, 0)
        done = drain(cycle, cell.batch, share)
        return before, mark(database.server_pid, done)

    return run_together(cell.processes, job) if database.shared else [job(lambda: None)]
