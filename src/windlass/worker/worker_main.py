"""The inside of a worker process: it runs assignments in order, and reports each outcome.

With one thread for tasks, `def` handlers run in the main thread, where a signal can interrupt even a blocking call, and
several `async def` handlers at once on the event loop. A thread
starts an assignment once it has taken its ticket from the pipe that it shares with the node; the assignment itself
comes over a socket that only this thread reads. Another thread reads the other messages of the node, so that a cancel
request arrives while a handler runs. A worker never opens a store: the store calls of handlers go to the node. If the
node is gone, the worker kills its whole process group.
"""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import socket
import threading
import traceback
from collections import Counter, deque
from contextlib import suppress
from math import isfinite
from typing import NoReturn, cast
from uuid import UUID

from windlass.client.app import App, bind_all
from windlass.client.context import Cancelled, SoftTimeout, current_assignment
from windlass.client.execution import describe_error, run_attempt
from windlass.clock import monotonic, sleep
from windlass.core.assignment import Assignment
from windlass.core.output import MAX_OUTPUT
from windlass.core.retry import storable
from windlass.core.settlement import Outcome, Raised, Returned
from windlass.custom_decider import PREFIX, PoolSituation, check_answer
from windlass.errors import NotAllowed
from windlass.stores.protocol import Store
from windlass.worker.async_runner import AsyncRunner
from windlass.worker.capture import Capture
from windlass.worker.django_connections import close_around_tasks
from windlass.worker.interrupts import Interrupts, describe_interruption
from windlass.worker.log_format import LogOptions, encode_line
from windlass.worker.remote import RemoteStore
from windlass.worker.thread_output import attribute_threads
from windlass.worker.tickets import EXIT_TICKET, TicketReader, encode_end
from windlass.worker.wire import (
    MAX_FAILURE,
    MAX_TEXT,
    Answer,
    Call,
    Fork,
    Frames,
    FromWorker,
    Heartbeat,
    Hello,
    Interrupt,
    Measure,
    Measured,
    Output,
    ParentFailed,
    RequestStop,
    Run,
    ToWorker,
    Valid,
    Waiting,
    WorkerFiles,
    encode_frame,
    encode_outcome,
)

_PROGRESS_SECONDS = 0.05
"""Seconds between two progress messages of one attempt. The node writes them less often still."""
_OUTPUT_SECONDS = 1.0
"""Seconds between two messages with the output of running attempts. An attempt that ends sooner sends none."""


def run_worker(app: App, files: WorkerFiles, request: Fork, log: LogOptions) -> int:
    """Run as a worker until the node asks it to exit. Return the exit status."""
    worker = WorkerMain(app, files, request, log)
    try:
        for hook in app.start_hooks:
            hook()
    except BaseException:  # noqa: BLE001 - the node reports whatever a hook raises
        text = f"a start hook failed:\n{traceback.format_exc(limit=-10)}"
        worker.send(ParentFailed(storable(text)[:MAX_FAILURE]))
        return 1
    worker.run()
    for hook in app.stop_hooks:
        hook()
    return 0


class WorkerMain:
    """The state of a worker process: its descriptors, its assignments and its threads."""

    def __init__(self, app: App, files: WorkerFiles, request: Fork, log: LogOptions) -> None:
        files = WorkerFiles(*map(move_descriptor_up, files))
        self._app = app
        self._control = socket.socket(fileno=files.control)
        self._control_guard = DescriptorGuard(files.control)
        self._tasks = socket.socket(fileno=files.tasks)
        self._tasks_guard = DescriptorGuard(files.tasks)
        self._runs: Frames[Run] = Frames(Run)
        self._tickets = TicketReader(files.tickets)
        self._ends = files.ends
        self._ends_guard = DescriptorGuard(files.ends)
        self._pid = os.getpid()
        self._threads = 1 if request.shares_loop else request.threads
        """How many threads run attempts."""
        self._sending = threading.Lock()
        self._waiting: deque[Assignment] = deque()
        self._exiting = False
        self._running: dict[int, float] = {}
        """When each running attempt started, by its ticket."""
        self._stop_requested: set[int] = set()
        self._progress_at: dict[int, float] = {}
        self._turn = threading.Lock()
        self._free = self._threads
        self._freed = threading.Condition()
        self._validity = Validity()
        self._interrupts = Interrupts()
        self._loop = AsyncRunner(
            app,
            self,
            self._interrupts,
            self._report,
            self._take_next,
            slots=request.threads if request.shares_loop else 1,
            tickets=files.tickets if self._threads == 1 else -1,
        )
        self._waits: Counter[int] = Counter()
        """How many waits for other tasks each running attempt has, by its ticket."""
        self._waits_lock = threading.Lock()
        self._log = log
        self._capture = Capture(self._running)
        self._remote = RemoteStore(self._call, self._current_ticket)
        bind_all(lambda: cast("Store", self._remote))  # as far as a handler may use one
        threading.Thread(target=self._listen, name="windlass-listen", daemon=True).start()
        threading.Thread(target=self._send_outputs, name="windlass-output", daemon=True).start()

    def run(self) -> None:
        """Run assignments until the node asks the worker to exit and all have ended."""
        self._capture.install(self._log)
        attribute_threads()
        close_around_tasks(self._app)
        self.send(Hello())
        if self._threads == 1:
            self._interrupts.use_signal()
            assignment = self._next()
            while assignment is not None:
                assignment = self._run(assignment) or self._next()
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
            if not self._control_guard.intact():
                self._abandon("a handler closed or replaced the socket to the node")
            self._control.sendall(data)

    # Called by running attempts (windlass.client.context.Channel)

    def progress(self, assignment: Assignment, share: float | None, message: str | None) -> None:
        """Send the progress of a handler, unless the last message was just sent."""
        ticket, now = assignment.ticket, monotonic()
        if ticket in self._running and now - self._progress_at.get(ticket, 0) >= _PROGRESS_SECONDS:
            self._progress_at[ticket] = now
            with self._interrupts.shield():
                self.send(Heartbeat(ticket, share, None if message is None else storable(message)[:MAX_TEXT]))

    def cancelled(self, assignment: Assignment) -> bool:
        """Return True if the node has asked this attempt to stop."""
        return assignment.ticket in self._stop_requested

    def waiting(self, assignment: Assignment, waits: bool) -> None:
        """Send that an attempt begins its first wait for another task, or has ended its last one."""
        ticket = assignment.ticket
        with self._interrupts.shield(), self._waits_lock:
            before = self._waits[ticket] > 0
            self._waits[ticket] += 1 if waits else -1
            after = self._waits[ticket] > 0
            if not after:
                del self._waits[ticket]
            if before != after and ticket in self._running:
                self.send(Waiting(ticket, after))

    def may_start(self, assignment: Assignment) -> bool:
        """Return True if the lease is certainly still valid. It may not be if this process or its node was paused."""
        return monotonic() < self._validity.until(assignment.session)

    def _run_threads(self) -> None:
        """Run assignments in one of several threads. They start strictly in order, each when its slots are free."""
        while True:
            with self._turn:
                with self._freed:
                    self._freed.wait_for(lambda: self._free >= 1)
                assignment = self._next()
                if assignment is None:
                    return
                needed = min(assignment.slots, self._threads)
                with self._freed:
                    self._freed.wait_for(lambda n=needed: self._free >= n)
                    self._free -= needed
            try:
                self._run(assignment)
            except BaseException:  # noqa: BLE001 - the outcome was not reported, so the process must exit
                traceback.print_exc()
                self._abandon("the outcome of an attempt could not be reported")
            finally:
                with self._freed:
                    self._free += needed
                    self._freed.notify()

    def _next(self, *, wait: bool = True) -> Assignment | None:
        """Take the next ticket and return its assignment. Return None if the worker shall exit, or must not wait."""
        ticket = EXIT_TICKET if self._exiting else self._tickets.take(wait=wait)
        if ticket is None:
            return None
        if ticket == EXIT_TICKET:
            self._exiting = True
            return None
        waiting = self._waiting
        while True:
            while waiting:
                assignment = waiting.popleft()
                if assignment.ticket == ticket:
                    return assignment
                # Otherwise the node has taken back its ticket.
            self._read_assignments()

    def _read_assignments(self) -> None:
        """Read what was sent over the socket for assignments. An assignment is sent before its ticket."""
        data = _receive(self._tasks, self._tasks_guard)
        for run in self._runs.feed(data):
            self._validity.extend(run.session, run.until)
            for assignment in run.assignments:
                assignment.session = run.session
            self._waiting.extend(run.assignments)
        if not data or self._runs.broken is not None:
            _end_process_group()

    def _take_next(self) -> Assignment | None:
        """Take the next assignment if it is there. The event loop calls this when an attempt has ended."""
        following = self._next(wait=False) if self._threads == 1 else None
        if following is not None:
            self._running[following.ticket] = monotonic()
        return following

    def _run(self, assignment: Assignment) -> Assignment | None:
        """Run one attempt and report its outcome. Return the next assignment if it was taken meanwhile."""
        self._running[assignment.ticket] = monotonic()
        if self._loop.handles(assignment):
            return self._loop.run(assignment)
        try:
            try:
                self._interrupts.begin(assignment.ticket)
                outcome = run_attempt(self._app, assignment, self)
            finally:
                self._interrupts.end(assignment.ticket)
        except (SoftTimeout, Cancelled) as error:
            outcome = describe_interruption(type(error))
        self._report(assignment, outcome)
        return None

    def _report(self, assignment: Assignment, outcome: Outcome) -> None:
        """Report the outcome of an attempt to the node."""
        ticket = assignment.ticket
        seconds = monotonic() - self._running.pop(ticket)
        self._stop_requested.discard(ticket)
        self._progress_at.pop(ticket, None)
        output = self._capture.take(ticket)
        if output is None and isinstance(outcome, Returned) and outcome.result is None:
            self._send_end(ticket, seconds)
            return
        try:
            self.send(encode_outcome(ticket, seconds, outcome, output))
        except (TypeError, ValueError, MemoryError, RecursionError) as error:  # It cannot be encoded.
            self.send(encode_outcome(ticket, seconds, Raised(describe_error(error)), None))

    def _send_end(self, ticket: int, seconds: float) -> None:
        """Report an attempt that completed without a result and without output."""
        if not self._ends_guard.intact():
            self._abandon("a handler closed or replaced the pipe to the node")
        os.write(self._ends, encode_end(ticket, seconds))

    def _send_outputs(self) -> None:
        """Send what running attempts print, while they run. Their ends do not wait for it."""
        with suppress(OSError):  # The node is gone. The thread that listens to it ends the process.
            while True:
                self._capture.wait_for_change()
                sleep(_OUTPUT_SECONDS)
                for ticket, text in self._capture.take_changed():
                    self.send(Output(ticket, storable(text)[:MAX_OUTPUT]))

    def _call(self, call: Call) -> None:
        with self._interrupts.shield():
            self.send(call)

    def _current_ticket(self) -> int:
        """Return the ticket of the attempt that runs in this context; 0 if there is none, or it has ended."""
        assignment = current_assignment()
        return assignment.ticket if assignment is not None and assignment.ticket in self._running else 0

    def _listen(self) -> None:
        """Read the messages of the node, whatever the handlers do."""
        frames: Frames[ToWorker] = Frames(ToWorker)
        try:
            while frames.broken is None and (data := _receive(self._control, self._control_guard)):
                for message in frames.feed(data):
                    self._handle(message)
        finally:
            _end_process_group()

    def _handle(self, message: ToWorker) -> None:
        match message:
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
            self.send(Measured(name, None, _describe(error)))

    def _measure(self, name: str) -> None:
        """Measure one of the app's signals, in a thread of its own so that a slow one delays nothing."""
        measure = self._app.signals.get(name)
        if measure is None:
            known = ", ".join(self._app.signals) or "none"
            self.send(Measured(name, None, f"the app has no signal {name!r}; it has {known}"[:MAX_TEXT]))
            return
        try:
            value = float(measure())
            self.send(Measured(name, value if isfinite(value) else None, f"it is {value}"))
        except Exception as error:  # noqa: BLE001 - the node reports whatever the app's function raises
            self.send(Measured(name, None, _describe(error)))

    def _abandon(self, why: str) -> NoReturn:
        """Exit, because the worker cannot continue. The worker parent reports the exit and kills what is left."""
        text = f"worker {self._pid} exits: {why}"
        if self._log.json:
            text = encode_line({"level": "error", "event": "WorkerExits", "message": text})
        with suppress(OSError):
            os.write(2, f"{text}\n".encode())
        os._exit(1)


class Validity:
    """Until when each session is certainly valid.

    The node computes each time from just before its latest successful renewal was sent, minus a margin. It uses a clock
    that all processes of the machine share, and that also runs while they, or the machine, are paused.
    """

    def __init__(self) -> None:
        self._until: dict[int, float] = {}
        self._lock = threading.Lock()

    def extend(self, session: UUID, until: float) -> None:
        """Record how long a session is valid, as reported by the node. An older report changes nothing."""
        with self._lock:  # The reports come over two sockets, which two threads read.
            self._until[session.int] = max(until, self._until.get(session.int, 0.0))

    def until(self, session: UUID) -> float:
        """Return until when a session is certainly valid; 0 if nothing is known about it."""
        return self._until.get(session.int, 0.0)


def _describe(error: Exception) -> str:
    return storable(f"{type(error).__name__}: {error}")[:MAX_TEXT]


def _receive(source: socket.socket, guard: DescriptorGuard) -> bytes:
    """Wait for bytes from the node. Return none if it is gone or unreachable."""
    try:
        return source.recv(1 << 18) if guard.intact() else b""
    except OSError:
        return b""


def _end_process_group() -> None:
    """Kill this process and what it started: the node is gone, so no result counts any more, and nobody else would."""
    os.killpg(0, signal.SIGKILL)


_HIGH_DESCRIPTOR = 512


def move_descriptor_up(descriptor: int) -> int:
    """Move a descriptor above those that handlers often close or reuse. Return its new number."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    least = _HIGH_DESCRIPTOR if soft == resource.RLIM_INFINITY else min(_HIGH_DESCRIPTOR, soft // 2)
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, least)
    os.close(descriptor)
    return moved


_MARK = int(signal.SIGRTMAX)


class DescriptorGuard:
    """Detects that a handler has closed or replaced a descriptor.

    It marks the open file with a signal number, which is never sent: that would need `O_ASYNC`. To read the mark takes
    0.2 µs, to compare the results of `fstat` 1.3.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, _MARK)

    def intact(self) -> bool:
        """Return False if the descriptor was closed, or refers to another file now."""
        try:
            return fcntl.fcntl(self._descriptor, fcntl.F_GETSIG) == _MARK
        except OSError:
            return False
