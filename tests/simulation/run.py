"""One run: a cluster and a workload drawn from a seed, in virtual time, and the check of what it did."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from random import Random
from typing import Any

import msgspec
from msgspec import Struct

from tests.checker.records import AttemptRow, Bounds, Recording, SessionRow, TaskRow
from tests.checker.report import Finding, Report, check
from tests.simulation.cluster import SimulatedNode, World, make_node_settings, simulated
from tests.simulation.faults import Faults, draw_faults
from tests.simulation.scheduler import SECOND, Host
from tests.simulation.store import SharedStore, Violation
from tests.simulation.workload import CRON, MANIFEST, OperatorAtWork, Producer, Style
from windlass.config import PoolSettings
from windlass.core.task import Task
from windlass.stores.memory.tables import Tables

MOST_SECONDS = 60.0
"""How long after the end of all faults every task must have ended. A task that a killed node held, and that then waits
for three retries behind others, needs a fraction of it."""
BREAKER_SECONDS = 30.0 + 60.0 + 120.0 + 240.0
"""How much longer tasks of a downstream may wait: its breaker opens again if poison crashes while it probes."""
CALL_SECONDS = 2.0
"""How long a call to the store may last that began before the end of all faults, or just after a pause."""


class Mutant(Struct, frozen=True):
    """A mistake planted into the cluster: another class for the store, and changes while the run lasts."""

    name: str
    store: type[SharedStore] = SharedStore
    planted: Any = nullcontext
    """Returns a context manager within which the mistake is there."""

    def plant(self) -> AbstractContextManager[object]:
        return self.planted()


HONEST = Mutant("none")


class Outcome(Struct):
    """What one run did."""

    seed: int
    faults: Faults
    report: Report
    digest: str
    """A hash of everything that happened, in order."""
    seconds: float
    """Virtual seconds."""
    steps: int
    trace: list[str]
    records: list[Any]

    @property
    def findings(self) -> list[Finding]:
        return self.report.findings


def run(
    seed: int, *, faults: Faults | None = None, trace: bool = False, digest: bool = False, mutant: Mutant = HONEST
) -> Outcome:
    """Run one seed, with its own faults or with others."""
    draw = Random(seed)
    style = Style(draw)
    drawn = draw_faults(draw, round(draw.choice((1.0, 2.0, 4.0, 6.0)) * SECOND))
    manifest = msgspec.structs.replace(MANIFEST, crons=(CRON,)) if style.has_cron else MANIFEST
    world = World(seed, faults or drawn, manifest, mutant.store)
    world.trace = [] if trace else None
    simulation = _Simulation(world, style, draw)
    with simulated(world), mutant.plant():
        findings = simulation.run()
    records = [*world.store.records, *_read_store(world), simulation.bounds]
    report = check(Recording(records))
    report.findings[:0] = findings
    return Outcome(
        seed=seed,
        faults=world.faults,
        report=report,
        digest=_hash(records) if digest else "",
        seconds=world.seconds,
        steps=world.scheduler.steps,
        trace=world.trace or [],
        records=records,
    )


class _Simulation:
    """The nodes and clients of one run, from the first start to the last drain."""

    def __init__(self, world: World, style: Style, draw: Random) -> None:
        self._world = world
        ttl = timedelta(seconds=draw.choice((1.5, 2.0, 3.0)))
        self.bounds = Bounds(
            session_ttl=ttl.total_seconds(), recovery=2.0, notice=ttl.total_seconds() + 1.0, call=30.0, clock=0.0
        )
        if "clock_jumps" in world.faults.kinds:
            self.bounds.notice += MOST_SECONDS  # A node measures what is left of an expiry on its own clock.
        autoscaled, threads = draw.random() < 0.3, draw.choice((1, 1, 2, 3))
        for number in range(draw.choice((1, 2, 2, 3))):
            size = {"min": 1, "max": 3} if autoscaled else {"size": draw.randint(1, 3)}
            pool = PoolSettings(queues=style.queues, threads=max(threads, 2 if "slots" in style.options else 1), **size)
            settings = make_node_settings(draw, f"node-{number}", ttl, (pool,))
            world.nodes.append(SimulatedNode(world, settings))
        self._most_seconds = MOST_SECONDS + ("downstream" in style.options) * BREAKER_SECONDS
        self._operator = OperatorAtWork(world, draw, style)
        self._producers = [
            Producer(world, number, Random(draw.getrandbits(64)), style) for number in range(style.producers)
        ]
        self._submits = "submits" in style.options
        self._drained = 0
        self._quiet_from: int | None = None
        """From when on everything may be over. None while faults happen."""

    def run(self) -> list[Finding]:
        """Run until everything has ended. Return what the watch over the store found on the way."""
        world, scheduler = self._world, self._world.scheduler
        self._operator.configure()
        for node in world.nodes:
            scheduler.call_after(world.random.uniform(0.0, 0.3), node.start)
        for client in (*self._producers, self._operator):
            scheduler.spawn(client.client.host, client.client.name, client.run)
        scheduler.spawn(Host("nemesis"), "nemesis", world.break_things)
        scheduler.call_at(world.faults.until, self._heal)
        give_up_at = world.faults.until + round(self._most_seconds * SECOND)
        try:
            scheduler.run(lambda: self._is_quiet() or scheduler.now > give_up_at)
            self._drain_all()
            scheduler.run(lambda: self._drained == len(world.nodes) or scheduler.now > give_up_at + 60 * SECOND)
        except Violation as violation:
            rule, _, what = str(violation).partition(": ")
            self.bounds.finished = False
            return [Finding(rule, what)]
        finally:
            scheduler.kill_all()
        return [Finding("node", problem) for problem in world.problems]

    def _heal(self) -> None:
        world = self._world
        world.heal()
        self._quiet_from = world.scheduler.now
        if self._submits:  # A handler may submit when its node continues, although its own task has ended elsewhere.
            paused = [node.host.paused_until for node in world.nodes if node.host is not None]
            self._quiet_from = max([self._quiet_from, *paused]) + round(CALL_SECONDS * SECOND)

    def _is_quiet(self) -> bool:
        """Return True if all clients and calls of handlers have finished, and all tasks have ended."""
        if self._quiet_from is None or self._world.scheduler.now < self._quiet_from:
            return False
        if not self._operator.done or not all(one.done for one in self._producers):
            return False
        tables = self._world.store.tables
        if tables.crons and not all(cron.paused for cron in tables.crons.values()):
            self._world.store.pause_cron(CRON.name, True)
        return all(task.state.final for task in tables.tasks.values())

    def _drain_all(self) -> None:
        """Drain every node, with nothing broken any more."""
        world = self._world
        for node in world.nodes:
            if node.real is None or node._draining is not None:
                self._drained += 1
                continue
            node.drain(then_start=False, done=self._count_drained)

    def _count_drained(self) -> None:
        self._drained += 1


def _read_store(world: World) -> Iterable[Any]:
    """Yield the tables as the checker reads them."""
    tables = world.store.tables
    for task in tables.tasks.values():
        yield _task_row(tables, task)
    for id, attempts in tables.attempts.items():
        for one in attempts:
            yield AttemptRow(
                task=str(id),
                fence=one.fence,
                session=str(one.session),
                started=one.started / 1e6,
                ended=one.ended / 1e6,
                state=one.state.value,
                error="" if one.error is None else one.error.kind,
            )
    for session, stored in tables.sessions.items():
        yield SessionRow(id=str(session), node=stored.node)


def _task_row(tables: Tables, task: Task) -> TaskRow:
    return TaskRow(
        id=str(task.id),
        tenant=task.tenant,
        queue=task.queue,
        handler=task.handler,
        state=task.state.value,
        submitted=task.submitted / 1e6,
        finished=None if task.finished is None else task.finished / 1e6,
        expires=None if task.expires is None else task.expires / 1e6,
        key=task.key,
        prerequisites=tuple(str(above) for above in tables.prerequisites.get(task.id, {}) if above in tables.tasks),
        on_failure=task.on_failure.value,
        waiting=task.waiting,
        fence=task.fence,
        session="" if task.session is None else str(task.session),
        attempts=task.attempts,
        crashes=task.crashes,
        losses=task.losses,
        generation=task.generation,
        max_attempts=task.rules.retry.retries + 1,
        max_crashes=task.rules.max_crashes,
        at_most_once=task.rules.at_most_once,
        reason=task.reason or "",
    )


def _hash(records: Iterable[Any]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for record in records:
        digest.update(msgspec.json.encode(record))
    return digest.hexdigest()
