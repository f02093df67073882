"""What each index costs: the database's own processor time per task with the index, and without it.

    python -m benchmarks.indexes [--store sqlite] [--store postgres] [--rounds 5]

The statements run bare (`bare.py`), in batches of 100. Processor time is less disturbed by a busy machine than the
clock; even so a difference below half a microsecond says nothing. `all` has every index; `task_runnable`, without
which no claim could be made, stays.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import NamedTuple

from benchmarks.drain import drain, warm_up
from benchmarks.homes import HOMES, Home, PostgresHome, SQLiteHome
from benchmarks.processes import Ready, alone
from benchmarks.progress import say
from benchmarks.recorded import recorded
from benchmarks.submits import new_tasks
from benchmarks.table import columns

TASKS = 20_000
BATCH = 100
STAYS = "task_runnable"
FIND = {
    "sqlite": "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL ORDER BY name",
    "postgres": "SELECT 'windlass.' || indexname, indexdef FROM pg_indexes WHERE schemaname = 'windlass' "
    "AND tablename IN ('task', 'body') AND indexname NOT LIKE '%_pkey' ORDER BY indexname",
}


class Cost(NamedTuple):
    """Microseconds of processor time a task."""

    submit: float
    claim_and_settle: float


def costs(home: Home, rounds: int) -> dict[str, Cost]:
    """The costs with all indexes, and with each of them missing in turn; the best of some rounds."""
    home.empty()
    found = {name: definition for name, definition in home.execute(FIND[home.name]) if not name.endswith(STAYS)}
    best: dict[str, Cost] = {}
    for turn in range(rounds):
        for missing in ("", *found):
            say(f"{home.name}: round {turn + 1}, {'all indexes' if not missing else 'without ' + missing}")
            cost = _without(home, missing, found)
            before = best.get(missing, cost)
            best[missing] = Cost(*map(min, before, cost))
    return best


def _without(home: Home, missing: str, found: dict[str, str]) -> Cost:
    home.empty()
    if missing:
        home.execute(f"DROP INDEX {missing}")
    cost = Cost(alone(lambda _: _submit(home)), _claim_and_settle(home))
    if missing:
        home.execute(found[missing])
    return cost


def _submit(home: Home) -> float:
    bare = home.bare()
    ready = [bare.prepared(recorded(new_tasks(BATCH, keyed=False))) for _ in range(TASKS // BATCH)]
    before = bare.cpu()
    for send in ready:
        send()
    return (bare.cpu() - before) / TASKS * 1e6


def _claim_and_settle(home: Home) -> float:
    home.fill(TASKS + 1_000, finished=False)

    def job(_: Ready) -> float:
        bare = home.bare()
        warm_up(bare.cycle)
        before = bare.cpu()
        done = drain(bare.cycle, BATCH, tasks=TASKS)
        return (bare.cpu() - before) / done.tasks * 1e6

    return alone(job)


def as_text(best: dict[str, Cost]) -> str:
    """Every index with what a task saves without it."""
    whole = best[""]
    lines = [
        (name or "all", *(f"{part:.1f}" for part in cost), *(f"{a - b:+.1f}" for a, b in zip(whole, cost, strict=True)))
        for name, cost in best.items()
    ]
    head = ("without", "submit µs", "claim + settle µs", "index costs a submit", "index costs a claim + settle")
    return columns(head, lines, right=range(1, 5))


def main(stores: Iterable[str], rounds: int) -> None:
    """Print a table for each store."""
    for name in stores:
        home: SQLiteHome | PostgresHome = SQLiteHome() if name == "sqlite" else PostgresHome()
        try:
            print(f"\n{name}, processor time of the database per task\n{as_text(costs(home, rounds))}", flush=True)
        finally:
            home.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.indexes", description="What each index costs")
    parser.add_argument("--store", choices=[name for name in HOMES if name in FIND], action="append")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    main(asked.store or FIND, asked.rounds)
