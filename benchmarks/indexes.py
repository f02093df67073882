"""Measure what each index costs: CPU time per task with and without it.

    python -m benchmarks.indexes [--store sqlite] [--store postgres] [--rounds 5]

It submits, claims and settles in batches of 100, in one process. On PostgreSQL the numbers are the CPU time of the
server; on SQLite they include the store's Python code, which is the same with and without an index. Differences below
half a microsecond are noise. The row `all` has every index. Indexes that a claim needs always stay.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import NamedTuple

from benchmarks.cost import Cost, subtract
from benchmarks.databases import DATABASES, Database, PostgresDatabase, SQLiteDatabase
from benchmarks.drain import drain, make_cycle, mark, warm_up
from benchmarks.processes import Ready, run_alone
from benchmarks.progress import log_progress
from benchmarks.submits import measure_submit, submit_all
from benchmarks.table import format_columns

TASKS = 20_000
BATCH = 100
STAYS = "task_runnable"
HOT = "('task', 'body', 'runnable', 'leased', 'completed')"
FIND = {
    "sqlite": f"SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL AND tbl_name IN {HOT}",
    "postgres": "SELECT 'windlass.' || indexname, indexdef FROM pg_indexes WHERE schemaname = 'windlass' "
    f"AND tablename IN {HOT} AND indexname NOT LIKE '%_pkey' ORDER BY indexname",
}


class IndexCost(NamedTuple):
    """Microseconds of CPU time per task."""

    submit: float
    claim_and_settle: float


def measure_costs(database: Database, rounds: int) -> dict[str, IndexCost]:
    """Measure with all indexes, and with each of them missing. Return the best of some rounds."""
    database.empty()
    found = {name: definition for name, definition in database.execute(FIND[database.name]) if not name.endswith(STAYS)}
    best: dict[str, IndexCost] = {}
    for turn in range(rounds):
        for missing in ("", *found):
            log_progress(f"{database.name}: round {turn + 1}, {'all indexes' if not missing else 'without ' + missing}")
            cost = _measure_without(database, missing, found)
            before = best.get(missing, cost)
            best[missing] = IndexCost(*map(min, before, cost))
    return best


def _measure_without(database: Database, missing: str, found: dict[str, str]) -> IndexCost:
    database.empty()
    if missing:
        database.execute(f"DROP INDEX {missing}")
    cost = IndexCost(_measure_submit(database), _measure_claim_and_settle(database))
    if missing:
        database.execute(found[missing])
    return cost


def _measure_submit(database: Database) -> float:
    return _get_microseconds(measure_submit(database, TASKS, lambda store: submit_all(store, TASKS, BATCH)))


def _measure_claim_and_settle(database: Database) -> float:
    database.fill(TASKS + 1_000, finished=False)

    def job(_: Ready) -> Cost:
        cycle = make_cycle(database.store())
        warm_up(cycle)
        before = mark(database.server_pid, 0)
        return subtract(mark(database.server_pid, drain(cycle, BATCH, TASKS)), before)

    return _get_microseconds(run_alone(job))


def _get_microseconds(cost: Cost) -> float:
    used = cost.microseconds
    return used.total if used.server is None else used.server


def format_costs(best: dict[str, IndexCost]) -> str:
    """Return a table of the indexes and what each costs per task."""
    whole = best[""]
    lines = [
        (name or "all", *(f"{part:.1f}" for part in cost), *(f"{a - b:+.1f}" for a, b in zip(whole, cost, strict=True)))
        for name, cost in best.items()
    ]
    head = ("without", "submit µs", "claim + settle µs", "index cost per submit", "index cost per claim + settle")
    return format_columns(head, lines, right=range(1, 5))


def main(stores: Iterable[str], rounds: int) -> None:
    """Print a table for each store."""
    for name in stores:
        database: SQLiteDatabase | PostgresDatabase = SQLiteDatabase() if name == "sqlite" else PostgresDatabase()
        try:
            print(f"\n{name}, CPU time per task\n{format_costs(measure_costs(database, rounds))}", flush=True)
        finally:
            database.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.indexes", description="Measure what each index costs.")
    parser.add_argument("--store", choices=[name for name in DATABASES if name in FIND], action="append")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    main(asked.store or FIND, asked.rounds)
