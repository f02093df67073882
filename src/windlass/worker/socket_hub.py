"""The thread that owns the sockets to the worker parent and the workers, and drives the dispatcher.

It passes messages and ticks to the dispatcher under its lock. The dispatcher decides, and sends through the hub.
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

from windlass.clock import Clock
from windlass.config import NodeSettings
from windlass.core.manifest import Manifest
from windlass.events import Events, WorkerParentFailed
from windlass.worker.connection import Connection
from windlass.worker.dispatcher import Dispatcher
from windlass.worker.parent_client import Imports, ParentClient, describe_hidden, parent_environment
from windlass.worker.tickets import TicketQueue
from windlass.worker.wire import (
    Answer,
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

TICK_SECONDS, IDLE_TICK_SECONDS = 0.05, 0.25
"""Seconds between two ticks of the dispatcher, while it is busy and while it is idle."""
MAX_WAIT_SECONDS = 0.002
STALL_SECONDS = 30.0
"""How long half a message may wait for its other half. The thread that sends it may have to wait for the
interpreter lock."""
_LONGEST_BACK_OFF = 30.0
_FILES_PER_WORKER = 5
"""A socket and both ends of a pipe, and a second socket and pipe end while they are being passed to the worker."""
_OTHER_FILES = 256
_BOTH = selectors.EVENT_READ | selectors.EVENT_WRITE


class HubListener(Protocol):
    """The node that the hub belongs to. No method blocks."""

    def ready(self, manifest: Manifest) -> None:
        """Handle the import of the app, which may happen again after the worker parent has died."""
        ...

    def tick(self, now: float) -> None:
        """Do what is due. Called several times a second, under the lock."""
        ...


class SocketHub:
    """The sockets of a node."""

    dispatcher: Dispatcher
    """Set by the node before the first step."""

    def __init__(
        self, settings: NodeSettings, store_url: str, listener: HubListener, events: Events, clock: Clock
    ) -> None:
        self.lock = threading.RLock()
        """Guards the dispatcher and everything it knows."""
        self.freed = threading.Condition(self.lock)
        """Notified when a worker may have room for more."""
        self.broken: str | None = None
        """Why the app could not be imported, if the latest try failed."""
        self._app = settings.app
        self._imports = Imports(settings.app, settings.path, settings.imports)
        self._environment = parent_environment(store_url, pass_store_url=settings.pass_store_url)
        self._listener = listener
        self._events = events
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._wake_end, self._wake_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._wake_end, selectors.EVENT_READ)
        self._connections: dict[int, Connection[FromWorker]] = {}
        self._queues: dict[int, TicketQueue] = {}
        self._blocked: set[int] = set()
        self._parent: ParentClient | None = None
        self._start_parent_at = 0.0
        self._failed_starts = 0
        self._next_tick = 0.0
        self._idle = False
        self._all_busy = False
        self._oom_kills = _oom_kills()
        _raise_file_limit(_FILES_PER_WORKER * sum(pool.most for pool in settings.pools))

    def step(self) -> None:
        """Read what has arrived, and tick the dispatcher when it is time."""
        if self._all_busy:  # Nobody waits for us: reading the messages of a moment together costs far less.
            self._clock.sleep(MAX_WAIT_SECONDS)
        for key, _ in self._selector.select(max(0.0, self._next_tick - self._clock.monotonic())):
            with self.lock:
                self._ready(cast("int | Worker | ParentClient", key.data or key.fd))
                self.freed.notify_all()
        with self.lock:
            self._flush_blocked()
            self._all_busy = self.dispatcher.all_have_backlog()
        now = self._clock.monotonic()
        if now >= self._next_tick:
            with self.lock:
                self._idle = self.dispatcher.is_idle
                self._next_tick = now + (IDLE_TICK_SECONDS if self._idle else TICK_SECONDS)
                self._ensure_parent(now)
                self._listener.tick(now)
                self._drop_stalled(now)
                self.dispatcher.tick(now)
                self.freed.notify_all()

    def wake(self) -> None:
        """Make `step` tick at once."""
        self._next_tick = 0.0
        with suppress(OSError):  # The pipe is full, so `step` wakes up anyway; or it is closed.
            os.write(self._wake_fd, b"!")

    def resume_ticks(self) -> None:
        """Tick often again, because the dispatcher has something to do."""
        if self._idle:
            self._idle = False
            self.wake()

    def close(self) -> None:
        """End the worker parent, and with it every worker."""
        with self.lock:
            if self._parent is not None:
                self._parent.close()
            for connection in self._connections.values():
                connection.close()
            for queue in self._queues.values():
                queue.close()
            self._queues.clear()
            self._selector.close()
            os.close(self._wake_end)
            os.close(self._wake_fd)
            self._wake_fd = -1

    # The dispatcher's transport

    def send(self, worker: Worker, message: ToWorker) -> None:
        connection = self._connections.get(worker.number)
        if connection is not None and connection.send(message):
            self._blocked.add(worker.number)
            self.wake()

    def fork(self, worker: Worker) -> None:
        assert self._parent is not None, "the dispatcher forks only while there is a worker parent"
        mine, theirs = socket.socketpair()
        connection: Connection[FromWorker] = Connection(mine, FromWorker, self._clock)
        self._connections[worker.number] = connection
        self._selector.register(mine, selectors.EVENT_READ, worker)
        queue = self._queues[worker.number] = TicketQueue()
        self._parent.fork(worker.number, worker.threads, theirs, queue.duplicate_reader())

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
        """Return the resident memory of a worker in bytes; 0 if the system does not report it."""
        try:
            pages = Path(f"/proc/{worker.pid}/statm").read_text().split()[1]
        except (OSError, IndexError):
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def answer(self, worker: Worker, answer: Answer) -> None:
        """Answer a call of a worker. The answer is dropped if the worker has died."""
        with self.lock:
            self.send(worker, answer)

    # Receiving

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
        connection = self._connections.get(worker.number)
        if connection is None:
            return  # Its exit was handled in this same pass, and its last messages with it.
        messages, still_open = connection.receive()
        now = self._clock.monotonic()
        for message in messages:
            self.dispatcher.receive(worker, message, now)
        if not still_open:
            self._disconnect(worker, connection, connection.broken, now)

    def _disconnect(self, worker: Worker, connection: Connection[FromWorker], broken: str | None, now: float) -> None:
        """Stop reading from a worker: its socket has closed, or it has broken the protocol."""
        with suppress(KeyError, ValueError):
            self._selector.unregister(connection.socket)
        if broken is None:
            self.dispatcher.socket_closed(worker, now)
        else:
            self.dispatcher.protocol_error(worker, broken, now)

    def _drop_stalled(self, now: float) -> None:
        """Disconnect workers that have sent the first part of a message and then nothing for long."""
        for number, connection in self._connections.items():
            worker, since = self.dispatcher.workers.get(number), connection.partial_since
            if worker is not None and since is not None and now - since > STALL_SECONDS:
                self._disconnect(worker, connection, f"half a message, and nothing more for {STALL_SECONDS:.0f} s", now)

    def _receive_from_parent(self, parent: ParentClient) -> None:
        messages, still_open = parent.connection.receive()
        for message in messages:
            self._on_parent_message(message)
        if parent.connection.broken is not None:
            self._events.emit(WorkerParentFailed(why=f"the worker parent sent {parent.connection.broken}"))
        if not still_open and parent is self._parent:
            self._drop_parent()

    def _on_parent_message(self, message: FromParent) -> None:
        now = self._clock.monotonic()
        match message:
            case ParentReady(manifest):
                self.broken, self._failed_starts, self.dispatcher.has_parent = None, 0, True
                self._listener.ready(manifest)
            case ParentFailed(text):
                self.broken = text + describe_hidden(self._environment)
            case WorkerStarted(number, pid):
                if number in self.dispatcher.workers:
                    self.dispatcher.workers[number].pid = pid
            case WorkerNotStarted(number, reason):
                self._on_worker_exit(number, 1, reason, now)
            case Strays(pids):
                self.dispatcher.add_strays(pids)
            case WorkerExited(number, code):
                self._on_worker_exit(number, code, self._out_of_memory(code), now)

    def _on_worker_exit(self, number: int, code: int, why: str, now: float) -> None:
        """Handle the exit of a worker process, after its last messages."""
        worker = self.dispatcher.workers.get(number)
        connection = self._connections.pop(number, None)
        if connection is None:
            return
        if worker is not None:
            messages, _ = connection.receive()
            for message in messages:
                self.dispatcher.receive(worker, message, now)
            self.dispatcher.process_exited(worker, code, now, why)
        self._queues.pop(number).close()
        with suppress(KeyError, ValueError):
            self._selector.unregister(connection.socket)
        connection.close()

    def _out_of_memory(self, code: int) -> str:
        """Return a reason if the kernel has probably killed the worker: it counts its kills, but does not name them."""
        if code != -signal.SIGKILL:
            return ""
        before, self._oom_kills = self._oom_kills, _oom_kills()
        return "was killed by the kernel: out of memory" if self._oom_kills > before else ""

    # The worker parent

    def _ensure_parent(self, now: float) -> None:
        if self._parent is not None:
            self._parent.wake()
        if self._parent is not None or self.dispatcher.draining or now < self._start_parent_at:
            return
        self._parent = ParentClient(self._imports, self._environment, self._clock)
        self._selector.register(self._parent.connection.socket, selectors.EVENT_READ, self._parent)

    def _drop_parent(self) -> None:
        """Handle the death of the worker parent. The kernel kills its workers; this kills their process groups."""
        assert self._parent is not None
        parent, self._parent = self._parent, None
        had_imported, self.dispatcher.has_parent = self.dispatcher.has_parent, False
        self._selector.unregister(parent.connection.socket)
        status = parent.close()
        if not had_imported and self.broken is None:
            self.broken = f"{self._app} could not be imported: that ended the process with status {status}"
        now = self._clock.monotonic()
        for worker in self.dispatcher.workers.values():  # All of them first, so that none gets the tasks of another.
            self.dispatcher.socket_closed(worker, now)
        for worker in list(self.dispatcher.workers.values()):
            if worker.pid:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(worker.pid, signal.SIGKILL)
            self._on_worker_exit(worker.number, -signal.SIGKILL, "died with its parent", now)
        at_once = self.broken is None and not self._failed_starts  # It worked before, so it probably works again.
        back_off = min(_LONGEST_BACK_OFF, 0.2 * 2 ** min(self._failed_starts, 10))
        self._start_parent_at = self._clock.monotonic() + (0 if at_once else back_off)
        self._failed_starts += 1
        self._events.emit(WorkerParentFailed(why=self.broken or f"the worker parent ended with status {status}"))

    def _flush_blocked(self) -> None:
        """Send what full sockets did not take. While something is left, wait until they are writable."""
        if self._parent is not None:
            self._parent.connection.flush()
        for number in list(self._blocked):
            connection, worker = self._connections.get(number), self.dispatcher.workers.get(number)
            left = connection is not None and worker is not None and connection.flush()
            if not left:
                self._blocked.discard(number)
            if connection is not None and worker is not None and worker.socket_closed_at is None:
                self._selector.modify(connection.socket, _BOTH if left else selectors.EVENT_READ, worker)


def _raise_file_limit(files: int) -> None:
    """Raise the limit of open files, as far as the system allows."""
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
