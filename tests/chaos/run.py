"""One chaos run: start everything, break things, let it recover, and judge what happened."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import msgspec
from msgspec import Struct

import tests.chaos.faults  # noqa: F401 - registers them
from tests.chaos import journal
from tests.chaos.cluster import Cluster
from tests.chaos.faults.clients import STORM, STORM_FAULT
from tests.chaos.history import History
from tests.chaos.nemesis import Nemesis
from tests.chaos.workload import list_clients
from tests.checker.records import AnyRecord, AttemptRow, Bounds, Recording, SessionRow, TaskRow, write
from tests.checker.report import Report, check
from windlass.core.lifecycle import State
from windlass.core.task import Task
from windlass.operations.access import Access
from windlass.operations.tasks import each
from windlass.stores.protocol import Filter, Store
from windlass.wiring import open_admin

RECOVERY_SECONDS = 90.0
"""After the faults, how long nothing may happen before what has not ended counts as stuck."""
BOUNDS = {"recovery": 6.0, "transaction": 10.0, "notice": 15.0, "clock": 0.1, "call": 90.0}
"""Wider than the promises, because a machine with few cores starts nodes and databases during the measurements."""
MAX_CALLS_PER_STORM = STORM
"""How often a service that is down may be called. About ten failures on each of three nodes open the breaker; if nodes
waited for the next exchange with the store, each task of a storm would call it twice, and without a breaker four times
and more."""


class Verdict(Struct, kw_only=True):
    """What a run showed."""

    report: Report
    faults: Counter[str]
    changes: int
    """How many changes of the states of tasks the database has recorded."""
    states: Counter[str]
    left_out: dict[str, str]
    """Faults that this machine does not allow, and why."""
    calls_while_down: int
    """How often handlers called the service while it was down."""
    problems: list[str]
    """What is wrong and no rule of the checker: wrong results, damaged tables, processes left behind, a storm."""

    @property
    def is_clean(self) -> bool:
        """Whether no promise was broken."""
        return not self.report.findings and not self.problems and not self.report.lost

    def __str__(self) -> str:
        lines = [
            "faults: " + ", ".join(f"{name} ×{number}" for name, number in sorted(self.faults.items())),
            *(f"left out: {name}: {why}" for name, why in self.left_out.items()),
            "states: " + ", ".join(f"{name} {number:,}" for name, number in sorted(self.states.items())),
            f"changes of states that were checked: {self.changes:,}",
            f"calls of the service while it was down: {self.calls_while_down}",
            str(self.report),
            *self.problems,
        ]
        return "\n".join(lines)


def run(
    folder: Path, *, kind: str, seed: int, seconds: float, rate: float, ttl: float, dags: Path | None = None
) -> Verdict:
    """Run for some seconds with faults, then without until every task has ended, and return the verdict."""
    history = History()
    with Cluster(folder, kind, ttl) as cluster:
        nemesis = Nemesis(cluster, history, Random(f"{seed} nemesis"))
        stop = threading.Event()
        clients = [
            threading.Thread(target=client, args=(stop,))
            for client in list_clients(history, seed, cluster.http.address, cluster.tokens, dags, rate)
        ]
        for client in clients:
            client.start()
        try:
            nemesis.run(seconds)
        finally:
            stop.set()
            cluster.heal()
            for client in clients:
                client.join(RECOVERY_SECONDS)
        await_end(cluster.observer, history)
        cluster.stop_nodes()
        # A cron may have fired just before the nodes ended.
        found = each(Access(cluster.observer), Filter(), page_size=1_000)
        tasks = [task for task in found if task.state.final or task.id in history.planned]
        rows = list(read_store(cluster.observer, history, tasks))
        changes = replay_changes(cluster.direct_url, tasks, rows)
        records = [*history.records, *nemesis.faults, *rows, *changes.transitions]
        records.append(Bounds(session_ttl=ttl, **BOUNDS))
        problems = [*changes.problems, *check_database(cluster.direct_url)]
        problems += [f"left behind: {stray}" for stray in cluster.find_strays()]
    files = [folder / "history.jsonl", cluster.effects]
    write(files[0], records)
    storms, calls = nemesis.counts[STORM_FAULT], cluster.service.calls_while_down
    problems += find_wrong_results(history, tasks)
    if calls > storms * MAX_CALLS_PER_STORM:
        problems.append(f"the service was called {calls} times while it was down; its breaker did not open")
    return Verdict(
        report=check(Recording.read(path for path in files if path.exists())),
        faults=nemesis.counts,
        changes=len(changes.transitions),
        states=Counter(task.state.value for task in tasks),
        left_out=nemesis.list_impossible(),
        calls_while_down=calls,
        problems=problems,
    )


def await_end(store: Store, history: History) -> None:
    """Wait until all planned tasks have ended, or none has for long."""
    access, open_before, give_up_at = Access(store), -1, 0.0
    while True:
        tasks = each(access, Filter(), page_size=1_000)
        still_open = sum(not task.state.final for task in tasks if task.id in history.planned)
        if still_open != open_before:
            open_before, give_up_at = still_open, time.monotonic() + RECOVERY_SECONDS
        if not still_open or time.monotonic() > give_up_at:
            return
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
            prerequisites=tuple(map(str, history.graphs.get(task.id, ()))),
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


def replay_changes(url: str, tasks: Iterable[Task], rows: Iterable[AnyRecord]) -> journal.Replay:
    """Return what the triggers of the database have recorded of its tasks."""
    ended = {(row.task, row.fence): row.ended for row in rows if isinstance(row, AttemptRow)}
    replay = journal.Replay({str(task.id): task.rules.retry for task in tasks}, ended)
    replay.add_all(journal.read(url))
    return replay


def check_database(url: str) -> Iterator[str]:
    """Yield what `windlass db check` finds, which counts and compares all tables."""
    with closing(open_admin(url)) as admin:
        yield from (f"{one.check}: {one.text} ({one.count}): {', '.join(one.examples)}" for one in admin.check())


def find_wrong_results(history: History, tasks: Iterable[Task]) -> Iterator[str]:
    """Yield a sentence for each completed task with a result that its graph does not give."""
    expected = history.expected_results()
    for task in tasks:
        if task.state is State.COMPLETED and task.id in expected:
            result = msgspec.json.decode(task.result or "null")
            if result != expected[task.id]:
                yield f"task {task.id} returned {result}, expected {expected[task.id]}"
