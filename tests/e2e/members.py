"""What the processes of these tests run. Nothing here imports pytest, so that processes start quickly."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

from msgspec import Struct

from tests.support.builders import a_task
from tests.support.processes import Controller, open_store
from windlass.core.lifecycle import State
from windlass.core.settlement import COMPLETED
from windlass.core.task import Claim, Lease, NewTask, SessionId, TaskId
from windlass.errors import SessionLost
from windlass.stores.protocol import Settled, Store, Verdict

NAP = timedelta(milliseconds=20)


class Log:
    """The leases and verdicts of one process, appended to its own file before it does anything else."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def granted(self, claims: Sequence[Claim]) -> None:
        self._write(f"granted {claim.lease.task} {claim.lease.fence}\n" for claim in claims)

    def settled(self, verdicts: Sequence[Verdict]) -> None:
        self._write(f"{_word(verdict)} {verdict.lease.task} {verdict.lease.fence}\n" for verdict in verdicts)

    def _write(self, lines: Any) -> None:
        os.write(self._file, "".join(lines).encode())


class Line(Struct, frozen=True):
    """One line of a log."""

    what: str
    task: TaskId
    fence: int


def read_log(path: Path) -> list[Line]:
    """Return the complete lines of a log. A killed process may have left half a line."""
    whole, _, _ = path.read_text().rpartition("\n") if path.exists() else ("", "", "")
    fields = (line.split() for line in whole.splitlines())
    return [Line(what, TaskId(UUID(task)), int(fence)) for what, task, fence in fields]


def drain(
    test: Controller, *, url: str, queue: str, log: str, sizes: list[int], seed: int, ttl: float, watch: bool = True
) -> None:
    """Claim and complete tasks, in batches of these sizes, until the test sends a message.

    With `watch` it also renews its session and sweeps, as every node does.
    """
    store, rng, notes = open_store(url), Random(seed), Log(log)
    test.send("ready")
    test.receive()
    session = store.open_session(f"node-{seed}", timedelta(seconds=ttl))
    while True:
        over = test.has_message
        try:
            claims = store.claim(session, [queue], rng.choice(sizes))
        except SessionLost:  # The machine was too busy to renew it in time, and another process swept it.
            session = store.open_session(f"node-{seed}", timedelta(seconds=ttl))
            continue
        notes.granted(claims)
        if claims:
            notes.settled(store.settle([(claim.lease, COMPLETED) for claim in claims]))
        elif over:
            break
        else:
            store.wait_for_work([queue], NAP)
        if watch:
            with suppress(SessionLost):
                store.renew(session)
            store.sweep()
    store.close_session(session)
    store.close()


def hold(test: Controller, *, url: str, queue: str, take: int, complete: int, ttl: float) -> Any:
    """Claim some tasks, complete the first of them, and hold the others until the test sends a message.

    Then settle them all. Return the verdicts, and whether the session is alive.
    """
    store = open_store(url)
    session = store.open_session("holder", timedelta(seconds=ttl))
    claims = store.claim(session, [queue], take)
    store.settle([(claim.lease, COMPLETED) for claim in claims[:complete]])
    test.send([lease_values(claim.lease) for claim in claims])
    test.receive()
    verdicts = store.settle([(claim.lease, COMPLETED) for claim in claims])
    try:
        store.renew(session)
        alive = True
    except SessionLost:
        alive = False
    store.close()
    return {"verdicts": [_word(verdict) for verdict in verdicts], "alive": alive}


def append_dependents(test: Controller, *, url: str, rounds: int, seed: int) -> dict[str, list[str]]:
    """Submit parents, and then dependents of them in several batches, while others complete the parents."""
    store, rng = open_store(url), Random(seed)
    parents: list[TaskId] = []
    children: dict[str, list[str]] = {state: [] for state in State}
    test.send("ready")
    test.receive()
    for turn in range(rounds):
        # The newest come first, so that the same parents are being completed right now.
        batch = [a_task(queue="parents", priority=turn) for _ in range(6)]
        parents += [receipt.id for receipt in store.submit(batch)]
        for _ in range(4):
            for receipt in store.submit([_after(rng.sample(parents[-9:], rng.randint(1, 4))) for _ in range(3)]):
                children[receipt.state].append(str(receipt.id))
    store.close()
    return children


def settle_in_order(test: Controller, *, url: str, queue: str, rounds: int, backwards: bool) -> None:
    """In each round, claim a whole queue, wait for the others, and complete it forward or backward."""
    store = open_store(url)
    session = store.open_session(queue, timedelta(minutes=5))
    for _ in range(rounds):
        test.receive()
        claims = _claim_whole(store, session, queue)
        test.send(len(claims))
        test.receive()
        claims = claims[::-1] if backwards else claims
        for start in range(0, len(claims), 3):
            store.settle([(claim.lease, COMPLETED) for claim in claims[start : start + 3]])
        test.send("settled")
    store.close()


def submit_the_same(test: Controller, *, url: str, rounds: int, size: int, seed: int) -> list[list[str]]:
    """In each round, submit the same keyed batch as the others in another order. Return the keys that were created."""
    store, rng = open_store(url), Random(seed)
    created: list[list[str]] = []
    for turn in range(rounds):
        batch = keyed_batch(turn, size)
        match seed:
            case 0:
                pass
            case 1:
                batch.reverse()
            case _:
                rng.shuffle(batch)
        test.send("ready")
        test.receive()
        receipts = store.submit(batch)
        created.append([new.key or "" for new, receipt in zip(batch, receipts, strict=True) if receipt.created])
    store.close()
    return created


def keyed_batch(turn: int, size: int) -> list[NewTask]:
    """Return tasks with keys; all of them depend on the first."""
    keys = [f"{turn}-{number}" for number in range(size)]
    return [a_task(key=key, prerequisites=keys[:1] if key != keys[0] else []) for key in keys]


def lease_values(lease: Lease) -> tuple[str, int, str]:
    """Return a lease as plain values."""
    return str(lease.task), lease.fence, str(lease.session)


def lease_from(task: str, fence: int, session: str) -> Lease:
    """Return the lease with these values."""
    return Lease(TaskId(UUID(task)), fence, SessionId(UUID(session)))


def _word(verdict: Verdict) -> str:
    return verdict.state.value if isinstance(verdict, Settled) else "refused"


def _after(parents: Sequence[TaskId]) -> NewTask:
    return a_task(queue="children", prerequisites=parents)


def _claim_whole(store: Store, session: SessionId, queue: str) -> list[Claim]:
    claims: list[Claim] = []
    while more := store.claim(session, [queue], 1_000):
        claims += more
    return claims
