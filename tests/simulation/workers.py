"""The simulated boundary of a node: its hub without sockets, and worker processes that only pretend to run handlers.

`SimulatedHub` is the real `SocketHub` with its descriptors replaced. `SimulatedWorker` does what `worker_main` does: it
takes tickets in order, starts nothing under a session that may have ended, and reports how each attempt ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tests.checker.records import Effect
from tests.simulation.scheduler import Host, SimulatedEvent
from windlass.core.ids import keyed_id
from windlass.core.retry import Error
from windlass.core.task import Claim, NewTask, SessionId
from windlass.worker.remote import encode_call, make_portable
from windlass.worker.socket_hub import MAX_WAIT_SECONDS, SocketHub
from windlass.worker.tickets import EXIT_TICKET
from windlass.worker.wire import Answer, Done, Heartbeat, Hello, Interrupt, RequestStop, ToWorker, Valid
from windlass.worker.worker import RunningAttempt, Worker

if TYPE_CHECKING:
    from tests.simulation.cluster import World

KILLED, SEGFAULT = -9, -11


class Plan(Struct):
    """What a handler does in one attempt."""

    seconds: float
    end: str
    """`returns`, `raises`, `crashes`, `exits` or `hangs`."""
    stops: bool
    """Whether it ends when it is asked to."""
    submits: bool = False
    """Whether it submits another task."""


class Run(Struct):
    """An attempt that runs in a worker."""

    ticket: int
    claim: Claim
    slots: int
    effect: Effect
    plan: Plan
    over: bool = False


class SimulatedWorker:
    """A worker process."""

    def __init__(self, world: World, hub: SimulatedHub, worker: Worker) -> None:
        self.alive = True
        self._world = world
        self._hub = hub
        self._worker = worker
        self._name = f"{hub.host.name}/{hub.host.boot}/{worker.number}"
        self._assigned: dict[int, tuple[SessionId, RunningAttempt]] = {}
        self._tickets: deque[int] = deque()
        self._valid: dict[SessionId, float] = {}
        self._running: dict[int, Run] = {}
        self._free = worker.threads
        self._taken: int | None = None
        """A ticket that was taken and waits for its slots."""
        self._exiting = False
        self._ready = False

    def start(self) -> None:
        """Be forked, and run the start hooks."""
        random = self._world.random
        if self._world.network.happens("failed_forks"):
            self._later(random.uniform(0.001, 0.02), lambda: self.exit(1))
        else:
            self._later(random.uniform(0.002, 0.05), self._say_hello)

    def assign(self, session: SessionId, until: float, attempts: Sequence[RunningAttempt]) -> None:
        self._valid[session] = max(until, self._valid.get(session, 0.0))
        self._assigned |= {one.ticket: (session, one) for one in attempts}

    def offer(self, tickets: Sequence[int]) -> None:
        self._tickets.extend(tickets)
        stalled = self._world.network.happens("stalled_workers")
        self._later(self._world.random.uniform(0.5, 3.0) if stalled else 0.0001, self._take)

    def take_back(self) -> list[int]:
        """Return the tickets that were not taken."""
        tickets = [ticket for ticket in self._tickets if ticket != EXIT_TICKET]
        self._tickets = deque(ticket for ticket in self._tickets if ticket == EXIT_TICKET)
        return tickets

    def receive(self, message: ToWorker) -> None:
        match message:
            case Valid(session, until):
                self._valid[SessionId(session)] = max(until, self._valid.get(SessionId(session), 0.0))
            case RequestStop(ticket):
                self._stop(ticket, 0.02)
            case Interrupt(ticket, _):
                run = self._running.get(ticket)
                if run is not None and run.plan.end != "hangs":
                    self._finish(run, Done(ticket, self._seconds(run), stopped="was interrupted"))
            case Answer(ticket, _, error):
                self._world.end_call(f"{self._name}:{ticket}", refused=error is not None)
            case _:
                pass

    def exit(self, code: int) -> None:
        """End the process. Its node notices a little later."""
        if not self.alive:
            return
        self.alive = False
        for run in self._running.values():
            run.over = True
        self._running.clear()
        self._hub.exited(self._worker.number, code, self._world.random.uniform(0.0005, 0.01))

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        """Call a function later, unless the process is gone by then; and after a pause of the machine."""

        def run() -> None:
            if not self.alive:
                return
            until = self._hub.host.machine_paused_until
            if until > self._world.scheduler.now:
                self._world.scheduler.call_at(until, run)
            else:
                action()

        self._world.scheduler.call_after(seconds, run)

    def _say_hello(self) -> None:
        self._ready = True
        self._hub.deliver(lambda now: self._hub.dispatcher.receive(self._worker, [Hello()], now))
        self._take()

    def _take(self) -> None:
        """Take tickets and start their attempts, strictly in order, each when its slots are free."""
        while self._ready and self._free and not self._exiting:
            if self._taken is None:
                if not self._tickets:
                    return
                self._taken = self._tickets.popleft()
            if self._taken == EXIT_TICKET:
                self._exiting = True
                break
            _, attempt = self._assigned[self._taken]
            if min(attempt.slots, self._worker.threads) > self._free:
                return
            self._taken = None
            self._start(attempt)
        if self._exiting and not self._running:
            self._later(self._world.random.uniform(0.0005, 0.01), lambda: self.exit(0))

    def _start(self, attempt: RunningAttempt) -> None:
        claim, ticket = attempt.claim, attempt.ticket
        session, _ = self._assigned.pop(ticket)
        if self._hub.clock.monotonic() >= self._valid.get(session, 0.0):  # As `run_attempt` does.
            self._report(Done(ticket, 0.0, released=0))
            return
        now = self._world.store.clock.now() / 1e6
        effect = Effect(task=str(claim.id), fence=claim.lease.fence, process=self._name, start=now)
        self._world.store.records.append(effect)
        plan = self._world.plan(claim)
        slots = min(attempt.slots, self._worker.threads)
        self._free -= slots
        run = self._running[ticket] = Run(ticket, claim, slots, effect, plan)
        if plan.end == "hangs":
            return
        if plan.seconds > 1.0:
            self._later(0.5, lambda: self._beat(run))
        self._later(plan.seconds, lambda: self._end(run))
        if plan.submits:
            self._later(plan.seconds * self._world.random.random(), lambda: self._submit(run))

    def _submit(self, run: Run) -> None:
        """Submit a task on behalf of a running attempt, as a handler does. Its process records the call."""
        claim = run.claim
        child = NewTask(handler=claim.handler, tenant=claim.tenant, queue=claim.queue, key=f"below {claim.id}")
        id = str(keyed_id(claim.tenant, None, child.key or ""))
        call = f"{self._name}:{run.ticket}"
        if not run.over:
            self._world.begin_call(call, "submit", claim.tenant, (id,))
            message = encode_call(run.ticket, run.ticket, "submit", ([make_portable(child)],), {"lease": None})
            self._hub.deliver(lambda now: self._hub.dispatcher.receive(self._worker, [message], now))

    def _beat(self, run: Run) -> None:
        if not run.over:
            self._hub.deliver(
                lambda now: self._hub.dispatcher.receive(self._worker, [Heartbeat(run.ticket, 0.5, "halfway")], now)
            )
            self._later(0.5, lambda: self._beat(run))

    def _end(self, run: Run) -> None:
        if run.over:
            return
        seconds = self._seconds(run)
        match run.plan.end:
            case "crashes":
                self.exit(SEGFAULT)
            case "exits":
                self.exit(0)
            case "raises":
                self._finish(run, Done(run.ticket, seconds, error=Error(kind="ValueError", message="as planned")))
            case _ if self._world.random.random() < 0.2:
                self._finish(run, Done(run.ticket, seconds, result=f'"{run.claim.lease.fence}"'))
            case _:
                self._finish(run, None)

    def _finish(self, run: Run, done: Done | None) -> None:
        """End an attempt and report it: through the pipe of ends if it only completed."""
        run.over, run.effect.end = True, self._world.store.clock.now() / 1e6
        del self._running[run.ticket]
        self._free += run.slots
        if done is not None:
            self._report(done)
        else:
            ended = [(run.ticket, self._seconds(run))]
            self._hub.deliver(lambda now: self._hub.dispatcher.complete(self._worker, ended, now))
        self._take()

    def _report(self, done: Done) -> None:
        self._hub.deliver(lambda now: self._hub.dispatcher.receive(self._worker, [done], now))

    def _stop(self, ticket: int, after: float) -> None:
        run = self._running.get(ticket)
        if run is not None and run.plan.stops:
            self._later(after, lambda: self._finish_stopped(run))

    def _finish_stopped(self, run: Run) -> None:
        if not run.over:
            self._finish(run, Done(run.ticket, self._seconds(run), stopped="stopped while running"))

    def _seconds(self, run: Run) -> float:
        return max(0.0, self._world.store.clock.now() / 1e6 - run.effect.start)


class NodeHost(Host):
    """The machine of a node. A pause stops the node's own process, or all of its processes."""

    def __init__(self, name: str, boot: int) -> None:
        super().__init__(name)
        self.boot = boot
        self.machine_paused_until = 0


class SimulatedHub(SocketHub):
    """The hub of a node, which gets messages from simulated workers instead of sockets."""

    world: World
    """Set before a node is made."""

    def __init__(self, settings: Any, store_url: str, listener: Any, events: Any, clock: Any, imported: Any) -> None:
        scheduler = self.world.scheduler
        host = scheduler.current.host
        assert isinstance(host, NodeHost)
        self.host = host
        self.clock = self._clock = clock
        self.lock = self.world.threading.RLock()
        self.freed = self.world.threading.Condition(self.lock)
        self.broken = None
        self.stuck = {}
        self.on_read = lambda _worker: None
        self._listener = listener
        self._events = events
        self._arrived: SimulatedEvent = self.world.threading.Event()
        self._inbox: list[Callable[[float], None]] = []
        self._processes: dict[int, SimulatedWorker] = {}
        self._next_tick = 0.0
        self._idle = self._all_busy = False
        self._parent_at = 0.0
        """When there is a worker parent; infinity if there is one."""

    def step(self) -> None:
        if self._all_busy:
            self._clock.sleep(MAX_WAIT_SECONDS)
        if not self._inbox:
            self._clock.wait(self._arrived, max(0.0, self._next_tick - self._clock.monotonic()))
        self._arrived.clear()
        with self.lock:
            messages, self._inbox = self._inbox, []
            now = self._clock.monotonic()
            for message in messages:
                message(now)
            if now >= self._next_tick:
                self._tick(now)
            self._all_busy = self.dispatcher.all_have_backlog()
            self.freed.notify_all()

    def deliver(self, message: Callable[[float], None]) -> None:
        """Pass a message of a worker to the next step."""
        self._inbox.append(message)
        self._arrived.set()

    def exited(self, number: int, code: int, after: float) -> None:
        """Report the exit of a process, as the worker parent does: after what the process has sent."""

        def report(now: float) -> None:
            worker = self.dispatcher.workers.get(number)
            if worker is not None:
                self.dispatcher.process_exited(worker, code, now)
            self._processes.pop(number, None)

        self.world.scheduler.call_after(after, lambda: self.deliver(report))

    def end_all(self) -> None:
        """End every worker, because their node is gone."""
        for process in self._processes.values():
            process.alive = False
            for run in process._running.values():
                run.over = True

    def lose_parent(self, back_in: float) -> None:
        """End the worker parent. Another one is there after some seconds."""
        self.end_all()

        def report(now: float) -> None:
            self.dispatcher.has_parent, self._parent_at = False, now + back_in
            for worker in self.dispatcher.workers.values():
                self.dispatcher.socket_closed(worker, now)
            for worker in list(self.dispatcher.workers.values()):
                self.dispatcher.process_exited(worker, KILLED, now, "died with its parent")
                self._processes.pop(worker.number, None)

        self.deliver(report)

    def wake(self) -> None:
        self._next_tick = 0.0
        self._arrived.set()

    def close(self) -> None:
        self.end_all()

    def _ensure_parent(self, now: float) -> None:
        if now >= self._parent_at:
            self._parent_at, self.dispatcher.has_parent = float("inf"), True
            self._listener.ready(self.world.manifest)

    def _drop_stalled(self, now: float) -> None: ...

    # The dispatcher's transport

    def send(self, worker: Worker, message: ToWorker) -> None:
        process = self._processes.get(worker.number)
        if process is not None:
            process._later(0.0001, lambda: process.receive(message))

    def run(self, worker: Worker, session: SessionId, until: float, attempts: Sequence[RunningAttempt]) -> None:
        process = self._processes.get(worker.number)
        if process is not None:
            process.assign(session, until, attempts)

    def fork(self, worker: Worker) -> None:
        process = self._processes[worker.number] = SimulatedWorker(self.world, self, worker)
        worker.pid = 1_000 + worker.number
        process.start()

    def offer(self, worker: Worker, tickets: list[int]) -> bool:
        process = self._processes.get(worker.number)
        if process is not None:
            process.offer(tickets)
        return True

    def take_back(self, worker: Worker) -> list[int]:
        process = self._processes.get(worker.number)
        return [] if process is None else process.take_back()

    def kill(self, worker: Worker) -> None:
        process = self._processes.get(worker.number)
        if process is not None:
            self.world.scheduler.call_after(self.world.random.uniform(0.0001, 0.005), lambda: process.exit(KILLED))

    def end_stray(self, pid: int) -> None: ...

    def memory(self, worker: Worker) -> int:
        return 20 << 20

    def answer(self, worker: Worker, answer: Answer) -> None:
        self.send(worker, answer)

    def count_unread(self, worker: Worker) -> int:
        return 0
