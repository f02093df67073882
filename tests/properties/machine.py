"""The store machine: random calls on a store and on the memory store beside it, which must answer and stand alike.

Both get the same clock and the same calls. Every task has a key, so ids agree; sessions are opened in pairs and
called by their number; an outcome is decided once, from what the model claimed. After each step every task, its
attempts, its edges and the counts are compared, and `Watch` holds the store against the promises themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from tests.properties.calls import (
    QUEUES,
    SCOPES,
    SECOND,
    ReportSpec,
    TaskSpec,
    WhichSpec,
    batches,
    changes,
    outcomes,
    queues,
    reports,
    steps,
    task_specs,
    which,
)
from tests.properties.watch import Watch
from tests.support.builders import sweep_until_quiet
from windlass.clock import ManualClock
from windlass.core.ids import keyed_id
from windlass.core.ordering import Queue
from windlass.core.retry import Retry
from windlass.core.settlement import Outcome, settle
from windlass.core.task import Attempt, Change, Claim, Lease, NewTask, SessionId, Task, TaskId
from windlass.errors import WindlassError
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Cursor, Filter, LeaseLost, Settled, Store, Swept

TTLS = [timedelta(seconds=15), timedelta(seconds=60)]
OVER = 9
"""A session drawn with at least this number is one that is over."""
sessions = st.integers(0, OVER)
COMPARED = [field for field in Swept.__struct_fields__ if field not in ("resolved", "healed")]
"""Of a sweep: how many edges it found left to resolve is each store's own affair, and healed must be nothing at all."""


class Held(NamedTuple):
    """A lease that was granted, with its session by number, and the task as it was then."""

    id: TaskId
    fence: int
    session: int
    task: Task


class Side:
    """One store, and the sessions it gave out, by number."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.sessions: list[SessionId] = []

    def plain(self, value: Any) -> Any:
        """A value with numbers in place of this side's sessions, to be compared with the other side's."""
        match value:
            case Task(session=None):
                return value
            case Task() | Attempt() | Lease():
                return replace(value, session=self.sessions.index(value.session))
            case Claim():
                return Claim(self.plain(value.lease), self.plain(value.task))
            case Settled():
                return Settled(self.plain(value.lease), value.state)
            case LeaseLost():
                return LeaseLost(self.plain(value.lease))
            case Swept():
                return {field: getattr(value, field) for field in COMPARED}
            case list():
                return [self.plain(member) for member in value]
            case _:
                return value


class StoreMachine(RuleBasedStateMachine):
    """Random calls on two stores."""

    def __init__(self, open_store: Callable[[ManualClock], Store]) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.model = Side(MemoryStore(clock=self.clock))
        self.real = Side(open_store(self.clock))
        self.bodies: dict[TaskId, NewTask] = {}
        self.leases: list[Held] = []
        self.watch = Watch()
        self.seen: dict[UUID, Task] = {}
        self.unsealed = False
        self.lost: set[int] = set()
        """Sessions that are known to be over."""

    def both(self, call: Callable[[Side], Any]) -> Any:
        """Make a call on both sides, compare the answers or refusals, and give the store's own answer."""
        expected, answered = _answer(self.model, call), _answer(self.real, call)
        assert self.real.plain(answered) == self.model.plain(expected)
        return answered

    @initialize(forward=st.booleans(), sealed=st.booleans(), calm=st.booleans())
    def begin(self, forward: bool, sealed: bool, calm: bool) -> None:
        """Open the workflow that takes forward references, and the first session."""
        limit = 10 * SECOND if forward else None
        self.both(lambda side: side.store.open_workflow("ahead", sealed=sealed, forward=limit))
        self.unsealed = not sealed
        self._open_session(TTLS[calm])

    @rule(batch=batches)
    def submit(self, batch: list[TaskSpec]) -> None:
        self._submit(self._tasks(batch))

    @rule(roots=batches)
    def submit_roots(self, roots: list[TaskSpec]) -> None:
        """Tasks that can run at once, so that there is always something to claim."""
        self._submit(self._tasks([spec._replace(parents=(), stray=False, delay=None) for spec in roots]))

    @precondition(lambda self: self.bodies)
    @rule(again=st.integers(0, 40), also=st.none() | task_specs, other=st.booleans())
    def submit_again(self, again: int, also: TaskSpec | None, other: bool) -> None:
        """A known key with the same body, or (with another argument) a conflict; perhaps with a neighbour."""
        known = self._pick(self._bodies(), again)
        body = replace(known, args={"n": 1}) if other and also is not None else known
        self._submit([body, *self._tasks([] if also is None else [also])])

    @rule(session=sessions, names=st.sampled_from([QUEUES, QUEUES[::-1], QUEUES[1:]]), limit=st.integers(0, 5))
    def claim(self, session: int, names: list[str], limit: int) -> None:
        self._claim(self._session(session), names, limit)

    @rule(session=sessions, ends=st.lists(outcomes, min_size=1, max_size=4))
    def claim_and_settle(self, session: int, ends: list[Outcome]) -> None:
        claimed = self._claim(self._session(session), QUEUES, len(ends))
        self._settle([(entry, outcome, 0) for entry, outcome in zip(claimed, ends, strict=False)])

    @precondition(lambda self: self.leases)
    @rule(batch=reports)
    def settle(self, batch: list[ReportSpec]) -> None:
        """Reports under leases that stand, or that never will again: late, stale, forged, repeated."""
        self._settle(
            [
                (self._pick(self._live() if spec.live else self.leases, spec.lease), spec.outcome, spec.forged)
                for spec in batch
            ]
        )

    @rule(deed=st.sampled_from(["open", "renew", "renew", "close"]), session=sessions, ttl=st.sampled_from(TTLS))
    def hold_session(self, deed: str, session: int, ttl: timedelta) -> None:
        if deed == "open":
            self._open_session(ttl)
            return
        number = self._session(session)
        if deed == "renew":
            self._heed(number, self.both(lambda side: side.store.renew(side.sessions[number])))
        else:
            self.both(lambda side: side.store.close_session(side.sessions[number]))
            self.lost.add(number)

    @precondition(lambda self: self.bodies)
    @rule(chosen=which, grace=st.sampled_from([timedelta(0), 10 * SECOND]))
    def cancel(self, chosen: WhichSpec, grace: timedelta) -> None:
        tasks = self._which(chosen)
        self.both(lambda side: side.store.cancel(tasks, reason="not wanted", grace=grace))

    @precondition(lambda self: self.bodies)
    @rule(task=st.integers(0, 40), change=changes)
    def update(self, task: int, change: Change) -> None:
        id = self._pick(sorted(self.bodies), task)
        self.both(lambda side: side.store.update(id, change))

    @precondition(lambda self: self.bodies)
    @rule(chosen=which)
    def retry(self, chosen: WhichSpec) -> None:
        tasks = self._which(chosen)
        self.both(lambda side: side.store.retry(tasks))

    @precondition(lambda self: self.bodies)
    @rule(chosen=which)
    def purge(self, chosen: WhichSpec) -> None:
        tasks = self._which(chosen)
        self.both(lambda side: side.store.purge(tasks))

    @rule()
    def sweep(self) -> None:
        self.both(lambda side: sweep_until_quiet(side.store))

    @rule(by=steps)
    def let_time_pass(self, by: timedelta) -> None:
        self.clock.advance(by)

    @rule(by=steps)
    def let_time_pass_and_sweep(self, by: timedelta) -> None:
        self.clock.advance(by)
        self.sweep()

    @rule(deed=st.one_of(queues, queues, st.sampled_from(["seal", "seal with what is missing", "raise the epoch"])))
    def arrange(self, deed: Queue | str) -> None:
        """What is done to a store now and then."""
        if isinstance(deed, Queue):
            self.both(lambda side: side.store.configure(deed))
        elif deed == "raise the epoch":
            self.both(lambda side: side.store.raise_epoch())
        else:
            missing = deed != "seal"
            refusal = self.both(lambda side: side.store.seal_workflow("ahead", missing=missing))
            self.unsealed = self.unsealed and refusal is not None

    @invariant()
    def both_stand_alike(self) -> None:
        """Every task, the counts, and of what has changed the attempts and edges; then the promises themselves."""
        ids = sorted(self.bodies)
        tasks = self._alike(lambda store: store.get(ids))
        standing: dict[UUID, Task] = {task.id: task for task in tasks if task is not None}
        self._alike(lambda store: sorted(store.counts(), key=repr))
        self.watch.look(standing)
        for task in standing.values():
            if self.seen.get(task.id) != task:
                self._look_closely(task)
        self.seen = standing

    def teardown(self) -> None:
        """Once at the end: everything, changed or not, and the pages of `find`."""
        try:
            for task in self.seen.values():
                self._look_closely(task)
            self._alike(lambda store: _pages(store, 3))
            self._alike(lambda store: store.queues())
        finally:
            self.real.store.close()

    def _look_closely(self, task: Task) -> None:
        self._alike(lambda store: store.attempts(task.id))
        around = self._alike(lambda store: store.neighbourhood(task.id))
        self.watch.look_around(task, around, sealed=not (self.unsealed and task.workflow == "ahead"))

    def _alike(self, read: Callable[[Store], Any]) -> Any:
        return self.both(lambda side: read(side.store))

    def _open_session(self, ttl: timedelta) -> None:
        for side in (self.model, self.real):
            side.sessions.append(side.store.open_session("node", ttl))

    def _session(self, number: int) -> int:
        """The number of a session that may be alive; only the largest numbers mean those that are over."""
        alive = [there for there in range(len(self.model.sessions)) if there not in self.lost]
        if not alive:
            self._open_session(TTLS[0])
            alive = [len(self.model.sessions) - 1]
        return self._pick(sorted(self.lost) if self.lost and number >= OVER else alive, number)

    def _heed(self, number: int, answer: Any) -> None:
        if isinstance(answer, Refusal):
            self.lost.add(number)

    def _claim(self, number: int, names: list[str], limit: int) -> list[Held]:
        claims = self.both(lambda side: side.store.claim(side.sessions[number], names, limit))
        self._heed(number, claims)
        if isinstance(claims, Refusal):
            return []
        self.watch.claimed(claims, self.clock.now())
        held = [Held(claim.task.id, claim.lease.fence, number, claim.task) for claim in claims]
        self.leases += held
        return held

    def _settle(self, batch: Sequence[tuple[Held, Outcome, int]]) -> None:
        ends = [settle(held.task, outcome, lambda: 0.5) for held, outcome, _ in batch]

        def report(side: Side) -> Any:
            leases = [Lease(held.id, held.fence + forged, side.sessions[held.session]) for held, _, forged in batch]
            return side.store.settle(list(zip(leases, ends, strict=True)))

        self.both(report)

    def _submit(self, tasks: Sequence[NewTask]) -> None:
        receipts = self.both(lambda side: side.store.submit(tasks))
        if isinstance(receipts, list):
            for receipt, task in zip(receipts, tasks, strict=True):
                self.bodies[receipt.id] = task

    def _tasks(self, specs: Sequence[TaskSpec]) -> list[NewTask]:
        """The batch that the specs mean now."""
        tasks: list[NewTask] = []
        for spec in specs:
            tasks.append(self._task(spec, tasks))
        return tasks

    def _task(self, spec: TaskSpec, batch: Sequence[NewTask]) -> NewTask:
        tenant, workflow = SCOPES[spec.scope]
        known = [*(self.bodies[id] for id in sorted(self.bodies)), *batch]
        mine = [task for task in known if task.tenant == tenant and task.workflow in (workflow, None)]
        parents = [self._pick(mine, number) for number in spec.parents] if mine else []
        ids = [keyed_id(task.tenant, task.workflow, task.key or "") for task in parents]
        strays = [keyed_id(tenant, workflow, f"stray of {spec.key}")] if spec.stray else []
        return NewTask(
            handler=spec.handler,
            key=spec.key,
            tenant=tenant,
            workflow=workflow,
            queue=spec.queue,
            priority=spec.priority,
            delay=None if spec.delay is None else spec.delay * SECOND,
            deadline=None if spec.deadline is None else spec.deadline * SECOND,
            expires=None if spec.expires is None else spec.expires * SECOND,
            prerequisites=[*ids, *strays],
            on_failure=spec.on_failure,
            retry=Retry(retries=spec.retries, base=2 * SECOND),
        )

    def _which(self, spec: WhichSpec) -> Sequence[TaskId] | Filter:
        return spec.filter or [self._pick(sorted(self.bodies), number) for number in spec.tasks]

    def _live(self) -> list[Held]:
        """The leases that stand, as far as the last look tells; all of them if there are none."""
        live = [
            held
            for held in self.leases
            if (task := self.seen.get(held.id)) is not None and task.fence == held.fence and not task.state.final
        ]
        return live or self.leases

    def _bodies(self) -> list[NewTask]:
        return [self.bodies[id] for id in sorted(self.bodies)]

    def _pick(self, things: Sequence[Any], number: int) -> Any:
        return things[-1 - number % len(things)]


class Refusal(tuple[Any, ...]):
    """An error as a value, to be compared."""


def _answer(side: Side, call: Callable[[Side], Any]) -> Any:
    try:
        return call(side)
    except WindlassError as error:
        facts = {name: fact for name, fact in vars(error).items() if name != "session"}
        return Refusal((type(error), facts, None if hasattr(error, "session") else str(error)))


def _pages(store: Store, limit: int) -> list[Any]:
    found: list[Any] = []
    after: Cursor | None = None
    while True:
        page = store.find(Filter(), limit=limit, after=after)
        found += page.tasks
        after = page.after
        if after is None:
            return found
