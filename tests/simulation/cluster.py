"""The simulated cluster: real nodes in virtual time, which start, stop, hang, die and come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from random import Random
from typing import Any

import msgspec

from tests.checker.records import End, Fault, Invoke, Lost
from tests.simulation.faults import EVENTS, Faults
from tests.simulation.scheduler import (
    SECOND,
    Host,
    Process,
    Scheduler,
    SimulatedClock,
    SimulatedEvent,
    SimulatedThreading,
)
from tests.simulation.store import START, Connection, Network, SharedStore
from tests.simulation.workers import NodeHost, Plan, SimulatedHub
from windlass.config import NodeSettings
from windlass.core.manifest import Manifest
from windlass.core.task import Claim, SessionId
from windlass.events import ControllerFailed, DutyFailed, Event, Events, SessionEnded, SessionOpened, StoreCallFailed
from windlass.stores.memory import sessions as memory_sessions
from windlass.stores.memory import submit as memory_submit
from windlass.worker import (
    autoscaler,
    breakers,
    claimer,
    crons,
    external_signals,
    handler_calls,
    node,
    session_keeper,
    settler,
    sweeper,
)
from windlass.worker.duty import Duty


class World:
    """Everything in one run."""

    def __init__(self, seed: int, faults: Faults, manifest: Manifest, store: type[SharedStore] = SharedStore) -> None:
        self.seed = seed
        self.scheduler = Scheduler(seed)
        self.random = self.scheduler.random
        self.threading = SimulatedThreading(self.scheduler)
        self.faults = faults
        self.manifest = manifest
        self.store = store(self.scheduler)
        self.network = Network(self.scheduler, self.store, faults)
        self.nodes: list[SimulatedNode] = []
        self.trace: list[str] | None = None
        self.problems: list[str] = []
        """Failures of the node's own threads."""

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return self.scheduler.now / SECOND

    def say(self, who: str, what: str) -> None:
        """Add a line to the trace, if one is wanted."""
        if self.trace is not None:
            self.trace.append(f"{self.seconds:10.6f} {who}: {what}")

    def plan(self, claim: Claim) -> Plan:
        """Draw what a handler does in one attempt."""
        args = msgspec.json.decode(claim.args)
        if args.get("poison"):
            return Plan(0.01, "crashes", stops=False)
        happens, random = self.network.happens, self.random
        ends = [end for end in ("raises", "crashes", "exits", "hangs") if happens(end)]
        end = ends[0] if ends else "returns"
        if end == "hangs" and claim.rules.timeout is None:
            end = "raises"  # Without a limit, it would hang for good.
        seconds = random.uniform(1.0, 4.0) if happens("slow") else random.choice((0.001, 0.01, 0.05, 0.2))
        if claim.rules.downstream is not None and self.scheduler.now < self.faults.until:
            end = "raises"  # What it needs is down until faults end.
        submits = bool(args.get("submits"))
        return Plan(seconds, end, stops=not happens("stubborn"), submits=submits)

    def begin_call(self, call: str, what: str, tenant: str, tasks: tuple[str, ...], node: str = "") -> None:
        """Record that a handler or an operator calls."""
        now = self.store.clock.now() / 1e6
        self.store.records.append(
            Invoke(call=call, process=call, what=what, at=now, tenant=tenant, tasks=tasks, node=node)
        )

    def end_call(self, call: str, *, refused: bool) -> None:
        """Record the answer. A refusal may be one of an unknown outcome."""
        now = self.store.clock.now() / 1e6
        self.store.records.append(End(call=call, status="unknown" if refused else "ok", at=now))

    def add_fault(self, kind: str, name: str, seconds: float | None) -> Fault:
        """Record a fault that begins now."""
        now = self.store.clock.now() / 1e6
        fault = Fault(kind=kind, node=name, start=now, end=None if seconds is None else now + seconds)
        self.store.records.append(fault)
        self.say("nemesis", f"{kind} {name or 'the store'} {'' if seconds is None else f'for {seconds:.3f} s'}")
        return fault

    def jump_clock(self, seconds: float) -> None:
        """Set the store's clock forward, and record it. On that clock, faults that are under way end later."""
        now = self.store.clock.now() / 1e6
        for fault in self.store.records:
            if isinstance(fault, Fault) and fault.end is not None and fault.end > now:
                fault.end += seconds
        self.add_fault("clock jump", "", seconds)
        self.store.clock.jump(seconds)

    def break_things(self) -> None:
        """Draw what happens to nodes and to the store, until faults end. The body of a process."""
        kinds = [kind for kind in EVENTS if kind in self.faults.kinds]
        while kinds and self.scheduler.now < self.faults.until:
            self.scheduler.sleep(self.random.expovariate(1.5))
            victim = self.random.choice(self.nodes)
            if self.random.random() < 0.6:
                self._await_work(victim)
            if self.scheduler.now < self.faults.until:
                self._break(self.random.choice(kinds), victim)

    def _await_work(self, victim: SimulatedNode) -> None:
        """Wait for a moment in which the node has tasks: then a fault matters most."""
        for _ in range(100):
            if victim.holds_tasks or self.scheduler.now >= self.faults.until:
                return
            self.scheduler.sleep(0.005)

    def _break(self, kind: str, victim: SimulatedNode) -> None:
        ttl = victim.settings.session_ttl.total_seconds()
        match kind:
            case "outages":
                seconds = self.random.uniform(0.05, 2.0)
                self.network.down_until = self.scheduler.now + round(seconds * SECOND)
                self.add_fault("outage", "", seconds)
            case "partitions":
                seconds = self.random.uniform(0.05, 2 * ttl)
                self.network.cut_until[victim.name] = self.scheduler.now + round(seconds * SECOND)
                self.add_fault("partition", victim.name, seconds)
            case "pauses":
                victim.pause(self.random.uniform(0.05, 2 * ttl), whole_machine=self.random.random() < 0.5)
            case "kills":
                victim.kill()
                if self.random.random() < 0.7:
                    self.scheduler.call_after(self.random.uniform(0.01, 1.5 * ttl), victim.start)
            case "drains":
                victim.drain(then_start=True)
                if self.random.random() < 0.3:
                    victim.hurry(self.random.uniform(0.0, 1.0))
            case "parent_deaths":
                victim.lose_parent()
            case "clock_jumps":
                self.jump_clock(self.random.uniform(0.1, 2 * ttl))
            case _:
                victim.resize(self.random.randint(0, 3))

    def heal(self) -> None:
        """End all faults: start what was killed, and go on with what was paused."""
        self.network.down_until = 0
        self.network.cut_until.clear()
        for one in self.nodes:
            one.start()
            paused = 0 if one.host is None else max(0, one.host.paused_until - self.scheduler.now)
            self.scheduler.call_after(paused / SECOND + 0.1, lambda one=one: one.resize(1))


class SimulatedNode:
    """A place for a node: it may be started again after it was killed or drained."""

    def __init__(self, world: World, settings: NodeSettings) -> None:
        self.world = world
        self.settings = settings
        self.name = settings.name
        self.host: NodeHost | None = None
        self.real: node.Node | None = None
        self._boots = 0
        self._killed: Fault | None = None
        self._draining: SimulatedEvent | None = None
        self._store_failures = 0
        self._opened: set[str] = set()
        """The sessions that it opened since it started."""
        self._dropped: set[SessionId] = set()
        """Those that it had to drop. The store may have them for a while."""

    @property
    def holds_tasks(self) -> bool:
        """Whether its workers have tasks."""
        return self.real is not None and self.real._hub.dispatcher.held > 0

    def start(self) -> None:
        """Start the node, unless it runs."""
        if self.host is not None:
            return
        self._boots += 1
        self._opened, self._dropped = set(), set()
        faults, random = self.world.faults, self.world.random
        host = self.host = NodeHost(self.name, self._boots)
        clock = SimulatedClock(
            self.world.scheduler,
            START,
            skew=random.uniform(-300.0, 300.0) if "skew" in faults.kinds else 0.0,
            drift=random.uniform(-0.01, 0.01) if "drift" in faults.kinds else 0.0,
        )
        if self._killed is not None:
            self._killed.end = self.world.store.clock.now() / 1e6
            self._killed = None
        self.world.say(self.name, "starts")
        self.world.scheduler.spawn(host, f"{self.name}/main", lambda: self._main(host, clock))

    def kill(self) -> None:
        """End the node and its workers, as SIGKILL and the kernel do."""
        if self.host is None:
            return
        self._killed = self.world.add_fault("kill", self.name, None)
        host, real, self.host, self.real = self.host, self.real, None, None
        self.world.scheduler.kill(host)
        self._draining = None
        if real is not None:
            hub: Any = real._hub
            self.world.scheduler.call_after(self.world.random.uniform(0.0, 0.02), hub.end_all)

    def pause(self, seconds: float, *, whole_machine: bool) -> None:
        """Stop the node for a while, with or without its workers."""
        if self.host is None:
            return
        self.world.add_fault("pause", self.name, seconds)
        self.world.scheduler.pause(self.host, seconds)
        if whole_machine:
            self.host.machine_paused_until = self.host.paused_until

    def drain(self, *, then_start: bool, done: Callable[[], None] = lambda: None) -> None:
        """Drain the node, and record it. At the end, call `done`.

        It counts as `ok` if no call failed, no session was lost, and the store has none that the node dropped before.
        """
        host, real = self.host, self.real
        if host is None or real is None or self._draining is not None:
            return
        ended = self._draining = SimulatedEvent(self.world.scheduler)
        failures, opened, records = self._store_failures, self._opened, self.world.store.records
        begun, sessions = len(records), self.world.store.tables.sessions
        is_left = any(not sessions[id].lost for id in self._dropped)
        self.world.say(self.name, "drains")
        call = f"drain:{self.name}:{self._boots}"
        self.world.begin_call(call, "drain", "", (), node=self.name)

        def wait() -> None:
            ended.wait()
            is_swept = any(isinstance(one, Lost) and one.session in opened for one in records[begun:])
            self.world.end_call(call, refused=is_left or is_swept or self._store_failures != failures)
            done()
            if then_start:
                self.start()

        self.world.scheduler.spawn(host, f"{self.name}/drain", real.drain)
        self.world.scheduler.spawn(Host("operator"), "drain", wait)

    def hurry(self, after: float) -> None:
        """Ask a draining node a second time, and a third time."""
        host, real = self.host, self.real
        if host is not None and real is not None:

            def ask_again() -> None:
                for ask in (real.shorten_drain, real.kill):
                    self.world.scheduler.sleep(after)
                    ask()

            self.world.scheduler.spawn(host, f"{self.name}/hurry", ask_again)

    def lose_parent(self) -> None:
        """End the process from which workers are forked, and with it every worker."""
        if self.real is not None:
            self.world.say("nemesis", f"ends the worker parent of {self.name}")
            hub: Any = self.real._hub
            hub.lose_parent(self.world.random.uniform(0.01, 0.5))

    def resize(self, size: int) -> None:
        """Set the size of the node's pool, as an operator does."""
        real = self.real
        if self.host is None or real is None:
            return
        [pool, *_] = self.settings.pools
        if pool.size is not None:
            self.world.scheduler.spawn(self.host, f"{self.name}/resize", lambda: real.resize(pool.name, size))

    def _main(self, host: NodeHost, clock: SimulatedClock) -> None:
        events = Events(self._on_event)
        real = self.real = node.Node(
            self.settings, lambda: Connection(self.world.network, host), "memory:", events, clock
        )
        real.start()
        real.ended.wait()
        real.close()
        if real.failure is not None:
            self.world.problems.append(f"{self.name} failed: {real.failure}")
        self.world.say(self.name, "has ended")
        self.host = self.real = None
        if self._draining is not None:
            self._draining.set()
            self._draining = None

    def _on_event(self, event: Event) -> None:
        if isinstance(event, DutyFailed | ControllerFailed):
            self.world.problems.append(f"{self.name}: {event}")
        if isinstance(event, StoreCallFailed):
            self._store_failures += 1
        if isinstance(event, SessionOpened):
            self._opened.add(str(event.session))
        if isinstance(event, SessionEnded) and event.why != "closed":
            self._store_failures += 1
            self._dropped.add(event.session)
        if self.world.trace is not None:
            self.world.say(self.name, repr(event))


class SimulatedDuty(Duty):
    """A thread of a node, as a process."""

    world: World
    _process: Process | None = None

    def start(self) -> None:
        scheduler = self.world.scheduler
        host = scheduler.current.host
        self._process = scheduler.spawn(host, f"{host.name}/{self._duty}", self.run)

    def join(self, timeout: float | None = None) -> None:
        if self._process is not None:
            self._process.ended.wait(timeout)


class SimulatedFuture:
    """A call that runs in a process of its own."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def done(self) -> bool:
        return self._process.ended.is_set()


class SimulatedExecutor:
    """`ThreadPoolExecutor` in virtual time, without a limit of threads."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._processes: list[Process] = []

    def submit(self, work: Callable[..., object], *args: Any) -> SimulatedFuture:
        scheduler = self._world.scheduler
        host = scheduler.current.host
        process = scheduler.spawn(host, f"{host.name}/call", lambda: work(*args))
        self._processes.append(process)
        return SimulatedFuture(process)

    def shutdown(self, *, cancel_futures: bool = False) -> None:
        for process in self._processes:
            process.ended.wait()


@contextmanager
def simulated(world: World) -> Iterator[None]:
    """Let the code of nodes and stores run in virtual time: replace its threads, its hub and its random numbers."""
    threaded = (autoscaler, breakers, crons, external_signals, handler_calls, node, session_keeper, settler)
    uniform, ids = world.random.uniform, Random(world.seed)
    patches: list[tuple[Any, str, Any]] = [(module, "threading", world.threading) for module in threaded]
    patches += [(module, "jitter", uniform) for module in (claimer, settler, sweeper)]
    patches += [
        (module, "entropy", lambda _numbers: lambda: ids.getrandbits(64)) for module in (memory_sessions, memory_submit)
    ]
    patches += [
        (settler, "_random", world.random.random),
        (node, "SocketHub", SimulatedHub),
        (node, "Duty", SimulatedDuty),
        (handler_calls, "ThreadPoolExecutor", lambda *_args, **_options: SimulatedExecutor(world)),
        (SimulatedHub, "world", world),
        (SimulatedDuty, "world", world),
    ]
    before = [(owner, name, owner.__dict__.get(name)) for owner, name, _ in patches]
    try:
        for owner, name, value in patches:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def make_node_settings(random: Random, name: str, ttl: timedelta, pools: tuple[Any, ...]) -> NodeSettings:
    """Return the settings of one node."""
    patience = random.choice((None, timedelta(seconds=1), timedelta(seconds=30)))
    return NodeSettings(app="sim:app", name=name, pools=pools, session_ttl=ttl, drain_timeout=patience)
