from __future__ import annotations

import os
import signal
from collections import Counter
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.members import Line, drain, hold, lease_from, lease_values, read_log
from tests.support.builders import a_task, counted
from tests.support.processes import Member, ProcessGroup, until
from windlass.core.lifecycle import State
from windlass.core.settlement import COMPLETED
from windlass.core.task import TaskId
from windlass.stores.protocol import LeaseLost, Settled, Store

QUEUE = "work"
SIZES = [1, 3, 10, 50, 200]
LONG_TTL = 30.0
SHORT_TTL = 0.5

pytestmark = pytest.mark.slow


def submit_some(store: Store, total: int) -> list[TaskId]:
    """Submit this many tasks, in batches of mixed sizes."""
    ids: list[TaskId] = []
    for size in cycle([1, 7, 100, 1_000, 2_500]):
        ids += [receipt.id for receipt in store.submit([a_task(queue=QUEUE)] * min(size, total - len(ids)))]
        if len(ids) == total:
            return ids
    raise AssertionError("the sizes never end")


def start_claimers(group: ProcessGroup, folder: Path, url: str, count: int, **changes: Any) -> list[Member]:
    """Start claimers, each with its own log, that wait for a message."""
    given = {"url": url, "queue": QUEUE, "sizes": SIZES, "ttl": LONG_TTL, **changes}
    started = len(list(folder.glob("*.log")))
    claimers: list[Member] = []
    for seed in range(started, started + count):
        log = folder / f"{seed}.log"
        log.touch()
        claimers.append(group.start(drain, log=str(log), seed=seed, **given))
    for claimer in claimers:
        assert claimer.receive() == "ready"
    return claimers


def await_completed(store: Store, total: int) -> None:
    until(lambda: counted(store).get((QUEUE, "default", State.COMPLETED)) == total, f"{total} tasks are completed")


def stop(claimers: list[Member]) -> None:
    for claimer in claimers:
        claimer.send("nothing more to come")
    for claimer in claimers:
        assert claimer.receive() is None


def read_logs(folder: Path) -> list[Line]:
    return [line for log in folder.glob("*.log") for line in read_log(log)]


def test_eight_claimers_lease_and_complete_every_task_exactly_once(
    url: str, store: Store, group: ProcessGroup, tmp_path: Path
) -> None:
    total = 20_000
    claimers = start_claimers(group, tmp_path, url, 8, watch=False)
    ids = submit_some(store, total // 2)

    for claimer in claimers:
        claimer.send("go")
    ids += submit_some(store, total // 2)
    await_completed(store, total)
    stop(claimers)

    lines = read_logs(tmp_path)
    granted = Counter((line.task, line.fence) for line in lines if line.what == "granted")
    assert len(set(ids)) == total
    assert Counter(task for task, _ in granted.elements()) == Counter(ids)
    assert Counter((line.task, line.fence) for line in lines if line.what == "completed") == granted
    assert len(lines) == 2 * total
    assert {(task.state, task.attempts, task.losses) for task in store.get(ids) if task} == {(State.COMPLETED, 1, 0)}
    assert counted(store) == {(QUEUE, "default", State.COMPLETED): total}


def test_killed_claimers_lose_no_task_and_repeat_none(
    url: str, store: Store, group: ProcessGroup, tmp_path: Path
) -> None:
    total = 5_000
    ids = submit_some(store, total)
    victims = start_claimers(group, tmp_path, url, 3, ttl=SHORT_TTL)
    logs = [tmp_path / f"{number}.log" for number in range(len(victims))]

    for victim in victims:
        victim.send("go")
    for victim, log in zip(victims, logs, strict=True):
        until(lambda log=log: len(read_log(log)) > 200, "the claimer has completed something")
        victim.kill()
    survivors = start_claimers(group, tmp_path, url, 3)
    for survivor in survivors:
        survivor.send("go")
    await_completed(store, total)
    stop(survivors)

    lines = read_logs(tmp_path)
    granted = Counter((line.task, line.fence) for line in lines if line.what == "granted")
    completed = Counter(line.task for line in lines if line.what == "completed")
    stored = {task.id: task for task in store.get(ids) if task}
    assert max(granted.values()) == 1, "a fence was granted twice"
    assert max(completed.values()) == 1, "one task was completed twice"
    assert {task.state for task in stored.values()} == {State.COMPLETED}
    assert {line.fence - stored[line.task].fence for line in lines if line.what == "completed"} == {0}
    assert {task.attempts for task in stored.values()} == {1}
    leases = Counter(task for task, _ in granted)
    assert all(leases[id] <= stored[id].losses + 1 for id in ids), "a lease ended without a completion or a loss"
    assert counted(store) == {(QUEUE, "default", State.COMPLETED): total}


def test_tasks_of_a_killed_process_are_finished_by_others_and_its_late_results_are_refused(
    url: str, store: Store, group: ProcessGroup, tmp_path: Path
) -> None:
    total, taken, done = 1_000, 300, 100
    ids = submit_some(store, total)
    holder = group.start(hold, url=url, queue=QUEUE, take=taken, complete=done, ttl=SHORT_TTL)
    leases = [lease_from(*values) for values in holder.receive()]

    holder.kill()
    survivors = start_claimers(group, tmp_path, url, 2)
    for survivor in survivors:
        survivor.send("go")
    await_completed(store, total)
    late = store.settle([(lease, COMPLETED) for lease in leases])
    stop(survivors)

    assert [type(verdict) for verdict in late] == [Settled] * done + [LeaseLost] * (taken - done)
    stored = {task.id: task for task in store.get(ids) if task}
    assert Counter(task.losses for task in stored.values()) == {0: total - taken + done, 1: taken - done}
    for lease in leases[done:]:
        assert stored[lease.task].fence > lease.fence
        assert [attempt.state for attempt in store.attempts(lease.task)] == [State.RUNNABLE, State.COMPLETED]
    assert counted(store) == {(QUEUE, "default", State.COMPLETED): total}


def test_results_after_the_end_of_a_session_are_refused_and_change_nothing(
    url: str, store: Store, group: ProcessGroup
) -> None:
    taken, done = 20, 5
    ids = submit_some(store, taken)
    sleeper = group.start(hold, url=url, queue=QUEUE, take=taken, complete=done, ttl=SHORT_TTL)
    leases = [lease_from(*values) for values in sleeper.receive()]
    os.kill(sleeper.pid, signal.SIGSTOP)
    requeued = 0

    def is_requeued() -> bool:
        nonlocal requeued
        requeued += store.sweep().requeued
        return requeued == taken - done

    until(is_requeued, "the leases of the sleeper are requeued")
    session = store.open_session("other")
    again = store.claim(session, [QUEUE], taken)
    os.kill(sleeper.pid, signal.SIGCONT)
    sleeper.send("wake up and report")

    assert sleeper.receive() == {"verdicts": ["completed"] * done + ["refused"] * (taken - done), "alive": False}
    assert {claim.id for claim in again} == {lease.task for lease in leases[done:]}
    assert [lease_values(claim.lease) for claim in again] != [lease_values(lease) for lease in leases[done:]]
    assert all(isinstance(v, Settled) for v in store.settle([(claim.lease, COMPLETED) for claim in again]))
    assert {task.state for task in store.get(ids) if task} == {State.COMPLETED}
