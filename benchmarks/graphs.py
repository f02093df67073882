"""Measure graphs on a store: the steps of a chain, a cascade, a retry, a cancel and a wide fan-out.

    python -m benchmarks.graphs [--store sqlite] [--store postgres] [--tasks 10000]

It measures wall time, so run it on a quiet machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from benchmarks.databases import DATABASES, Database
from benchmarks.progress import log_progress
from benchmarks.table import format_columns
from tests.support.builders import GAVE_UP, a_session, a_task, claim_one, complete, report, sweep_until_quiet
from windlass.clock import monotonic
from windlass.core.lifecycle import State
from windlass.core.task import NewTask
from windlass.stores.protocol import Filter, Store

STEPS = 300


def make_chain(length: int, name: str) -> Iterable[NewTask]:
    """Return tasks that each wait for the previous one."""
    for step in range(length):
        before = [str(step - 1)] if step else []
        yield a_task(key=str(step), workflow=name, prerequisites=before)


def make_fan(width: int) -> Iterable[NewTask]:
    """Return one task and this many dependents."""
    yield a_task(key="root", workflow="fan")
    for child in range(width):
        yield a_task(key=str(child), workflow="fan", prerequisites=["root"])


def measure_steps(store: Store) -> float:
    """Run a chain. Return the seconds per step."""
    store.submit(list(make_chain(STEPS, "steps")))
    session = a_session(store)
    began = monotonic()
    for _ in range(STEPS):
        complete(store, claim_one(store, session))
    return (monotonic() - began) / STEPS


def measure_cascade(store: Store, tasks: int) -> dict[str, float]:
    """Fail the first task of a chain, retry the chain, and cancel it. Return the seconds of each step."""
    store.submit(list(make_chain(tasks, "cascade")))
    claim = claim_one(store)
    seconds: dict[str, float] = {}
    began = monotonic()
    report(store, claim, GAVE_UP)
    seconds["fail the root"] = monotonic() - began
    sweep_until_quiet(store)
    seconds["its cascade, to the end"] = monotonic() - began
    began = monotonic()
    store.retry([claim.id], dependents=True)
    seconds["retry from the root"] = monotonic() - began
    began = monotonic()
    store.cancel(Filter(workflow="cascade"), reason="benchmark")
    seconds["cancel by filter"] = monotonic() - began
    began = monotonic()
    store.retry(Filter(workflow="cascade"))
    seconds["retry by filter"] = monotonic() - began
    runnable = sum(count.tasks for count in store.counts() if count.state is State.RUNNABLE)
    if runnable != 1:
        raise AssertionError(f"After a retry, {runnable} tasks of a chain are runnable instead of one.")
    store.cancel(Filter(workflow="cascade"), reason="benchmark")
    return seconds


def measure_fan_out(store: Store, width: int) -> dict[str, float]:
    """Complete a task with many dependents. Return the seconds of the call, and until all are runnable."""
    store.submit(list(make_fan(width)))
    claim = claim_one(store)
    began = monotonic()
    complete(store, claim)
    back = monotonic() - began
    sweep_until_quiet(store)
    return {f"settle with {width:,} dependents": back, "until all of them are runnable": monotonic() - began}


def measure_store(database: Database, tasks: int) -> list[list[str]]:
    """Measure one store. Return the rows of its table."""
    database.empty()
    store = database.store()
    try:
        log_progress(f"{database.name}: a chain of {STEPS}")
        rows = [[database.name, f"a step of a chain of {STEPS}", f"{measure_steps(store) * 1000:.1f} ms"]]
        log_progress(f"{database.name}: a cascade of {tasks:,}")
        rows += [
            [database.name, f"{what} ({tasks:,})", f"{took:.2f} s"]
            for what, took in measure_cascade(store, tasks).items()
        ]
        log_progress(f"{database.name}: a fan-out of {2 * tasks:,}")
        times = measure_fan_out(store, 2 * tasks)
        rows += [[database.name, what, f"{seconds:.2f} s"] for what, seconds in times.items()]
    finally:
        store.close()
    return rows


def main() -> None:
    """Measure the chosen stores and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--store", action="append", choices=["sqlite", "postgres"], help="measure only this store; may be repeated"
    )
    parser.add_argument("--tasks", type=int, default=10_000, help="length of the chain of the cascade")
    wanted = parser.parse_args()
    rows: list[list[str]] = []
    for name in wanted.store or ["sqlite", "postgres"]:
        database = DATABASES[name]()
        try:
            rows += measure_store(database, wanted.tasks)
        finally:
            database.close()
    print(format_columns(("store", "what", "time"), rows, right=[2]))


if __name__ == "__main__":
    main()
