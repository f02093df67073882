"""One chaos run: start everything, break things, let it recover, and judge what happened."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import msgspec
from msgspec import Struct

from tests.chaos.cluster import Cluster
from tests.chaos.nemesis import Nemesis
from tests.chaos.workload import History, cancel, expected_result, produce
from tests.checker.records import AnyRecord, AttemptRow, Bounds, Recording, SessionRow, TaskRow, write
from tests.checker.report import Report, check
from windlass.core.lifecycle import State
from windlass.core.task import Task
from windlass.stores.protocol import Store

PRODUCERS = 2
RECOVERY_SECONDS = 120.0
BOUNDS = {"recovery": 6.0, "notice": 15.0, "clock": 0.1, "call": 90.0}
"""Wider than the promises, because a machine with few cores starts nodes and databases during the measurements."""


class Verdict(Struct, kw_only=True):
    """What a run showed."""

    report: Report
    faults: Counter[str]
    states: Counter[str]
    wrong_results: list[str]
    """Completed tasks whose result is not what their graph gives."""

    @property
    def is_clean(self) -> bool:
        """Whether no promise was broken."""
        return not self.report.findings and not self.wrong_results and not self.report.lost

    def __str__(self) -> str:
        lines = [
            "faults: " + ", ".join(f"{name} ×{number}" for name, number in sorted(self.faults.items())),
            "states: " + ", ".join(f"{name} {number:,}" for name, number in sorted(self.states.items())),
            str(self.report),
            *self.wrong_results,
        ]
        return "\n".join(lines)


def run(folder: Path, *, kind: str, seed: int, seconds: float, rate: float, ttl: float) -> Verdict:
    """Run for some seconds with faults, then without until every task has ended, and return the verdict."""
    history = History()
    with Cluster(folder, kind, ttl) as cluster:
        nemesis = Nemesis(cluster, Random(f"{seed} nemesis"))
        stop = threading.Event()
        clients = [
            threading.Thread(target=produce, args=(history, f"p{n}", Random(f"{seed} {n}"), stop, rate / PRODUCERS))
            for n in range(PRODUCERS)
        ]
        clients.append(threading.Thread(target=cancel, args=(history, Random(f"{seed} cancel"), stop)))
        for client in clients:
            client.start()
        try:
            nemesis.run(seconds)
        finally:
            stop.set()
            cluster.heal()
            for client in clients:
                client.join(RECOVERY_SECONDS)
        tasks = await_end(cluster.observer, history)
        records = [*history.records, *nemesis.faults, *read_store(cluster.observer, history, tasks)]
        records.append(Bounds(session_ttl=ttl, **BOUNDS))
    files = [folder / "history.jsonl", cluster.effects]
    write(files[0], records)
    return Verdict(
        report=check(Recording.read(path for path in files if path.exists())),
        faults=nemesis.counts,
        states=Counter(task.state.value for task in tasks),
        wrong_results=list(find_wrong_results(history, tasks)),
    )


def await_end(store: Store, history: History) -> list[Task]:
    """Wait until all planned tasks have ended, or the time is up, and return them. One that is missing is left out."""
    give_up_at = time.monotonic() + RECOVERY_SECONDS
    ids = list(history.planned)
    while True:
        tasks = [task for part in chunks(ids) for task in store.get(part) if task is not None]
        if all(task.state.final for task in tasks) or time.monotonic() > give_up_at:
            return tasks
        time.sleep(0.5)


def read_store(store: Store, history: History, tasks: Iterable[Task]) -> Iterator[AnyRecord]:
    """Yield what the store has, as the checker reads it."""

    def moment(at: int | None) -> float | None:
        return None if at is None else at / 1e6

    for task in tasks:
        yield TaskRow(
            id=str(task.id),
            tenant=task.tenant,
            queue=task.queue,
            handler=task.handler,
            state=task.state.value,
            submitted=task.submitted / 1e6,
            finished=moment(task.finished),
            expires=moment(task.expires),
            key=task.key,
            prerequisites=tuple(map(str, history.graphs[task.id])),
            on_failure=task.on_failure.value,
            waiting=task.waiting,
            fence=task.fence,
            session="" if task.session is None else str(task.session),
            attempts=task.attempts,
            crashes=task.crashes,
            losses=task.losses,
            generation=task.generation,
            max_attempts=task.rules.retry.retries + 1,
            max_crashes=task.rules.max_crashes,
            reason=task.reason or "",
        )
        for one in store.attempts(task.id):
            yield AttemptRow(
                task=str(task.id),
                fence=one.fence,
                session=str(one.session),
                started=one.started / 1e6,
                ended=one.ended / 1e6,
                state=one.state.value,
                error="" if one.error is None else one.error.kind,
            )
    for session in store.sessions():
        yield SessionRow(id=str(session.id), node=session.node)


def find_wrong_results(history: History, tasks: Iterable[Task]) -> Iterator[str]:
    """Yield a sentence for each completed task with a result that its graph does not give."""
    for task in tasks:
        if task.state is State.COMPLETED:
            result = msgspec.json.decode(task.result or "null")
            if result != expected_result(history, task.id):
                yield f"task {task.id} returned {result}, expected {expected_result(history, task.id)}"


def chunks(ids: list[object], size: int = 1_000) -> Iterator[list[object]]:
    """Yield the ids in parts."""
    for start in range(0, len(ids), size):
        yield ids[start : start + size]
