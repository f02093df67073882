"""The inside of a worker process: it runs assignments in order, and reports each outcome.

One thread reads the messages of the node, so that a cancel request arrives while a handler runs. With one thread for
tasks, handlers run in the main thread, where a signal can interrupt even a blocking call. A worker starts an assignment
once it has taken its ticket from the queue that it shares with the node. It never opens a store: the store calls of
handlers go to the node. If the node is gone, the worker kills its whole process group.
"""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import socket
import threading
import traceback
from contextlib import suppress
from math import isfinite
from typing import NoReturn, cast
from uuid import UUID

from windlass.client.app import App, bind_all
from windlass.client.context import Cancelled, SoftTimeout
from windlass.client.execution import describe_error, run_attempt
from windlass.clock import monotonic
from windlass.core.assignment import Assignment
from windlass.core.retry import storable
from windlass.core.settlement import Outcome, Raised
from windlass.core.task import Lease
from windlass.custom_decider import PREFIX, PoolSituation, check_answer
from windlass.errors import NotAllowed
from windlass.stores.protocol import Store
from windlass.worker.async_runner import AsyncRunner
from windlass.worker.capture import Capture
from windlass.worker.interrupts import Interrupts, describe_interruption
from windlass.worker.remote import RemoteStore
from windlass.worker.tickets import EXIT_TICKET, take
from windlass.worker.wire import (
    Answer,
    Call,
    Frames,
    FromWorker,
    Heartbeat,
    Hello,
    Interrupt,
    Measure,
    Measured,
    ParentFailed,
    RequestStop,
    Run,
    ToWorker,
    Valid,
    encode_frame,
    encode_outcome,
)

_PROGRESS_SECONDS = 0.05
"""Seconds between two progress messages of one attempt. The node writes them less often still."""


def run_worker(app: App, connection: socket.socket, tickets: int, threads: int) -> int:
    """Run as a worker until the node asks it to exit. Return the exit status."""
    worker = WorkerMain(app, connection, tickets, threads)
    try:
        for hook in app.start_hooks:
            hook()
    except BaseException:  # noqa: BLE001 - the node reports whatever a hook raises
        worker.send(ParentFailed(f"a start hook failed:\n{traceback.format_exc(limit=-10)}"))
        return 1
    worker.run()
    for hook in app.stop_hooks:
        hook()
    return 0


class WorkerMain:
    """The state of a worker process: its socket, its assignments and its threads."""

    def __init__(self, app: App, connection: socket.socket, tickets: int, threads: int) -> None:
        self._app = app
        self._socket = socket.socket(fileno=move_descriptor_up(connection.detach()))
        self._socket_guard = DescriptorGuard(self._socket.fileno())
        self._tickets = move_descriptor_up(tickets)
        self._pid = os.getpid()
        self._threads = threads
        self._sending = threading.Lock()
        self._arrived = threading.Condition()
        self._waiting: dict[int, Assignment] = {}
        self._exiting = False
        self._running: dict[tuple[object, int], int] = {}
        self._stop_requested: set[int] = set()
        self._progress_at: dict[int, float] = {}
        self._turn = threading.Lock()
        self._free = threads
        self._freed = threading.Condition()
        self._validity = Validity()
        self._interrupts = Interrupts()
        self._loop = AsyncRunner(self._interrupts)
        self._capture = Capture()
        self._remote = RemoteStore(self._call, self._ticket_of)
        bind_all(lambda: cast("Store", self._remote))  # as far as a handler may use one
        threading.Thread(target=self._listen, name="windlass-listen", daemon=True).start()

    def run(self) -> None:
        """Run assignments until the node asks the worker to exit and all have ended."""
        self._capture.install()
        self.send(Hello(os.getpid()))
        if self._threads == 1:
            self._interrupts.use_signal()
            while (taken := self._next()) is not None:
                self._run(*taken)
        else:
            runners = [threading.Thread(target=self._run_threads, name=f"task-{n}") for n in range(self._threads)]
            for runner in runners:
                runner.start()
            for runner in runners:
                runner.join()
        self._loop.close()

    def send(self, message: FromWorker) -> None:
        """Send a message to the node."""
        if os.getpid() != self._pid:
            raise NotAllowed("This process was forked by a handler. Only the worker process can call its node.")
        data = encode_frame(message)
        with self._sending:
            if not self._socket_guard.intact():
                self._abandon("a handler closed or replaced the socket to the node")
            self._socket.sendall(data)

    # Called by running attempts (windlass.client.context.Channel)

    def progress(self, assignment: Assignment, share: float | None, message: str | None) -> None:
        """Send the progress of a handler, unless the last message was just sent."""
        ticket = self._ticket_of(assignment.lease)
        now = monotonic()
        if ticket and now - self._progress_at.get(ticket, 0) >= _PROGRESS_SECONDS:
            self._progress_at[ticket] = now
            with self._interrupts.shield():
                self.send(Heartbeat(ticket, share, None if message is None else storable(message)))

    def cancelled(self, assignment: Assignment) -> bool:
        """Return True if the node has asked this attempt to stop."""
        return self._ticket_of(assignment.lease) in self._stop_requested

    def may_start(self, assignment: Assignment) -> bool:
        """Return True if the lease is certainly still valid. It may not be if this process or its node was paused."""
        return self._validity.covers(assignment.session, monotonic())

    def _run_threads(self) -> None:
        """Run assignments in one of several threads. They start strictly in order, each when its slots are free."""
        while True:
            with self._turn:
                with self._freed:
                    self._freed.wait_for(lambda: self._free >= 1)
                taken = None if self._exiting else self._next()
                if taken is None:
                    self._exiting = True  # For the other threads.
                    return
                needed = min(taken[1].slots, self._threads)
                with self._freed:
                    self._freed.wait_for(lambda n=needed: self._free >= n)
                    self._free -= needed
            try:
                self._run(*taken)
            except BaseException:  # noqa: BLE001 - the outcome was not reported, so the process must exit
                traceback.print_exc()
                self._abandon("the outcome of an attempt could not be reported")
            finally:
                with self._freed:
                    self._free += needed
                    self._freed.notify()

    def _next(self) -> tuple[int, Assignment] | None:
        """Take the next ticket and return its assignment. Return None if the worker shall exit."""
        ticket = take(self._tickets)
        if ticket == EXIT_TICKET:
            return None
        with self._arrived:
            while ticket not in self._waiting:
                self._arrived.wait()
            while (earlier := next(iter(self._waiting))) != ticket:
                del self._waiting[earlier]  # The node has taken back its ticket.
            return ticket, self._waiting.pop(ticket)

    def _run(self, ticket: int, assignment: Assignment) -> None:
        """Run one attempt and report its outcome."""
        name = (assignment.task, assignment.fence)
        self._running[name] = ticket
        started = monotonic()
        log = self._capture.begin()
        outcome = self._run_handler(ticket, assignment)
        text = log.end()
        seconds = monotonic() - started
        del self._running[name]
        self._stop_requested.discard(ticket)
        self._progress_at.pop(ticket, None)
        try:
            self.send(encode_outcome(ticket, seconds, outcome, text))
        except (TypeError, ValueError, MemoryError, RecursionError) as error:  # It cannot be encoded.
            self.send(encode_outcome(ticket, seconds, Raised(describe_error(error)), None))

    def _run_handler(self, ticket: int, assignment: Assignment) -> Outcome:
        handler = self._app.handlers.get(assignment.handler)
        if handler is not None and handler.is_async:
            return self._loop.run_attempt(ticket, self._app, assignment, self)
        try:
            with self._interrupts.thread(ticket):
                return run_attempt(self._app, assignment, self)
        except (SoftTimeout, Cancelled) as error:
            return describe_interruption(type(error))

    def _call(self, call: Call) -> None:
        with self._interrupts.shield():
            self.send(call)

    def _ticket_of(self, lease: Lease) -> int:
        return self._running.get((lease.task, lease.fence), 0)

    def _listen(self) -> None:
        """Read the messages of the node, whatever the handlers do."""
        frames: Frames[ToWorker] = Frames(ToWorker)
        try:
            while frames.broken is None and (data := self._receive()):
                for message in frames.feed(data):
                    self._handle(message)
        finally:  # The node is gone or unreachable: no result counts any more, and nobody else would end this process.
            os.killpg(0, signal.SIGKILL)

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(1 << 18) if self._socket_guard.intact() else b""
        except OSError:
            return b""

    def _handle(self, message: ToWorker) -> None:
        match message:
            case Run(assignments):
                with self._arrived:
                    self._waiting.update(assignments)
                    self._arrived.notify_all()
            case Valid(session, until):
                self._validity.extend(session, until)
            case RequestStop(ticket):
                self._stop_requested.add(ticket)
            case Interrupt(ticket, cancelled):
                self._interrupts.raise_in(ticket, cancelled=cancelled)
            case Answer():
                self._remote.receive(message)
            case Measure(name, None):
                threading.Thread(target=self._measure, args=(name,), name=f"signal-{name}", daemon=True).start()
            case Measure(name, situation):
                threading.Thread(target=self._decide, args=(name, situation), name=name, daemon=True).start()

    def _decide(self, name: str, situation: PoolSituation) -> None:
        """Call one of the app's deciders, in a thread of its own."""
        decide = self._app.deciders.get(name.removeprefix(PREFIX))
        try:
            if decide is None:
                known = ", ".join(self._app.deciders) or "none"
                raise LookupError(f"the app has no decider {name.removeprefix(PREFIX)!r}; it has {known}")
            self.send(Measured(name, check_answer(decide(situation))))
        except Exception as error:  # noqa: BLE001 - the node reports whatever the app's function raises
            self.send(Measured(name, None, f"{type(error).__name__}: {error}"))

    def _measure(self, name: str) -> None:
        """Measure one of the app's signals, in a thread of its own so that a slow one delays nothing."""
        measure = self._app.signals.get(name)
        if measure is None:
            known = ", ".join(self._app.signals) or "none"
            self.send(Measured(name, None, f"the app has no signal {name!r}; it has {known}"))
            return
        try:
            value = float(measure())
            self.send(Measured(name, value if isfinite(value) else None, f"it is {value}"))
        except Exception as error:  # noqa: BLE001 - the node reports whatever the app's function raises
            self.send(Measured(name, None, f"{type(error).__name__}: {error}"))

    def _abandon(self, why: str) -> NoReturn:
        """Exit, because the worker cannot continue. The worker parent reports the exit and kills what is left."""
        with suppress(OSError):
            os.write(2, f"worker {self._pid} exits: {why}\n".encode())
        os._exit(1)


class Validity:
    """Until when each session is certainly valid.

    The node computes each time from just before its latest successful renewal was sent, minus a margin. It uses a clock
    that all processes of the machine share, and that also runs while they, or the machine, are paused.
    """

    def __init__(self) -> None:
        self._until: dict[UUID, float] = {}

    def extend(self, session: UUID, until: float) -> None:
        """Record how long a session is valid, as reported by the node."""
        self._until[session] = until

    def covers(self, session: UUID, now: float) -> bool:
        """Return True if a lease of this session is certainly still valid."""
        return now < self._until.get(session, 0.0)


_HIGH_DESCRIPTOR = 512


def move_descriptor_up(descriptor: int) -> int:
    """Move a descriptor above those that handlers often close or reuse. Return its new number."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    least = _HIGH_DESCRIPTOR if soft == resource.RLIM_INFINITY else min(_HIGH_DESCRIPTOR, soft // 2)
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, least)
    os.close(descriptor)
    return moved


class DescriptorGuard:
    """Detects that a handler has closed or replaced a descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._file = self._identity()

    def intact(self) -> bool:
        """Return False if the descriptor was closed, or refers to another file now."""
        try:
            return self._identity() == self._file
        except OSError:
            return False

    def _identity(self) -> tuple[int, int]:
        found = os.fstat(self._descriptor)
        return found.st_dev, found.st_ino
