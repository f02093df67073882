"""A worker, as it is inside: it runs orders in the order in which they come, and reports each end as it happens.

One thread reads what the node says, so that a cancel is heard while a handler runs; `threads` of them run handlers, or
the main thread alone when that is one, where a signal can interrupt even a blocking call. An order is begun by whoever
has taken its ticket from the queue that worker and node share. A worker never touches a store: what a handler asks of
one goes to the node. When the node has gone, or cannot be reached, the worker ends with its whole process group.
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
from windlass.worker.interrupts import Interrupts, interrupted
from windlass.worker.remote import RemoteStore
from windlass.worker.tickets import LEAVE, take
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
    done,
    frame,
)

_BEAT_SECONDS = 0.05
"""Progress of one attempt is told at most this often; the node writes it down more rarely still."""


def work(app: App, line: socket.socket, tickets: int, threads: int) -> int:
    """Be a worker until told to leave; the exit status."""
    worker = WorkerMain(app, line, tickets, threads)
    try:
        for hook in app.start_hooks:
            hook()
    except BaseException:  # noqa: BLE001 - whatever the app's own hook raises, the node must hear of it
        worker.send(ParentFailed(f"a start hook failed:\n{traceback.format_exc(limit=-10)}"))
        return 1
    worker.run()
    for hook in app.stop_hooks:
        hook()
    return 0


class WorkerMain:
    """The worker's end of its socket, and what it has been told to do."""

    def __init__(self, app: App, line: socket.socket, tickets: int, threads: int) -> None:
        self._app = app
        self._line = socket.socket(fileno=move_up(line.detach()))
        self._line_guard = Guard(self._line.fileno())
        self._tickets = move_up(tickets)
        self._pid = os.getpid()
        self._threads = threads
        self._sending = threading.Lock()
        self._arrived = threading.Condition()
        self._waiting: dict[int, Assignment] = {}
        self._leaving = False
        self._running: dict[tuple[object, int], int] = {}
        self._asked: set[int] = set()
        self._beats: dict[int, float] = {}
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
        """Run orders until the node says to leave and all have ended."""
        self._capture.install()
        self.send(Hello(os.getpid()))
        if self._threads == 1:
            self._interrupts.by_signal()
            while (following := self._next()) is not None:
                self._begin(*following)
        else:
            runners = [threading.Thread(target=self._run_threads, name=f"task-{n}") for n in range(self._threads)]
            for runner in runners:
                runner.start()
            for runner in runners:
                runner.join()
        self._loop.close()

    def send(self, message: FromWorker) -> None:
        """Send the node a message."""
        if os.getpid() != self._pid:
            raise NotAllowed("this process was forked by a handler; only the worker itself can speak with its node")
        data = frame(message)
        with self._sending:
            if not self._line_guard.intact():
                self._abandon("a handler closed or replaced the socket to the node")
            self._line.sendall(data)

    # What a running attempt asks of us (windlass.client.context.Channel).

    def progress(self, order: Assignment, share: float | None, message: str | None) -> None:
        """Pass a handler's progress on, unless it was only just told."""
        ticket = self._ticket_of(order.lease)
        now = monotonic()
        if ticket and now - self._beats.get(ticket, 0) >= _BEAT_SECONDS:
            self._beats[ticket] = now
            with self._interrupts.shield():
                self.send(Heartbeat(ticket, share, None if message is None else storable(message)))

    def cancelled(self, order: Assignment) -> bool:
        """Whether the node has asked for this attempt to stop."""
        return self._ticket_of(order.lease) in self._asked

    def may_start(self, order: Assignment) -> bool:
        """Return True if the lease surely still holds. It may not after this process, or its node, stood still."""
        return self._validity.covers(order.session, monotonic())

    def _run_threads(self) -> None:
        """One of several threads: they begin orders strictly in turn, each when there is room for it."""
        while True:
            with self._turn:
                with self._freed:
                    self._freed.wait_for(lambda: self._free >= 1)
                following = None if self._leaving else self._next()
                if following is None:
                    self._leaving = True  # The next thread sees it too.
                    return
                needed = min(following[1].slots, self._threads)
                with self._freed:
                    self._freed.wait_for(lambda n=needed: self._free >= n)
                    self._free -= needed
            try:
                self._begin(*following)
            except BaseException:  # noqa: BLE001 - its end was not reported: only the death of this process tells the node.
                traceback.print_exc()
                self._abandon("the end of an attempt could not be reported")
            finally:
                with self._freed:
                    self._free += needed
                    self._freed.notify()

    def _next(self) -> tuple[int, Assignment] | None:
        """Wait for the next order that is ours to begin; None when there will be none."""
        ticket = take(self._tickets)
        if ticket == LEAVE:
            return None
        with self._arrived:
            while ticket not in self._waiting:
                self._arrived.wait()
            while (earlier := next(iter(self._waiting))) != ticket:
                del self._waiting[earlier]  # The node has taken back its ticket.
            return ticket, self._waiting.pop(ticket)

    def _begin(self, ticket: int, order: Assignment) -> None:
        """Run one order and report its end."""
        name = (order.task, order.fence)
        self._running[name] = ticket
        began = monotonic()
        log = self._capture.begin()
        outcome = self._perform(ticket, order)
        text = log.end()
        seconds = monotonic() - began
        del self._running[name]
        self._asked.discard(ticket)
        self._beats.pop(ticket, None)
        try:
            self.send(done(ticket, seconds, outcome, text))
        except (TypeError, ValueError, MemoryError, RecursionError) as error:  # It cannot be encoded: say that instead.
            self.send(done(ticket, seconds, Raised(describe_error(error)), None))

    def _perform(self, ticket: int, order: Assignment) -> Outcome:
        handler = self._app.handlers.get(order.handler)
        if handler is not None and handler.is_async:
            return self._loop.run_attempt(ticket, self._app, order, self)
        try:
            with self._interrupts.thread(ticket):
                return run_attempt(self._app, order, self)
        except (SoftTimeout, Cancelled) as error:
            return interrupted(type(error))

    def _call(self, call: Call) -> None:
        with self._interrupts.shield():
            self.send(call)

    def _ticket_of(self, lease: Lease) -> int:
        return self._running.get((lease.task, lease.fence), 0)

    def _listen(self) -> None:
        """Hear the node, whatever the handlers do."""
        frames: Frames[ToWorker] = Frames(ToWorker)
        try:
            while frames.broken is None and (data := self._receive()):
                for message in frames.feed(data):
                    self._handle(message)
        finally:  # The node is gone, or cannot be heard: nothing we do counts any more, and nobody is left to kill us.
            os.killpg(0, signal.SIGKILL)

    def _receive(self) -> bytes:
        try:
            return self._line.recv(1 << 18) if self._line_guard.intact() else b""
        except OSError:
            return b""

    def _handle(self, message: ToWorker) -> None:
        match message:
            case Run(orders):
                with self._arrived:
                    self._waiting.update(orders)
                    self._arrived.notify_all()
            case Valid(session, until):
                self._validity.extend(session, until)
            case RequestStop(ticket):
                self._asked.add(ticket)
            case Interrupt(ticket, cancelled):
                self._interrupts.raise_in(ticket, cancelled=cancelled)
            case Answer():
                self._remote.answered(message)
            case Measure(name, None):
                threading.Thread(target=self._measure, args=(name,), name=f"signal-{name}", daemon=True).start()
            case Measure(name, situation):
                threading.Thread(target=self._decide, args=(name, situation), name=name, daemon=True).start()

    def _decide(self, name: str, situation: PoolSituation) -> None:
        """Ask one of the app's deciders, beside the handlers."""
        decide = self._app.deciders.get(name.removeprefix(PREFIX))
        try:
            if decide is None:
                known = ", ".join(self._app.deciders) or "none"
                raise LookupError(f"the app has no decider {name.removeprefix(PREFIX)!r}; it has {known}")
            self.send(Measured(name, check_answer(decide(situation))))
        except Exception as error:  # noqa: BLE001 whatever the app's own function raises, the node must hear of it
            self.send(Measured(name, None, f"{type(error).__name__}: {error}"))

    def _measure(self, name: str) -> None:
        """Ask one of the app's signals. It runs beside the handlers, so a slow one keeps nobody waiting."""
        measure = self._app.signals.get(name)
        if measure is None:
            known = ", ".join(self._app.signals) or "none"
            self.send(Measured(name, None, f"the app has no signal {name!r}; it has {known}"))
            return
        try:
            value = float(measure())
            self.send(Measured(name, value if isfinite(value) else None, f"it is {value}"))
        except Exception as error:  # noqa: BLE001 whatever the app's own function raises, the node must hear of it
            self.send(Measured(name, None, f"{type(error).__name__}: {error}"))

    def _abandon(self, why: str) -> NoReturn:
        """End this process: it can no longer do its work. The nursery reports its death and ends what it leaves."""
        with suppress(OSError):
            os.write(2, f"worker {self._pid} ends: {why}\n".encode())
        os._exit(1)


class Validity:
    """The sessions that a worker has heard of, and until when each is surely valid."""

    def __init__(self) -> None:
        self._until: dict[UUID, float] = {}

    def extend(self, session: UUID, until: float) -> None:
        """Record what the node says about a session."""
        self._until[session] = until

    def covers(self, session: UUID, now: float) -> bool:
        """Return True if a lease of this session surely still holds."""
        return now < self._until.get(session, 0.0)


_HIGH = 512


def move_up(descriptor: int) -> int:
    """Move a descriptor above those that are closed by the dozen, or reused for new files; return its new number."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    least = _HIGH if soft == resource.RLIM_INFINITY else min(_HIGH, soft // 2)
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, least)
    os.close(descriptor)
    return moved


class Guard:
    """Knows whether a descriptor still stands for the file that it was made for."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._file = self._identity()

    def intact(self) -> bool:
        """Return False if the descriptor was closed, or stands for another file now."""
        try:
            return self._identity() == self._file
        except OSError:
            return False

    def _identity(self) -> tuple[int, int]:
        found = os.fstat(self._descriptor)
        return found.st_dev, found.st_ino
