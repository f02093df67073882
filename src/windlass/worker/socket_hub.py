"""The thread that owns the sockets to the worker parent and the workers, and drives the dispatcher.

It passes messages and ticks to the dispatcher under its lock. The dispatcher decides, and sends through the hub.
"""

from __future__ import annotations

import os
import resource
import selectors
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, cast

from windlass.clock import Clock
from windlass.config import NodeSettings
from windlass.core.assignment import AssignmentFields, assignment_fields
from windlass.core.manifest import Manifest
from windlass.core.task import SessionId
from windlass.errors import InvalidPayload
from windlass.events import Events, ProcessStuck, WorkerParentFailed
from windlass.worker.app_import import ImportedApp
from windlass.worker.connection import WorkerLink
from windlass.worker.dispatcher import Dispatcher
from windlass.worker.parent_client import ParentClient, describe_hidden, make_imports, parent_environment
from windlass.worker.wire import (
    Answer,
    FromParent,
    ParentFailed,
    ParentReady,
    Strays,
    Stuck,
    ToWorker,
    WorkerExited,
    WorkerNotStarted,
    WorkerStarted,
    encode_run,
)
from windlass.worker.worker import RunningAttempt, Worker

TICK_SECONDS, IDLE_TICK_SECONDS = 0.05, 0.25
"""Seconds between two ticks of the dispatcher, while it is busy and while it is idle."""
MAX_WAIT_SECONDS = 0.002
STALL_SECONDS = 30.0
"""How long half a message may wait for its other half. The thread that sends it may have to wait for the
interpreter lock."""
_LONGEST_BACK_OFF = 30.0
_FILES_PER_WORKER = 9
"""Two sockets, both ends of a pipe and one end of another; and the worker's four until they are passed to it."""
_OTHER_FILES = 256
SMALL_FRAME = 1024 * 1024
"""Bytes of a message that is read in any case."""
MAX_INCOMING = 128 * 1024 * 1024
"""Bytes of larger messages of all workers together, on their way or waiting as calls. Further ones wait."""


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
        self,
        settings: NodeSettings,
        store_url: str,
        listener: HubListener,
        events: Events,
        clock: Clock,
        imported: ImportedApp | None = None,
    ) -> None:
        self.lock = threading.RLock()
        """Guards the dispatcher and everything it knows."""
        self.freed = threading.Condition(self.lock)
        """Notified when a worker may have room for more."""
        self.stuck: dict[int, float] = {}
        """The processes that do not end although they were killed, and since when that is known."""
        self.broken: str | None = None
        """Why the app could not be imported, if the latest try failed."""
        self._app = settings.app
        self._imports = make_imports(settings)
        self._environment = parent_environment(store_url, hide=settings.hide_store_url)
        self._listener = listener
        self._events = events
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._wake_end, self._wake_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._wake_end, selectors.EVENT_READ)
        self._links: dict[int, WorkerLink] = {}
        self._blocked: set[int] = set()
        self._paused: set[int] = set()
        """The workers from which nothing is read until their calls were answered, or there is memory for a frame."""
        self.on_read: Callable[[Worker], None] = lambda _worker: None
        """Called when a worker has read answers that it had not."""
        self._imported = imported
        """A worker parent that has imported the app already; its report is handled by the first tick."""
        self._parent: ParentClient | None = None if imported is None else imported.parent
        self._start_parent_at = 0.0
        self._failed_starts = 0
        self._next_tick = 0.0
        self._idle = False
        self._all_busy = False
        self._oom_kills = _oom_kills()
        _raise_file_limit(_FILES_PER_WORKER * sum(pool.override_max for pool in settings.pools))

    def step(self) -> None:
        """Read what has arrived, and tick the dispatcher when it is time."""
        if self._all_busy:  # Nobody waits for us: reading the messages of a moment together costs far less.
            self._clock.sleep(MAX_WAIT_SECONDS)
        arrived = self._selector.select(max(0.0, self._next_tick - self._clock.monotonic()))
        with self.lock:
            for key, _ in arrived:
                self._ready(cast("int | Worker | WorkerLink | ParentClient", key.data or key.fd))
            self._flush_blocked()
            self._resume_paused()
            now = self._clock.monotonic()
            if now >= self._next_tick:
                self._tick(now)
            self._all_busy = self.dispatcher.all_have_backlog()
            self.freed.notify_all()

    def _tick(self, now: float) -> None:
        self._idle = self.dispatcher.is_idle
        self._next_tick = now + (IDLE_TICK_SECONDS if self._idle else TICK_SECONDS)
        self._ensure_parent(now)
        self._listener.tick(now)
        self._drop_stalled(now)
        self.dispatcher.tick(now)

    def notify_claimers(self) -> None:
        """Wake up the claimers that wait for room."""
        with self.lock:
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
            for link in self._links.values():
                link.close()
            self._links.clear()
            self._selector.close()
            os.close(self._wake_end)
            os.close(self._wake_fd)
            self._wake_fd = -1

    # The dispatcher's transport

    def send(self, worker: Worker, message: ToWorker) -> None:
        link = self._links.get(worker.number)
        if link is not None and link.control.send(message):
            self._block(worker)

    def run(self, worker: Worker, session: SessionId, until: float, attempts: Sequence[RunningAttempt]) -> None:
        link = self._links.get(worker.number)
        if link is None:
            return
        fields = [assignment_fields(one.ticket, one.slots, one.claim) for one in attempts]
        for frame in _encode_runs(session, until, fields):
            if link.tasks.send_frame(frame):
                self._block(worker)

    def fork(self, worker: Worker) -> None:
        assert self._parent is not None, "the dispatcher forks only while there is a worker parent"
        link = self._links[worker.number] = WorkerLink(worker, self._clock)
        self._selector.register(link.control.socket, selectors.EVENT_READ, worker)
        self._selector.register(link.ends.reader, selectors.EVENT_READ, link)
        self._parent.fork(worker.number, worker.threads, link.files, shares_loop=worker.shares_loop)

    def offer(self, worker: Worker, tickets: list[int]) -> bool:
        link = self._links.get(worker.number)
        return link is None or link.tickets.offer(tickets)

    def take_back(self, worker: Worker) -> list[int]:
        link = self._links.get(worker.number)
        if link is None:
            return []
        tickets = link.tickets.take_back()
        if link.tickets.broken is not None:
            self._disconnect(link, link.tickets.broken, self._clock.monotonic())
        return tickets

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
        if self._paused:
            self.wake()

    def count_unread(self, worker: Worker) -> int:
        """Return the bytes of messages that a worker has not read and that the kernel does not hold either."""
        link = self._links.get(worker.number)
        return 0 if link is None else link.control.unsent

    # Receiving

    def _ready(self, source: int | Worker | WorkerLink | ParentClient) -> None:
        match source:
            case int():
                with suppress(BlockingIOError):
                    os.read(self._wake_end, 4_096)
            case Worker():
                self._receive(source)
            case WorkerLink():
                self._receive_ends(source)
            case ParentClient():
                self._receive_from_parent(source)

    def _receive(self, worker: Worker) -> None:
        link = self._links.get(worker.number)
        if link is None:
            return  # Its exit was handled in this same pass, and its last messages with it.
        messages, still_open = link.control.receive()
        now = self._clock.monotonic()
        self.dispatcher.receive(worker, messages, now)
        if not still_open:
            self._disconnect(link, link.control.broken, now)
        elif self._must_pause(link):
            link.paused_at = now
            self._paused.add(worker.number)
            self._watch_control(link)

    def _must_pause(self, link: WorkerLink) -> bool:
        """Return True if a worker has enough calls waiting, or the frame that it sends needs too much memory."""
        if link.worker.calls.is_full:
            return True
        announced = link.control.announced
        if announced <= SMALL_FRAME:
            return False
        reading = [other for other in self._links.values() if other is not link and other.paused_at is None]
        return announced + sum(each.control.announced + each.worker.calls.size for each in reading) > MAX_INCOMING

    def _resume_paused(self) -> None:
        """Read again from workers whose calls were answered, or for whose frame there is memory now."""
        for number in list(self._paused):
            link = self._links.get(number)
            if link is None or not self._must_pause(link):
                self._paused.discard(number)
                if link is not None:
                    link.paused_at = None
                    link.control.restart_stall()
                    self._watch_control(link)

    def _watch_control(self, link: WorkerLink) -> None:
        """Wait for what the control socket is needed for now: to read, to write, both, or nothing."""
        if link.worker.socket_closed_at is not None:
            return
        events = (selectors.EVENT_READ if link.paused_at is None else 0) | (
            selectors.EVENT_WRITE if link.control.unsent else 0
        )
        with suppress(KeyError):
            self._selector.unregister(link.control.socket)
        if events:
            self._selector.register(link.control.socket, events, link.worker)

    def _receive_ends(self, link: WorkerLink) -> None:
        if link.worker.number not in self._links:
            return  # Its exit was handled in this same pass.
        ended, still_open = link.ends.receive()
        now = self._clock.monotonic()
        if ended:
            self.dispatcher.complete(link.worker, ended, now)
        if not still_open:
            self._selector.unregister(link.ends.reader)
        if link.ends.broken is not None:
            self._disconnect(link, link.ends.broken, now)

    def _disconnect(self, link: WorkerLink, broken: str | None, now: float) -> None:
        """Stop reading from a worker: its socket has closed, or it has broken the protocol."""
        with suppress(KeyError, ValueError):
            self._selector.unregister(link.control.socket)
        if broken is None:
            self.dispatcher.socket_closed(link.worker, now)
        else:
            self.dispatcher.protocol_error(link.worker, broken, now)

    def _drop_stalled(self, now: float) -> None:
        """Disconnect workers that have sent part of a message, or many calls, and then neither sent nor read."""
        for number, link in self._links.items():
            if number not in self.dispatcher.workers or link.worker.socket_closed_at is not None:
                continue
            since, paused = link.control.partial_since, link.paused_at
            if paused is None and since is not None and now - since > STALL_SECONDS:
                self._disconnect(link, f"half a message, and nothing more for {STALL_SECONDS:.0f} s", now)
            elif paused is not None and link.control.unsent and now - max(paused, link.control.sent_at) > STALL_SECONDS:
                self._disconnect(link, f"many calls, and read no answer for {STALL_SECONDS:.0f} s", now)

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
            case ParentReady(manifest, _, _, max_result_bytes):
                self.broken, self._failed_starts, self.dispatcher.has_parent = None, 0, True
                self.dispatcher.max_result_bytes = max_result_bytes
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
            case Stuck(pids):
                self._record_stuck(pids, now)
            case WorkerExited(number, code):
                self._on_worker_exit(number, code, self._out_of_memory(code), now)

    def _record_stuck(self, pids: Sequence[int], now: float) -> None:
        """Continue without killed processes that do not end. A worker among them counts as exited."""
        before, self.stuck = self.stuck, {pid: self.stuck.get(pid, now) for pid in pids}
        for pid in self.stuck.keys() - before.keys():
            number = next((each.worker.number for each in self._links.values() if each.worker.pid == pid), None)
            self._events.emit(ProcessStuck(pid=pid, worker=number))
            if number is not None:
                self._on_worker_exit(number, -signal.SIGKILL, "", now)

    def _on_worker_exit(self, number: int, code: int, why: str, now: float) -> None:
        """Handle the exit of a worker process, after its last messages."""
        worker = self.dispatcher.workers.get(number)
        link = self._links.get(number)
        if link is None:
            return
        if worker is not None:
            messages, _ = link.control.receive()
            self.dispatcher.receive(worker, messages, now)
            ended, _ = link.ends.receive()  # Once is enough: a pipe holds no more than one read takes.
            self.dispatcher.complete(worker, ended, now)
            self.dispatcher.process_exited(worker, code, now, why)
        del self._links[number]
        for source in (link.control.socket, link.tasks.socket, link.ends.reader):
            with suppress(KeyError, ValueError):
                self._selector.unregister(source)
        link.close()

    def _out_of_memory(self, code: int) -> str:
        """Return a reason if the kernel has probably killed the worker: it counts its kills, but does not name them."""
        if code != -signal.SIGKILL:
            return ""
        before, self._oom_kills = self._oom_kills, _oom_kills()
        return "was killed by the kernel: out of memory" if self._oom_kills > before else ""

    # The worker parent

    def _ensure_parent(self, now: float) -> None:
        if self._imported is not None:
            imported, self._imported = self._imported, None
            self._selector.register(imported.parent.connection.socket, selectors.EVENT_READ, imported.parent)
            self._on_parent_message(imported.ready)
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
        self.stuck.clear()
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

    def _block(self, worker: Worker) -> None:
        """Record that a socket of a worker did not take everything."""
        self._blocked.add(worker.number)
        self.wake()

    def _flush_blocked(self) -> None:
        """Send what full sockets did not take. While something is left, wait until they are writable."""
        if self._parent is not None:
            self._parent.connection.flush()
        for number in list(self._blocked):
            self._blocked.discard(number)
            link = self._links.get(number)
            if link is None or link.worker.socket_closed_at is not None:
                continue
            before = link.control.unsent
            control_left, tasks_left = link.control.flush(), link.tasks.flush()
            self._watch_control(link)
            if link.control.unsent < before:
                self.on_read(link.worker)
            with suppress(KeyError):
                self._selector.unregister(link.tasks.socket)
            if tasks_left:
                self._selector.register(link.tasks.socket, selectors.EVENT_WRITE, link.worker)
            if control_left or tasks_left:
                self._blocked.add(number)


def _encode_runs(session: SessionId, until: float, fields: list[AssignmentFields]) -> Iterator[bytes]:
    """Encode assignments in as few messages as their size allows."""
    try:
        yield encode_run(session, until, fields)
    except InvalidPayload:
        if len(fields) == 1:
            raise
        middle = len(fields) // 2
        yield from _encode_runs(session, until, fields[:middle])
        yield from _encode_runs(session, until, fields[middle:])


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
