"""Measure what each index costs: the database's CPU time per task with and without it.

    python -m benchmarks.indexes [--store sqlite] [--store postgres] [--rounds 5]

It runs the bare statements (`bare.py`) in batches of 100. CPU time is less disturbed by a busy machine than wall time,
but differences below half a microsecond are noise. The row `all` has every index. `task_runnable` always stays, because
claims need it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import NamedTuple

from benchmarks.databases import DATABASES, Database, PostgresDatabase, SQLiteDatabase
from benchmarks.drain import drain, warm_up
from benchmarks.processes import Ready, run_alone
from benchmarks.progress import log_progress
from benchmarks.recorded import record_submit
from benchmarks.submits import make_tasks
from benchmarks.table import format_columns

TASKS = 20_000
BATCH = 100
STAYS = "task_runnable"
FIND = {
    "sqlite": "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL ORDER BY name",
    "postgres": "SELECT 'windlass.' || indexname, indexdef FROM pg_indexes WHERE schemaname = 'windlass' "
    "AND tablename IN ('task', 'body') AND indexname NOT LIKE '%_pkey' ORDER BY indexname",
}


class Cost(NamedTuple):
    """Microseconds of CPU time per task."""

    submit: float
    claim_and_settle: float


def measure_costs(database: Database, rounds: int) -> dict[str, Cost]:
    """Measure with all indexes, and with each of them missing. Return the best of some rounds."""
    database.empty()
    found = {name: definition for name, definition in database.execute(FIND[database.name]) if not name.endswith(STAYS)}
    best: dict[str, Cost] = {}
    for turn in range(rounds):
        for missing in ("", *found):
            log_progress(f"{database.name}: round {turn + 1}, {'all indexes' if not missing else 'without ' + missing}")
            cost = _measure_without(database, missing, found)
            before = best.get(missing, cost)
            best[missing] = Cost(*map(min, before, cost))
    return best


def _measure_without(database: Database, missing: str, found: dict[str, str]) -> Cost:
    database.empty()
    if missing:
        database.execute(f"DROP INDEX {missing}")
    cost = Cost(run_alone(lambda _: _measure_submit(database)), _measure_claim_and_settle(database))
    if missing:
        database.execute(found[missing])
    return cost


def _measure_submit(database: Database) -> float:
    bare = database.bare()
    ready = [bare.prepare(record_submit(make_tasks(BATCH, keyed=False))) for _ in range(TASKS // BATCH)]
    before = bare.cpu()
    for send in ready:
        send()
    return (bare.cpu() - before) / TASKS * 1e6


def _measure_claim_and_settle(database: Database) -> float:
    database.fill(TASKS + 1_000, finished=False)

    def job(_: Ready) -> float:
        bare = database.bare()
        warm_up(bare.cycle)
        before = bare.cpu()
        done = drain(bare.cycle, BATCH, tasks=TASKS)
        return (bare.cpu() - before) / done.tasks * 1e6

    return run_alone(job)


def format_costs(best: dict[str, Cost]) -> str:
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
            print(
                f"\n{name}, CPU time of the database per task\n{format_costs(measure_costs(database, rounds))}",
                flush=True,
            )
        finally:
            database.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.indexes", description="Measure what each index costs.")
    parser.add_argument("--store", choices=[name for name in DATABASES if name in FIND], action="append")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    main(asked.store or FIND, asked.rounds)
