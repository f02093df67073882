"""`make demo`: the engine at work on the embedded store. No workers yet: this file claims and settles by itself.

A small shop takes three orders, each a graph of five tasks. On the way one card is declined twice and then taken, one
order has a bug that no retry mends, and one node dies with a task in its hands.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from secrets import token_hex

from windlass.clock import monotonic
from windlass.core.lifecycle import FINAL, State
from windlass.core.retry import Error, Retry
from windlass.core.settlement import COMPLETED, Outcome, Raised, Returned, settle
from windlass.core.task import Claim, NewTask, OnFailure, SessionId, Task
from windlass.stores.protocol import Filter, LeaseLost, Store
from windlass.wiring import open_store

NODE_TTL = timedelta(seconds=1)
SOON = Retry(retries=2, base=timedelta(milliseconds=100))
MARKS = {
    State.COMPLETED: "✓",
    State.RETRYING: "↻",
    State.FAILED: "✗",
    State.CANCELLED: "⊘",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; 0 when everything ended as it should."""
    parser = argparse.ArgumentParser(prog="windlass.demo", description="The Windlass engine at work.")
    parser.add_argument("--store", metavar="URL", help="where the tasks live (default: a new SQLite file)")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="windlass-demo-") as folder:
        url: str = chosen.store or f"sqlite:///{Path(folder) / 'demo.db'}"
        print(f"store        {url.partition('@')[2] or url}")
        store = open_store(url)
        try:
            return Demo(store).run()
        finally:
            store.close()


class Demo:
    """One run: submit, drain, report."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._began = monotonic()
        run = token_hex(3)
        self._workflows = [f"{run}-order-{number}" for number in (1, 2, 3)]

    def run(self) -> int:
        self._submit()
        crashed = self._lose_a_node()
        self._drain()
        self._late_report(crashed)
        return self._report()

    def _submit(self) -> None:
        tasks = [task for number, workflow in enumerate(self._workflows, 1) for task in order(workflow, number)]
        self._store.submit(tasks)
        again = self._store.submit(tasks)
        self._say(f"submitted    {len(tasks)} tasks in {len(self._workflows)} workflows, whole or not at all")
        self._say(f"submitted    the same again: {sum(receipt.created for receipt in again)} new, every key was known")

    def _lose_a_node(self) -> Claim:
        """A node claims a task and is never heard of again."""
        session = self._store.open_session("node-1", ttl=NODE_TTL)
        [claim] = self._store.claim(session, ["shop"], limit=1)
        self._say(f"node-1       leased {name(claim.task)} with fence {claim.lease.fence}, and dies")
        return claim

    def _drain(self) -> None:
        """What a node will do for you: sweep, claim, run, settle, wait."""
        session = self._store.open_session("node-2")
        while self._unfinished():
            self._store.renew(session)
            swept = self._store.sweep()
            if swept.lost_sessions:
                self._say(f"sweep        node-1 is lost: {swept.requeued} task runnable again")
            if not self._work_on(session):
                self._store.wait_for_work(["shop"], timedelta(milliseconds=50))
        self._store.close_session(session)

    def _work_on(self, session: SessionId) -> bool:
        claims = self._store.claim(session, ["shop"], limit=10)
        reports = [(claim.lease, settle(claim.task, handle(claim.task), lambda: 0.5)) for claim in claims]
        self._store.settle(reports)
        for claim, (_, settlement) in zip(claims, reports, strict=True):
            why = f"  {settlement.error.message}" if settlement.error else ""
            self._say(f"{MARKS[settlement.state]} {settlement.state:<9}  {name(claim.task)}{why}")
        return bool(claims)

    def _late_report(self, crashed: Claim) -> None:
        [verdict] = self._store.settle([(crashed.lease, COMPLETED)])
        refused = "refused: its fence is stale" if isinstance(verdict, LeaseLost) else "ACCEPTED"
        self._say(f"node-1       wakes up and reports {name(crashed.task)}: {refused}")

    def _report(self) -> int:
        tasks = [task for workflow in self._workflows for task in self._tasks(workflow)]
        for task in tasks:
            if task.state in (State.FAILED, State.CANCELLED):
                self._say(f"{MARKS[task.state]} {task.state:<9}  {name(task)}  {task.reason}")
        counts = {state: sum(task.state is state for task in tasks) for state in FINAL}
        told = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()) if count)
        self._say(f"done         {told}; {len(tasks)} submitted, 0 lost")
        return 0 if counts[State.COMPLETED] == 13 and sum(counts.values()) == len(tasks) == 15 else 1

    def _unfinished(self) -> bool:
        return any(task.state not in FINAL for workflow in self._workflows for task in self._tasks(workflow))

    def _tasks(self, workflow: str) -> list[Task]:
        return self._store.find(Filter(workflow=workflow)).tasks[::-1]

    def _say(self, line: str) -> None:
        print(f"{monotonic() - self._began:6.2f} s  {line}", flush=True)


def order(workflow: str, number: int) -> list[NewTask]:
    """The five tasks of one order: charge, then pack and invoice, then ship, then tell the customer in any case."""

    def step(key: str, *after: str, on_failure: OnFailure = OnFailure.CANCEL) -> NewTask:
        return NewTask(
            handler=f"shop.{key}",
            args={"order": number},
            key=key,
            workflow=workflow,
            queue="shop",
            prerequisites=after,
            on_failure=on_failure,
            retry=SOON,
        )

    return [
        step("charge"),
        step("pack", "charge"),
        step("invoice", "charge"),
        step("ship", "pack", "invoice"),
        step("notify", "ship", on_failure=OnFailure.RUN),
    ]


def handle(task: Task) -> Outcome:
    """The shop's handlers. Two of them misbehave."""
    match task.handler, task.workflow, task.attempts:
        case "shop.charge", workflow, attempts if str(workflow).endswith("order-2") and attempts < 2:
            return Raised(Error(kind="CardDeclined", message="card declined, will try again"))
        case "shop.invoice", workflow, _ if str(workflow).endswith("order-3"):
            return Raised(Error(kind="ZeroDivisionError", message="division by zero: a bug"), give_up=True)
        case _:
            return Returned()


def name(task: Task) -> str:
    """A task as the demo calls it."""
    return f"{str(task.workflow).partition('-order-')[2]}/{task.key}"


if __name__ == "__main__":
    raise SystemExit(main())
