"""The store machine: random calls on a store and on the memory store, which must give the same results and states.

Both get the same clock and the same calls. Every task has a key, so ids agree; sessions are opened in pairs and
called by their number; an outcome is decided once, from what the model claimed. After each step every task, its
attempts, its edges and the counts are compared, and `Watch` holds the store against the promises themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import Any, NamedTuple, assert_never
from unittest.mock import patch
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from tests.properties import calls as draw
from tests.properties.calls import HELD, OVER, SCOPES, SECOND, STRAY, TaskSpec
from tests.properties.watch import Watch
from tests.support.builders import sweep_until_quiet
from windlass.clock import ManualClock
from windlass.core import waits
from windlass.core.fairness import TENANT, SetBy, Tenant, encode_tenant
from windlass.core.ids import keyed_id
from windlass.core.lifecycle import State
from windlass.core.limits import LIMIT, Limit, encode_limit
from windlass.core.retry import Retry
from windlass.core.settlement import Outcome, settle
from windlass.core.task import Attempt, Claim, Lease, NewTask, Progress, Rate, SessionId, Task, TaskId, Wait
from windlass.core.task_update import Version, version_of
from windlass.core.times import Micros, micros
from windlass.errors import QueueFull, SessionLost, StaleLease, WindlassError
from windlass.stores.coordination import Entry, EntrySeen, Look, Report
from windlass.stores.memory import MemoryStore
from windlass.stores.operator import EventSet
from windlass.stores.protocol import SESSION_TTL, Cursor, Filter, LeaseLost, Settled, Store, Swept
from windlass.stores.series import Resolution
from windlass.stores.sql import bulk, claim

ACT = Entry(subject="act/1", action="did", text="did something", by="ann")
COMPARED = [field for field in Swept.__struct_fields__ if field not in ("resolved", "healed")]
"""Of a sweep: how many edges were left to it is each store's own affair, and healed must be nothing at all."""


_NAMED = re.compile(r"^Prerequisite [0-9a-f-]{36} ")
_RUN_TIMES: list[Micros | None] = [None, 0, 100_000, 3_000_000]


class Held(NamedTuple):
    """A lease that was granted, with its session by number."""

    id: TaskId
    fence: int
    session: int
    claim: Claim


class Refusal(NamedTuple):
    """An error as a value, to be compared."""

    kind: type[WindlassError]
    facts: dict[str, Any]
    text: str


class Side:
    """One store, and the sessions it gave out, by number."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.sessions: list[SessionId] = []
        self.in_parts = False
        """True if an operation on a few tasks takes several transactions, as one on many tasks does. Of several
        prerequisites that it ends, the reason of a task names the one whose transaction came first."""

    def lease(self, held: Held, forged: int = 0) -> Lease:
        """A lease as this side has granted it, or one that nobody has."""
        return Lease(held.id, held.fence + forged, self.sessions[held.session])

    def answer(self, call: Callable[[Side], Any]) -> Any:
        """What the store says to a call, refusals included."""
        try:
            return call(self)
        except QueueFull:  # if several are full, any of them may be named
            return Refusal(QueueFull, {}, "")
        except (SessionLost, StaleLease) as error:  # they name the session, which is another on each side
            return Refusal(type(error), {}, "")
        except WindlassError as error:
            return Refusal(type(error), vars(error), str(error))

    def plain(self, value: Any) -> Any:
        """A value with numbers in place of this side's sessions, to be compared with the other side's."""
        match value:
            case Task(reason=str(reason)) if self.in_parts and _NAMED.match(reason):
                return self.plain(replace(value, reason=_NAMED.sub("A prerequisite ", reason)))
            case Task(session=None | waits.STORE_SESSION) | Attempt(session=waits.STORE_SESSION):
                return value
            case Task() | Attempt() | Lease():
                return replace(value, session=self.sessions.index(value.session))
            case Claim():
                return replace(value, lease=self.plain(value.lease))
            case Settled():
                return Settled(self.plain(value.lease), value.state)
            case LeaseLost():
                return LeaseLost(self.plain(value.lease))
            case Swept():
                assert value.healed == 0, f"P8: a wake-up was lost, and found by the sweep: {value}"
                return {field: getattr(value, field) for field in COMPARED}
            case Report():
                return replace(value, session=self.sessions.index(value.session))
            case Look():
                return replace(value, reports=self.plain(value.reports))
            case EntrySeen():
                return replace(value, number=0)
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
        self.watch = Watch()
        self.patched = ExitStack()
        self.bodies: dict[TaskId, NewTask] = {}
        self.held: list[Held] = []
        self.lost: set[int] = set()
        """Sessions that are known to be over."""
        self.seen: dict[UUID, Task] = {}
        """What the store held after the last step."""
        self.past: list[dict[UUID, Task]] = []
        """The same after the last few steps, the latest last."""
        self.unsealed = False
        self.keys = 0
        self.sound = True
        """False from the begin of a step to the end of the look that follows it."""

    @initialize(forward=st.booleans(), sealed=st.booleans(), first=draw.first, chunk=st.sampled_from(draw.CHUNKS))
    def begin(self, forward: bool, sealed: bool, first: list[TaskSpec], chunk: int) -> None:
        """Open the workflow `ahead`, and submit something to work on."""
        self.patched.enter_context(patch.object(bulk, "CHUNK", chunk))
        self.model.in_parts = self.real.in_parts = chunk == min(draw.CHUNKS)
        # A store learns within a second that a queue has become fair or limited; the model knows at once.
        self.patched.enter_context(patch.object(claim, "GUARD_SECONDS", 0.0))
        limit = 10 * SECOND if forward else None
        self.both(lambda side: side.store.open_workflow("ahead", sealed=sealed, forward=limit))
        self.unsealed = not sealed
        self._submit(draw.Submit(first))

    @rule(call=draw.calls)
    def step(self, call: draw.Call) -> None:
        self.sound = False
        match call:
            case draw.Submit():
                self._submit(call)
            case draw.ClaimTasks():
                self._claim(call)
            case draw.SettleTasks():
                self._settle(call)
            case draw.HoldSession():
                self._hold(call)
            case draw.Operate():
                self._operate(call)
            case draw.UpdateTask():
                self._update(call)
            case draw.PassTime():
                self._pass_time(call)
            case draw.Configure(queue, expect):
                self._act(lambda side: side.store.configure(queue, expect=expect, entries=[ACT]))
            case draw.Seal(missing):
                answer = self._act(lambda side: side.store.seal_workflow("ahead", missing=missing, entries=[ACT]))
                self.unsealed = self.unsealed and answer is not None
            case draw.SetEvent():
                self._set_event(call)
            case draw.RaiseEpoch():
                self.both(lambda side: side.store.raise_epoch())
            case draw.PutControl():
                self._put_control(call)
            case draw.SetLimit():
                self._set_limit(call)
            case draw.SetTenant():
                self._set_tenant(call)
            case _:
                assert_never(call)

    @invariant()
    def both_stand_alike(self) -> None:
        """Every task, the counts, and of what has changed the attempts and edges; then the promises themselves."""
        ids = sorted(self.bodies)
        tasks = self.both(lambda side: side.store.get(ids))
        standing: dict[UUID, Task] = {task.id: task for task in tasks if task is not None}
        self.both(lambda side: sorted(side.store.counts(), key=repr))
        self.both(lambda side: side.store.running())
        self.both(lambda side: [replace(one, charged=0) for one in side.store.accounts() if one.mean])
        if standing != self.seen:
            look = self.both(lambda side: side.store.look(draw.QUEUES, ahead=10 * SECOND))
            self.watch.look_from_above(standing, look)
        self.watch.look(standing)
        for task in standing.values():
            if self.seen.get(task.id) != task:
                self._look_closely(task)
        self.seen = standing
        self.past = [*self.past[-4:], standing]
        self.sound = True

    def teardown(self) -> None:
        """Once at the end: everything, changed or not, and the pages of `find`."""
        self.patched.close()
        if not self.sound:
            return  # a step has failed, and its own words are the ones to read
        for task in self.seen.values():
            self._look_closely(task)
        self.both(lambda side: _pages(side.store, 3))
        self.both(lambda side: side.store.queues())
        self.both(lambda side: side.store.dead_groups())
        for queue in (None, *draw.QUEUES):
            self.both(lambda side, queue=queue: side.store.series(queue, Resolution.SECOND, 0))
            self.both(lambda side, queue=queue: side.store.series(queue, Resolution.MINUTE, 0))
            self.both(lambda side, queue=queue: side.store.count(Filter(queue=queue, workflow="ahead")))

    def both(self, call: Callable[[Side], Any]) -> Any:
        """Make a call on both sides, compare the answers or refusals, and give the store's own answer."""
        expected, answered = self.model.answer(call), self.real.answer(call)
        model, store = self.model.plain(expected), self.real.plain(answered)
        assert store == model, f"the store says\n  {store}\nthe model says\n  {model}"
        return answered

    def _look_closely(self, task: Task) -> None:
        self.both(lambda side: side.store.attempts(task.id))
        self.both(lambda side: side.store.logs(task.id))
        self.both(lambda side: side.store.latest_output([task.id]))
        self.both(lambda side: side.store.progress_of([task.id]))
        around = self.both(lambda side: side.store.neighbourhood(task.id))
        self.watch.look_around(task, around, sealed=not (self.unsealed and task.workflow == "ahead"))

    def _submit(self, call: draw.Submit) -> None:
        known = self._some([self.bodies[id] for id in sorted(self.bodies)], call.again)
        tasks = [replace(task, args={"n": 1}) for task in known] if call.other_body else known
        for spec in call.batch:
            tasks.append(self._task(spec, tasks))
        held: Held | None = next(iter(self._some(self.held, [] if call.under is None else [call.under])), None)
        receipts = self.both(lambda side: side.store.submit(tasks, lease=held and side.lease(held)))
        if isinstance(receipts, list):
            for receipt, task in zip(receipts, tasks, strict=True):
                if receipt.created or receipt.id not in self.bodies:  # A unique task may be another one.
                    self.bodies[receipt.id] = task

    def _set_event(self, call: draw.SetEvent) -> None:
        tenant, workflow = SCOPES[call.scope]
        assert workflow is not None
        options: dict[str, Any] = {"tenant": tenant, "entries": [ACT]}
        answer = self._act(lambda side: side.store.set_event(workflow, call.event, call.value, **options))
        if isinstance(answer, EventSet):
            self.bodies.setdefault(answer.task, waits.new_event(workflow, call.event, tenant=tenant))

    def _claim(self, call: draw.ClaimTasks) -> None:
        number = self._session(call.session)
        how: dict[str, Any] = {"serves": call.serves, "merge": call.merge, "each": call.each}
        claims = self.both(lambda side: side.store.claim(side.sessions[number], call.queues, call.limit, **how))
        if call.merge and call.each:
            assert isinstance(claims, Refusal), "a claim that merges its queues has no shares of them"
            return
        if isinstance(claims, Refusal):
            self.lost.add(number)
            if call.session < OVER:  # as a node would: open another session, and try again
                self._claim(call)
            return
        self.watch.claimed(claims, self.clock.now(), call.serves)
        held = [Held(claim.id, claim.lease.fence, number, claim) for claim in claims]
        self.held += held
        self._report([(one, outcome, 0) for one, outcome in zip(held, call.ends, strict=False)])

    def _settle(self, call: draw.SettleTasks) -> None:
        leased = {id: task.fence for id, task in self.seen.items() if task.state is State.LEASED}
        kinds = {
            "live": [held for held in self.held if leased.get(held.id) == held.fence],
            "stale": [held for held in self.held if leased.get(held.id, held.fence) != held.fence],
        }
        self._report(
            [
                (held, spec.outcome, spec.forged)
                for spec in call.reports
                for held in self._some(kinds.get(spec.under) or self.held, [spec.lease])
            ]
        )

    def _report(self, batch: Sequence[tuple[Held, Outcome, int]]) -> None:
        """First how far the attempts have come and what they have printed, then how they ended.

        The end of every third one has no output, so that what it had printed stays.
        """
        ends = [
            replace(
                settle(held.claim, outcome, lambda: 0.5),
                log=f"{held.fence}" if held.fence % 3 else None,
                ran=_RUN_TIMES[held.fence % 4],
            )
            for held, outcome, _ in batch
        ]

        def report(side: Side) -> Any:
            leases = [side.lease(held, forged) for held, _, forged in batch]
            progress = [Progress(lease=lease, share=1 / (n + 1), message=f"{n}") for n, lease in enumerate(leases)]
            printed = [(lease, f"so far {lease.fence}") for lease in leases]
            return [
                side.store.progress(progress),
                side.store.record_output(printed),
                [side.store.logs(lease.task) for lease in leases[:1]],
                side.store.settle(list(zip(leases, ends, strict=True))),
            ]

        self.both(report)

    def _hold(self, call: draw.HoldSession) -> None:
        if call.action == "open":
            self._open_session(call.ttl)
            return
        number = self._session(call.session)
        if call.action == "close":
            self.both(lambda side: side.store.close_session(side.sessions[number]))
            self.lost.add(number)
        elif call.action == "report":
            self.both(lambda side: side.store.report(side.sessions[number], f"{self.clock.now()}"))
        elif isinstance(self.both(lambda side: side.store.renew(side.sessions[number])), Refusal):
            self.lost.add(number)

    def _open_session(self, ttl: timedelta = SESSION_TTL) -> None:
        for side in (self.model, self.real):
            side.sessions.append(side.store.open_session("node", ttl))

    def _session(self, number: int) -> int:
        """The number of a session that may be alive, opened if need be, or of one that is known to be over."""
        alive = [there for there in range(len(self.model.sessions)) if there not in self.lost]
        if number >= OVER and self.lost:
            return max(self.lost)
        if not alive:
            self._open_session()
            return len(self.model.sessions) - 1
        return alive[-1 - number % len(alive)]

    def _operate(self, call: draw.Operate) -> None:
        which = call.which.filter or self._tasks(call.which.tasks)
        match call.action:
            case "cancel" | "cancel and retry":
                options: dict[str, Any] = {"reason": "not wanted", "grace": call.grace, "entries": [ACT]}
                self._act(lambda side: side.store.cancel(which, **options))
                if call.action == "cancel and retry":
                    self._act(lambda side: side.store.retry(which, entries=[ACT]))
            case "retry":
                self._act(lambda side: side.store.retry(which, entries=[ACT]))
            case "retry from":
                self._act(lambda side: side.store.retry(which, dependents=True, entries=[ACT]))
            case "restore":
                self._act(lambda side: side.store.retry(which, dependents=True, restore=True, entries=[ACT]))
            case _:
                self._act(lambda side: side.store.purge(which, entries=[ACT]))

    def _update(self, call: draw.UpdateTask) -> None:
        for id in self._tasks([call.task]):
            options: dict[str, Any] = {"expect": self._seen_before(id, call.seen), "entries": [ACT]}
            answer = self._act(lambda side, id=id, options=options: side.store.update(id, call.change, **options))
            self.watch.updated(self.seen.get(id), options["expect"], answer)

    def _seen_before(self, id: TaskId, steps: int | None) -> Version | None:
        """The task as it was some steps ago, or as far back as is known."""
        if steps is None:
            return None
        past = [tasks[id] for tasks in self.past[-1 - steps :] if id in tasks]
        return version_of(past[0]) if past else None

    def _act(self, call: Callable[[Side], Any]) -> Any:
        """A change by a person: both stores audit it, or neither does."""
        answer = self.both(call)
        self.both(lambda side: side.store.audit("act/", limit=5))
        return answer

    def _pass_time(self, call: draw.PassTime) -> None:
        if call.renew:
            self._hold(draw.HoldSession("renew", 0, SESSION_TTL))
        self.clock.advance(call.by)
        # After the clock has gone back, claims pass over lanes of limits that they had looked at, until the next sweep.
        if call.sweep or call.by < timedelta(0):
            self.both(lambda side: sweep_until_quiet(side.store))

    def _put_control(self, call: draw.PutControl) -> None:
        known = {control.name: control.version for control in self.model.store.controls("pool")}
        expect = max(0, known.get(call.name, 0) + call.off)
        entry = Entry(subject=f"pool/{call.name}", action="put", text=f"{call.value}")

        def put(side: Side) -> Any:
            written = side.store.put_control("pool", call.name, call.value, expect=expect, entries=[entry])
            return [written, side.store.controls("pool"), side.plain(side.store.audit("pool/"))]

        written, controls, _ = self.both(put)
        self.watch.put(known, {control.name: control.version for control in controls}, call.name, written)

    def _set_limit(self, call: draw.SetLimit) -> None:
        rate = None if call.tasks is None else Rate(call.tasks, 10 * SECOND)
        limit = Limit(**call.scope, max_running=call.max_running, rate=rate, set_by=self._set_by(call.until))
        removed = call.max_running is None and rate is None
        self._put(LIMIT, limit.name, None if removed else encode_limit(limit))

    def _set_tenant(self, call: draw.SetTenant) -> None:
        by = self._set_by(call.until)
        tenant = Tenant(weight=call.weight, weight_set_by=by, paused=by if call.paused else None)
        self._put(TENANT, call.tenant, encode_tenant(tenant))

    def _set_by(self, seconds: int | None) -> SetBy:
        return SetBy(by="ann", until=None if seconds is None else self.clock.now() + micros(seconds * SECOND))

    def _put(self, kind: str, name: str, value: str | None) -> None:
        known = {control.name: control.version for control in self.model.store.controls(kind)}
        self.both(lambda side: side.store.put_control(kind, name, value, expect=known.get(name, 0)))

    def _tasks(self, numbers: Sequence[int]) -> list[TaskId]:
        leased = sorted(task.id for task in self.seen.values() if task.state is State.LEASED)
        everything = sorted(self.bodies)
        chosen = [self._some(leased if leased and number >= HELD else everything, [number]) for number in numbers]
        return [id for ids in chosen for id in ids]

    def _task(self, spec: TaskSpec, batch: Sequence[NewTask]) -> NewTask:
        tenant, workflow = SCOPES[spec.scope]
        known = [*(self.bodies[id] for id in sorted(self.bodies)), *batch]
        in_scope = [task for task in known if task.tenant == tenant and task.workflow in (workflow, None)]
        parents = self._some(in_scope, spec.parents)
        ids = [keyed_id(task.tenant, task.workflow, task.key or "") for task in parents]
        if spec.waits is not None:
            how: dict[str, Any] = {"prerequisites": ids, "on_failure": spec.on_failure}
            return self._wait(spec, expires=_seconds(spec.expires), **how)
        key = spec.key or f"n{self.keys}"
        self.keys += spec.key is None
        return NewTask(
            handler=spec.handler,
            args={"n": self.keys} if spec.unique and spec.unique.replace_args else {},
            key=key,
            tenant=tenant,
            workflow=workflow,
            queue=spec.queue,
            priority=spec.priority,
            delay=None if spec.unique and spec.unique.debounce else _seconds(spec.delay),
            deadline=_seconds(spec.deadline),
            expires=_seconds(spec.expires),
            prerequisites=[*ids, *self._ahead(spec)],
            on_failure=spec.on_failure,
            retry=Retry(retries=0 if spec.at_most_once else spec.retries, base=2 * SECOND),
            at_most_once=spec.at_most_once,
            downstream=spec.downstream,
            limit=spec.limit,
            max_running=None if spec.limit is None else 1 if spec.limit == "one" else 2,
            unique=spec.unique,
        )

    def _wait(self, spec: TaskSpec, **fields: Any) -> NewTask:
        """A step that waits for an event, or for a time."""
        tenant, workflow = SCOPES[spec.scope]
        length = None if spec.delay is None else micros(spec.delay * SECOND)
        if spec.waits != "sleep":
            wait = Wait(event=spec.waits, delay=length)
            return waits.new_event(workflow or "", spec.waits or "", tenant=tenant, wait=wait, **fields)
        self.keys += 1
        named: dict[str, Any] = {"key": f"n{self.keys - 1}", "tenant": tenant, "workflow": workflow}
        return NewTask(handler=waits.SLEEP, queue=waits.QUEUE, wait=Wait(delay=length or 0), **named, **fields)

    def _ahead(self, spec: TaskSpec) -> list[str]:
        named = spec.ahead is not None and (spec.ahead == STRAY or SCOPES[spec.scope][1] == "ahead")
        return [f"n{self.keys + (spec.ahead or 0)}"] if named else []

    def _some(self, things: Sequence[Any], numbers: Sequence[int]) -> list[Any]:
        """The things that these numbers mean, the latest first; none when there is nothing."""
        return [things[-1 - number % len(things)] for number in numbers if things]


def _seconds(number: int | None) -> timedelta | None:
    return None if number is None else number * SECOND


def _pages(store: Store, limit: int) -> list[Task]:
    found: list[Task] = []
    after: Cursor | None = None
    while True:
        page = store.find(Filter(), limit=limit, after=after)
        found += page.tasks
        after = page.after
        if after is None:
            return found
