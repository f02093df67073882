"""The thread that speaks with the nursery and the workers, and lets time pass for the crew.

It owns every socket. What it hears it tells the crew, under the lock; the crew decides, and speaks through `Outlet`.
"""

from __future__ import annotations

import os
import resource
import selectors
import signal
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Protocol, cast

from windlass.clock import monotonic, sleep
from windlass.config import NodeSettings
from windlass.core.manifest import Manifest
from windlass.core.settlement import Outcome
from windlass.core.task import Claim, Lease, SessionId
from windlass.events import Events, WorkerParentFailed
from windlass.worker.connection import Connection
from windlass.worker.dispatcher import Dispatcher
from windlass.worker.parent_client import Imports, ParentClient, hidden_message, own_environment
from windlass.worker.tickets import TicketQueue
from windlass.worker.wire import (
    Answer,
    Call,
    FromParent,
    FromWorker,
    ParentFailed,
    ParentReady,
    Strays,
    ToWorker,
    WorkerExited,
    WorkerNotStarted,
    WorkerStarted,
)
from windlass.worker.worker import Worker

TICK_SECONDS, RESTING_TICK_SECONDS = 0.05, 0.25
"""How often time passes for the crew: while it has something to do, and while it has nothing."""
MAX_WAIT_SECONDS = 0.002
STALL_SECONDS = 30.0
"""How long half a message may wait for its other half. A thread that sends it may wait for another one to let go of the
interpreter."""
_LONGEST_BACK_OFF = 30.0
_FILES_PER_WORKER = 5
"""A socket and both ends of a pipe; a second socket and an end of the pipe while they are on their way to it."""
_OTHER_FILES = 256
_BOTH = selectors.EVENT_READ | selectors.EVENT_WRITE


class NodeServices(Protocol):
    """What the hub hands on to those who speak with the store. None of it blocks."""

    def valid_until(self, session: SessionId) -> float: ...
    def settle(self, claim: Claim, outcome: Outcome, *, seconds: float, log: str | None) -> None: ...
    def progress(self, lease: Lease, share: float | None, message: str | None) -> None: ...
    def call(self, worker: Worker, lease: Lease | None, call: Call) -> None: ...
    def ready(self, manifest: Manifest) -> None: ...
    def tick(self, now: float) -> None: ...


class SocketHub:
    """The sockets of a node."""

    def __init__(self, settings: NodeSettings, store_url: str, office: NodeServices, events: Events) -> None:
        self.lock = threading.RLock()
        self.dispatcher = Dispatcher(settings.pools, self, events)
        self.freed = threading.Condition(self.lock)
        """Told when a worker may have room for more."""
        self.broken: str | None = None
        """Why the app could not be imported, when the latest try failed."""
        self._app = settings.app
        self._imports = Imports(settings.app, settings.path, settings.imports)
        self._environment = own_environment(store_url, pass_store_url=settings.pass_store_url)
        self._services = office
        self._events = events
        self._selector = selectors.DefaultSelector()
        self._wake_end, self._wake_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._wake_end, selectors.EVENT_READ)
        self._lines: dict[int, Connection[FromWorker]] = {}
        self._queues: dict[int, TicketQueue] = {}
        self._blocked: set[int] = set()
        self._parent: ParentClient | None = None
        self._warm_at = 0.0
        self._cold_starts = 0
        self._next_tick = 0.0
        self._resting = False
        self._fed = False
        self._oom_kills = _oom_kills()
        _make_room(_FILES_PER_WORKER * sum(pool.most for pool in settings.pools))

    def step(self) -> None:
        """Hear what there is to hear, and let time pass."""
        if self._fed:  # Everyone has more to do: what is said in a moment is heard together, which costs far less.
            sleep(MAX_WAIT_SECONDS)
        for key, _ in self._selector.select(max(0.0, self._next_tick - monotonic())):
            with self.lock:
                self._ready(cast("int | Worker | ParentClient", key.data or key.fd))
                self.freed.notify_all()
        with self.lock:
            self._flush_blocked()
            self._fed = self.dispatcher.all_have_backlog()
        now = monotonic()
        if now >= self._next_tick:
            with self.lock:
                self._resting = self.dispatcher.is_idle
                self._next_tick = now + (RESTING_TICK_SECONDS if self._resting else TICK_SECONDS)
                self._ensure_parent(now)
                self._services.tick(now)
                self._drop_stalled(now)
                self.dispatcher.tick(now)
                self.freed.notify_all()

    def wake(self) -> None:
        """Make `step` look up, and let time pass at once."""
        self._next_tick = 0.0
        with suppress(OSError):  # It is full, so `step` will look up; or closed, so there is none any more.
            os.write(self._wake_fd, b"!")

    def resume_ticks(self) -> None:
        """The crew has something to do: let time pass for it often again."""
        if self._resting:
            self._resting = False
            self.wake()

    def close(self) -> None:
        """End the nursery, and with it every worker."""
        with self.lock:
            if self._parent is not None:
                self._parent.close()
            for line in self._lines.values():
                line.close()
            for queue in self._queues.values():
                queue.close()
            self._queues.clear()
            self._selector.close()
            os.close(self._wake_end)
            os.close(self._wake_fd)
            self._wake_fd = -1

    # The crew's outlet

    def send(self, worker: Worker, message: ToWorker) -> None:
        line = self._lines.get(worker.number)
        if line is not None and line.send(message):
            self._blocked.add(worker.number)
            self.wake()

    def fork(self, worker: Worker) -> None:
        assert self._parent is not None, "the crew forks only while there is a nursery"
        mine, theirs = socket.socketpair()
        line: Connection[FromWorker] = Connection(mine, FromWorker)
        self._lines[worker.number] = line
        self._selector.register(mine, selectors.EVENT_READ, worker)
        queue = self._queues[worker.number] = TicketQueue()
        self._parent.fork(worker.number, worker.threads, theirs, queue.for_worker())

    def offer(self, worker: Worker, tickets: list[int]) -> bool:
        queue = self._queues.get(worker.number)
        return queue is None or queue.offer(tickets)

    def take_back(self, worker: Worker) -> list[int]:
        queue = self._queues.get(worker.number)
        return [] if queue is None else queue.take_back()

    def kill(self, worker: Worker) -> None:
        if self._parent is not None:
            self._parent.kill(worker.number)

    def end_stray(self, pid: int) -> None:
        if self._parent is not None:
            self._parent.end_stray(pid)

    def memory(self, worker: Worker) -> int:
        """The bytes that a worker holds; 0 when the system does not say."""
        try:
            pages = Path(f"/proc/{worker.pid}/statm").read_text().split()[1]
        except (OSError, IndexError):
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def valid_until(self, session: SessionId) -> float:
        return self._services.valid_until(session)

    def settle(self, claim: Claim, outcome: Outcome, *, seconds: float, log: str | None) -> None:
        self._services.settle(claim, outcome, seconds=seconds, log=log)

    def progress(self, lease: Lease, share: float | None, message: str | None) -> None:
        self._services.progress(lease, share, message)

    def call(self, worker: Worker, lease: Lease | None, call: Call) -> None:
        self._services.call(worker, lease, call)

    def answer(self, worker: Worker, answer: Answer) -> None:
        """Answer a worker's call; one that has died meanwhile does not hear it."""
        with self.lock:
            self.send(worker, answer)

    # Hearing

    def _ready(self, source: int | Worker | ParentClient) -> None:
        match source:
            case int():
                with suppress(BlockingIOError):
                    os.read(self._wake_end, 4_096)
            case Worker():
                self._receive(source)
            case ParentClient():
                self._receive_from_parent(source)

    def _receive(self, worker: Worker) -> None:
        line = self._lines.get(worker.number)
        if line is None:
            return  # It was reported dead a moment ago, in this same pass, and what it had said was heard then.
        messages, open_still = line.receive()
        now = monotonic()
        for message in messages:
            self.dispatcher.receive(worker, message, now)
        if not open_still:
            self._hang_up(worker, line, line.broken, now)

    def _hang_up(self, worker: Worker, line: Connection[FromWorker], broken: str | None, now: float) -> None:
        """Read no more from a worker: its socket has closed, or what it sends cannot be trusted."""
        with suppress(KeyError, ValueError):
            self._selector.unregister(line.socket)
        if broken is None:
            self.dispatcher.socket_closed(worker, now)
        else:
            self.dispatcher.protocol_error(worker, broken, now)

    def _drop_stalled(self, now: float) -> None:
        """Give up workers that have sent the beginning of a message and then nothing for long."""
        for number, line in self._lines.items():
            worker = self.dispatcher.workers.get(number)
            if worker is not None and line.partial_since is not None and now - line.partial_since > STALL_SECONDS:
                self._hang_up(worker, line, f"half a message, and nothing more for {STALL_SECONDS:.0f} s", now)

    def _receive_from_parent(self, warm: ParentClient) -> None:
        messages, open_still = warm.line.receive()
        for message in messages:
            self._on_parent_message(message)
        if warm.line.broken is not None:
            self._events.emit(WorkerParentFailed(why=f"the nursery sent {warm.line.broken}"))
        if not open_still and warm is self._parent:
            self._drop_parent()

    def _on_parent_message(self, message: FromParent) -> None:
        now = monotonic()
        match message:
            case ParentReady(manifest):
                self.broken, self._cold_starts, self.dispatcher.has_parent = None, 0, True
                self._services.ready(manifest)
            case ParentFailed(text):
                self.broken = text + hidden_message(self._environment)
            case WorkerStarted(number, pid):
                if number in self.dispatcher.workers:
                    self.dispatcher.workers[number].pid = pid
            case WorkerNotStarted(number, reason):
                self._on_worker_exit(number, 1, reason, now)
            case Strays(pids):
                self.dispatcher.found_strays(pids)
            case WorkerExited(number, code):
                self._on_worker_exit(number, code, self._out_of_memory(code), now)

    def _on_worker_exit(self, number: int, code: int, why: str, now: float) -> None:
        """A worker's process is gone; what it said before stands."""
        worker = self.dispatcher.workers.get(number)
        line = self._lines.pop(number, None)
        if line is None:
            return
        if worker is not None:
            messages, _ = line.receive()
            for message in messages:
                self.dispatcher.receive(worker, message, now)
            self.dispatcher.process_exited(worker, code, now, why)
        self._queues.pop(number).close()
        with suppress(KeyError, ValueError):
            self._selector.unregister(line.socket)
        line.close()

    def _out_of_memory(self, code: int) -> str:
        """The kernel says how often it has killed for want of memory, not whom; ours was killed, and it has again."""
        if code != -signal.SIGKILL:
            return ""
        before, self._oom_kills = self._oom_kills, _oom_kills()
        return "was killed by the kernel: out of memory" if self._oom_kills > before else ""

    # The nursery

    def _ensure_parent(self, now: float) -> None:
        if self._parent is not None:
            self._parent.wake()
        if self._parent is not None or self.dispatcher.draining or now < self._warm_at:
            return
        self._parent = ParentClient(self._imports, self._environment)
        self._selector.register(self._parent.line.socket, selectors.EVENT_READ, self._parent)

    def _drop_parent(self) -> None:
        """The nursery has died, and the kernel kills its workers; their groups are killed by us."""
        assert self._parent is not None
        warm, self._parent = self._parent, None
        had_imported, self.dispatcher.has_parent = self.dispatcher.has_parent, False
        self._selector.unregister(warm.line.socket)
        status = warm.close()
        if not had_imported and self.broken is None:
            self.broken = f"{self._app} could not be imported: that ended the process with status {status}"
        now = monotonic()
        for (
            worker
        ) in self.dispatcher.workers.values():  # All of them first: what one had not begun is not for the others.
            self.dispatcher.socket_closed(worker, now)
        for worker in list(self.dispatcher.workers.values()):
            if worker.pid:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(worker.pid, signal.SIGKILL)
            self._on_worker_exit(worker.number, -signal.SIGKILL, "died with its parent", now)
        at_once = self.broken is None and not self._cold_starts  # It worked before; it may well work again.
        self._warm_at = monotonic() + (0 if at_once else min(_LONGEST_BACK_OFF, 0.2 * 2 ** min(self._cold_starts, 10)))
        self._cold_starts += 1
        self._events.emit(WorkerParentFailed(why=self.broken or f"the nursery ended with status {status}"))

    def _flush_blocked(self) -> None:
        """Send what full sockets did not take, and be woken by the workers' as long as something is left."""
        if self._parent is not None:
            self._parent.line.flush()
        for number in list(self._blocked):
            line, worker = self._lines.get(number), self.dispatcher.workers.get(number)
            left = line is not None and worker is not None and line.flush()
            if not left:
                self._blocked.discard(number)
            if line is not None and worker is not None and worker.socket_closed_at is None:
                self._selector.modify(line.socket, _BOTH if left else selectors.EVENT_READ, worker)


def _make_room(files: int) -> None:
    """Have the system let us open so many, if it does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = files + _OTHER_FILES
    if wanted > soft != resource.RLIM_INFINITY:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
        )


def _oom_kills() -> int:
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
