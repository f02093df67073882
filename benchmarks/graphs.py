"""What graphs cost, straight on a store: a chain's steps, a cascade, a retry, a cancel and a wide fan-out.

    python -m benchmarks.graphs [--store sqlite] [--store postgres] [--tasks 10000]

Seconds on the clock, so run it on a quiet machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from benchmarks.homes import HOMES, Home
from benchmarks.progress import say
from benchmarks.table import columns
from tests.support.builders import GAVE_UP, a_session, a_task, claim_one, complete, report, sweep_until_quiet
from windlass.clock import monotonic
from windlass.core.lifecycle import State
from windlass.core.task import NewTask
from windlass.stores.protocol import Filter, Store

STEPS = 300


def chain(length: int, name: str) -> Iterable[NewTask]:
    """Return tasks of which each waits for the one before it."""
    for step in range(length):
        before = [str(step - 1)] if step else []
        yield a_task(key=str(step), workflow=name, prerequisites=before)


def fan(width: int) -> Iterable[NewTask]:
    """Return one task and all those that wait for it."""
    yield a_task(key="root", workflow="fan")
    for child in range(width):
        yield a_task(key=str(child), workflow="fan", prerequisites=["root"])


def steps(store: Store) -> float:
    """Run a chain to its end; seconds a step."""
    store.submit(list(chain(STEPS, "steps")))
    session = a_session(store)
    began = monotonic()
    for _ in range(STEPS):
        complete(store, claim_one(store, session))
    return (monotonic() - began) / STEPS


def cascade(store: Store, tasks: int) -> dict[str, float]:
    """Fail the first task of a chain, bring all of it back by hand, and cancel it by hand; seconds each."""
    store.submit(list(chain(tasks, "cascade")))
    claim = claim_one(store)
    seconds: dict[str, float] = {}
    began = monotonic()
    report(store, claim, GAVE_UP)
    seconds["fail the root"] = monotonic() - began
    sweep_until_quiet(store)
    seconds["its cascade, to the end"] = monotonic() - began
    began = monotonic()
    store.retry([claim.task.id], dependents=True)
    seconds["retry from the root"] = monotonic() - began
    began = monotonic()
    store.cancel(Filter(workflow="cascade"), reason="benchmark")
    seconds["cancel by filter"] = monotonic() - began
    began = monotonic()
    store.retry(Filter(workflow="cascade"))
    seconds["retry by filter"] = monotonic() - began
    runnable = sum(count.tasks for count in store.counts() if count.state is State.RUNNABLE)
    if runnable != 1:
        raise AssertionError(f"{runnable} tasks of a chain are runnable after a retry; there must be one")
    store.cancel(Filter(workflow="cascade"), reason="benchmark")
    return seconds


def wide(store: Store, width: int) -> dict[str, float]:
    """Complete a task with many dependents; seconds until the call is back, and until all are told."""
    store.submit(list(fan(width)))
    claim = claim_one(store)
    began = monotonic()
    complete(store, claim)
    back = monotonic() - began
    sweep_until_quiet(store)
    return {f"settle with {width:,} dependents": back, "until all of them are runnable": monotonic() - began}


def measured(home: Home, tasks: int) -> list[list[str]]:
    """Measure one kind of store; the rows of its table."""
    home.empty()
    store = home.store()
    try:
        say(f"{home.name}: a chain of {STEPS}")
        rows = [[home.name, f"a step of a chain of {STEPS}", f"{steps(store) * 1000:.1f} ms"]]
        say(f"{home.name}: a cascade of {tasks:,}")
        rows += [[home.name, f"{what} ({tasks:,})", f"{took:.2f} s"] for what, took in cascade(store, tasks).items()]
        say(f"{home.name}: a fan-out of {2 * tasks:,}")
        rows += [[home.name, what, f"{took:.2f} s"] for what, took in wide(store, 2 * tasks).items()]
    finally:
        store.close()
    return rows


def main() -> None:
    """Measure what was asked for, and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", action="append", choices=["sqlite", "postgres"], help="repeat it for several")
    parser.add_argument("--tasks", type=int, default=10_000, help="how long the chain of the cascade is")
    wanted = parser.parse_args()
    rows: list[list[str]] = []
    for name in wanted.store or ["sqlite", "postgres"]:
        home = HOMES[name]()
        try:
            rows += measured(home, wanted.tasks)
        finally:
            home.close()
    print(columns(("store", "what", "time"), rows, right=[2]))


if __name__ == "__main__":
    main()
