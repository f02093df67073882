"""A real socket hub and dispatcher whose workers are played by the test, over real sockets and pipes.

Only the worker parent is faked: it keeps the descriptors of each fork, so that the test writes what a worker would.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.values import a_stored_task, an_id
from windlass.clock import ManualClock
from windlass.config import NodeSettings, PoolSettings
from windlass.core.manifest import Manifest
from windlass.core.settlement import Outcome, Returned, Settlement, settle
from windlass.core.task import Claim, Lease, SessionId, claim_of
from windlass.events import Event, Events
from windlass.stores.memory import MemoryStore
from windlass.worker import socket_hub as module
from windlass.worker.breakers import Breakers
from windlass.worker.connection import Connection
from windlass.worker.dispatcher import Dispatcher
from windlass.worker.handler_calls import HandlerCalls
from windlass.worker.socket_hub import SocketHub
from windlass.worker.wire import (
    Frames,
    FromParent,
    Hello,
    Message,
    ParentReady,
    ToWorker,
    WorkerExited,
    WorkerFiles,
    WorkerStarted,
    encode_frame,
)

SESSION = SessionId(an_id(999))


class FakeParent:
    """Stands in for the worker parent."""

    latest: FakeParent

    def __init__(self, *_given: object) -> None:
        mine, self.socket = socket.socketpair()
        self.connection: Connection[FromParent] = Connection(mine, FromParent, ManualClock())
        self.forked: dict[int, WorkerFiles] = {}
        self.killed: list[int] = []
        FakeParent.latest = self

    def fork(self, worker: int, _threads: int, files: WorkerFiles, *, shares_loop: bool) -> None:
        self.forked[worker] = files

    def kill(self, worker: int) -> None:
        self.killed.append(worker)

    def end_stray(self, _pid: int) -> None: ...

    def wake(self) -> None: ...

    def close(self) -> int:
        self.connection.close()
        return 0

    def send(self, message: Message) -> None:
        self.socket.sendall(encode_frame(message))


class FakeWorker:
    """The worker's ends of the sockets and pipes of one fork."""

    def __init__(self, number: int, files: WorkerFiles) -> None:
        self.number = number
        self.control = socket.socket(fileno=files.control)
        self.files = files
        self._frames: Frames[ToWorker] = Frames(ToWorker)

    def send(self, message: Message) -> None:
        self.control.sendall(encode_frame(message))

    def write(self, data: bytes) -> int:
        """Write bytes as far as the node takes them. Return how many it took."""
        self.control.setblocking(False)
        sent = 0
        with suppress(BlockingIOError, BrokenPipeError):
            while sent < len(data):
                sent += self.control.send(data[sent:])
        return sent

    def read(self) -> list[ToWorker]:
        """Return the messages that have arrived."""
        self.control.setblocking(False)
        found: list[ToWorker] = []
        with suppress(BlockingIOError):
            while data := self.control.recv(1 << 18):
                found += self._frames.feed(data)
        return found

    def close(self) -> None:
        self.control.close()
        for descriptor in (self.files.tasks, self.files.tickets, self.files.ends):
            with suppress(OSError):
                os.close(descriptor)


class HubNode:
    """A hub with one pool, and what its node does with the outcomes. Time is moved by the test."""

    def __init__(self, workers: int = 1) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore()
        self.outcomes: dict[int, Outcome] = {}
        self.logs: dict[int, str | None] = {}
        self.emitted: list[Event] = []
        events = Events(self.emitted.append)
        pool = PoolSettings(size=workers)
        self.hub = SocketHub(NodeSettings(app="shop:app", pools=(pool,)), "memory:", self, events, self.clock)
        self.calls = HandlerCalls(self.store, self.hub.answer, events, self.clock, self.hub.count_unread)
        self.hub.on_read = self.calls.resume
        breakers = Breakers(self.store, events, "node")
        self.dispatcher = self.hub.dispatcher = Dispatcher([pool], self.hub, self, breakers, self, self.calls, events)
        [self.pool] = self.dispatcher.pools.values()
        self.workers: list[FakeWorker] = []
        self._numbers = iter(range(1, 1_000_000))
        self.step()
        FakeParent.latest.send(ParentReady(Manifest(handlers=(), crons=()), 0.0))
        self.step()
        self.start_workers()

    @property
    def parent(self) -> FakeParent:
        return FakeParent.latest

    def start_workers(self) -> None:
        """Start what the dispatcher has asked for."""
        self.step()
        known = {worker.number for worker in self.workers}
        for number, files in self.parent.forked.items():
            if number not in known:
                worker = FakeWorker(number, files)
                self.workers.append(worker)
                self.parent.send(WorkerStarted(number, 1 << 22))
                worker.send(Hello())
        self.step()

    def step(self, seconds: float = 0.3) -> None:
        """Let the hub do what is due after this time."""
        self.clock.advance(timedelta(seconds=seconds))
        self.hub.wake()
        self.hub.step()

    def give(self, *numbers: int, **task: Any) -> None:
        """Assign tasks with these numbers."""
        stored = [a_stored_task(id=an_id(number), **task) for number in numbers]
        claims = [claim_of(each, Lease(each.id, 1, SESSION)) for each in stored]
        with self.hub.lock:
            now = self.clock.monotonic()
            self.dispatcher.assign(self.pool, claims, now, now)

    def take_ticket(self, worker: FakeWorker) -> int:
        """Let a worker start its next attempt. Return its ticket."""
        return int.from_bytes(os.read(worker.files.tickets, 8), "little")

    def exit(self, worker: FakeWorker, code: int = -9) -> None:
        """End the process of a worker, as the worker parent reports it."""
        worker.close()
        del self.parent.forked[worker.number]
        self.parent.send(WorkerExited(worker.number, code))
        self.step()

    def reap(self) -> None:
        """End the workers that the node has killed."""
        for worker in self.workers[:]:
            if worker.number in self.parent.killed:
                self.workers.remove(worker)
                self.exit(worker)

    def close(self) -> None:
        self.calls.close()
        self.hub.close()
        for worker in self.workers:
            worker.close()
        self.parent.socket.close()

    # What the dispatcher and the hub call

    def ready(self, manifest: Manifest) -> None: ...

    def tick(self, now: float) -> None:
        self.calls.tick(now)

    def valid_until(self, session: SessionId) -> float:
        return float("inf")

    def put(self, pool: str, claim: Claim, outcome: Outcome, seconds: float, log: str | None) -> Settlement:
        assert claim.id.int not in self.outcomes, "settled twice"
        self.outcomes[claim.id.int], self.logs[claim.id.int] = outcome, log
        return settle(claim, outcome, lambda: 0.5)

    def put_completed(self, pool: str, ended: Sequence[tuple[Claim, float]]) -> None:
        for claim, seconds in ended:
            self.put(pool, claim, Returned(), seconds, None)


@contextmanager
def hub_node(monkeypatch: pytest.MonkeyPatch, workers: int = 1) -> Iterator[HubNode]:
    """Return a hub with workers that the test plays."""
    monkeypatch.setattr(module, "ParentClient", FakeParent)
    node = HubNode(workers)
    try:
        yield node
    finally:
        node.close()
