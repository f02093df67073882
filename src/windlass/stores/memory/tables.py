"""The tables of the memory store, and the only function that moves a task from one state to another."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple
from uuid import UUID

from msgspec import Struct
from msgspec.structs import asdict, replace

from windlass.core.continuation import Continuation
from windlass.core.fairness import Account, Usage
from windlass.core.graph import End
from windlass.core.ids import workflow_id
from windlass.core.lifecycle import MOVES, State
from windlass.core.manifest import CronState, HandlerSeen
from windlass.core.ordering import Place, Queue
from windlass.core.submission import InitialState
from windlass.core.task import Attempt, Lease, SessionId, Task, TaskId
from windlass.core.times import Micros
from windlass.errors import SessionLost, UnknownCron
from windlass.stores.coordination import Control, Entry, EntrySeen
from windlass.stores.protocol import ProgressSeen
from windlass.stores.series import Point, Resolution


class StoredSession(Struct, kw_only=True):
    """A session as the store keeps it."""

    node: str
    ttl: Micros
    renewed: Micros
    about: str = ""
    workers: str = ""
    lost: bool = False
    report: str = ""
    reported: Micros | None = None


class StoredWorkflow(Struct, kw_only=True):
    """A workflow that was opened with `open_workflow`."""

    sealed: bool
    forward: Micros | None
    check_later: bool = False
    """True after a cycle search exceeded its budget: the sweep then searches the whole workflow."""


class Placeholder(NamedTuple):
    """A task that was named as a prerequisite before it was submitted."""

    workflow: UUID
    expires: Micros


def limit_scopes(task: Task) -> tuple[str, str, str, str | None]:
    """Return what the limits of a task depend on."""
    return task.queue, task.tenant, task.handler, task.rules.limit


class Tables:
    """The state of the store. Callers hold the store's lock."""

    def __init__(self) -> None:
        self.tasks: dict[TaskId, Task] = {}
        self.places: dict[TaskId, Place] = {}
        self.first_due: dict[TaskId, Micros] = {}
        self.fingerprints: dict[TaskId, bytes | None] = {}
        self.prerequisites: dict[TaskId, dict[UUID, bool]] = {}
        self.dependents: defaultdict[UUID, list[TaskId]] = defaultdict(list)
        self.attempts: defaultdict[TaskId, list[Attempt]] = defaultdict(list)
        self.outputs: defaultdict[TaskId, dict[int, str]] = defaultdict(dict)
        """The output of attempts, by their fence."""
        self.progress: dict[TaskId, ProgressSeen] = {}
        self.error_groups: dict[TaskId, str] = {}
        """Of every task that has ever failed: the group of its latest failure."""
        self.cancel_by: dict[TaskId, Micros] = {}
        self.sessions: dict[SessionId, StoredSession] = {}
        self.held: defaultdict[SessionId, set[TaskId]] = defaultdict(set)
        self.workflows: dict[UUID, StoredWorkflow] = {}
        self.members: defaultdict[UUID, set[TaskId]] = defaultdict(set)
        self.placeholders: dict[TaskId, Placeholder] = {}
        self.queues: dict[str, Queue] = {}
        self.handlers: dict[str, HandlerSeen] = {}
        self.crons: dict[str, CronState] = {}
        self.controls: dict[tuple[str, str], Control] = {}
        self.versions: dict[tuple[str, str], int] = {}
        """The latest version of every control by kind and name, including removed ones."""
        self.audit: list[EntrySeen] = []
        self.entries = 0
        """The number of audit entries ever written."""
        self.series: dict[tuple[str, int, Micros], Point] = {}
        """What happened, by queue, resolution and start."""
        self.rolled_up: Micros | None = None
        """The minute in which old seconds were added up last."""
        self.counts: Counter[tuple[str, str, State]] = Counter()
        self.epoch = 0
        self.accounts: defaultdict[str, dict[str, Account]] = defaultdict(dict)
        """What each tenant has used, by fair queue."""
        self.active: defaultdict[str, set[str]] = defaultdict(set)
        """The tenants whose turn comes without joining again, by fair queue."""
        self.usage: defaultdict[str, list[Usage]] = defaultdict(list)
        """Attempts that have ended since the last claim, by fair queue."""
        self.charges: dict[TaskId, int] = {}
        """What the tenants of leased tasks in fair queues were charged."""
        self.running: Counter[tuple[str, str, str, str | None]] = Counter()
        """The number of leases by queue, tenant, handler and key of a limit."""
        self.full_at: dict[str, Micros] = {}
        """When the bucket of each rate is full again, by the name of its limit."""
        self.next_token: Micros | None = None
        """When a rate allows the next task, if one held back a task of the latest claim."""
        self.locks: dict[UUID, tuple[TaskId, Micros]] = {}
        """The task that holds each lock of unique tasks, and until when it counts after it has started."""
        self._runnable: defaultdict[str, dict[str, list[tuple[Place, TaskId]]]] = defaultdict(dict)
        self._oldest: defaultdict[str, list[tuple[Micros, TaskId]]] = defaultdict(list)
        self._timers: list[tuple[Micros, TaskId]] = []
        self._limits: list[tuple[Micros, TaskId]] = []

    def queue(self, name: str) -> Queue:
        """Return the settings of a queue, or the defaults."""
        return self.queues.get(name) or Queue(name=name)

    def cron(self, name: str) -> CronState:
        """Return a published cron, or raise `UnknownCron`."""
        known = self.crons.get(name)
        if known is None:
            raise UnknownCron(name)
        return known

    def live_session(self, id: SessionId) -> StoredSession:
        """Return a session that may claim and report, or raise `SessionLost`."""
        known = self.sessions.get(id)
        if known is None or known.lost:
            raise SessionLost(id)
        return known

    def insert(self, initial: InitialState, fingerprint: bytes | None) -> None:
        """Add a new task and its edges."""
        task = initial.task
        self.places[task.id] = initial.place
        self.first_due[task.id] = task.due
        self.fingerprints[task.id] = fingerprint
        if initial.edges:
            self.prerequisites[task.id] = dict(initial.edges)
            for above, _ in initial.edges:
                self.dependents[above].append(task.id)
        if task.workflow is not None:
            self.members[workflow_id(task.tenant, task.workflow)].add(task.id)
        self._put(task)

    def move(self, id: TaskId, state: State, **changes: Any) -> Task:
        """Change a task and its state. A move that `MOVES` does not allow is a bug in the store."""
        task = self.tasks[id]
        assert state is task.state or state in MOVES[task.state], f"{id}: no move {task.state} -> {state}"
        self.counts[task.queue, task.tenant, task.state] -= 1
        if task.state is State.LEASED and task.session is not None:
            self.held[task.session].discard(id)
            self.running[limit_scopes(task)] -= 1
        self._put(replace(task, state=state, **changes))
        return self.tasks[id]

    def change(self, id: TaskId, place: Place | None = None, **changes: Any) -> Task:
        """Change a task and keep its state."""
        if place is not None:
            self.places[id] = place
        return self.move(id, self.tasks[id].state, **changes)

    def continue_as(self, id: TaskId, continuation: Continuation) -> None:
        """Change a task whose attempt has ended to what it continues as, with what it waits for."""
        new, edges = continuation.then.new, self.prerequisites.setdefault(id, {})
        for above, ended in continuation.edges:
            if above not in edges:
                self.dependents[above].append(id)
            edges[above] = ended
        self.change(
            id,
            continuation.place,
            handler=new.handler,
            args=continuation.then.args,
            queue=new.queue,
            rules=continuation.then.rules,
            on_failure=new.on_failure,
            waiting=continuation.waiting,
            due=continuation.due,
            attempts=0,
            crashes=0,
            losses=0,
        )

    def remove(self, id: TaskId) -> None:
        """Remove a task and everything that belongs to it."""
        task = self.tasks.pop(id)
        self.counts[task.queue, task.tenant, task.state] -= 1
        if task.workflow is not None:
            self.members[workflow_id(task.tenant, task.workflow)].discard(id)
        for table in (self.places, self.first_due, self.fingerprints, self.attempts, self.outputs, self.progress):
            table.pop(id, None)
        self.cancel_by.pop(id, None)
        self.error_groups.pop(id, None)
        for above in self.prerequisites.pop(id, {}):
            self.dependents[above].remove(id)
        for below in self.dependents.pop(id, []):
            self.prerequisites[below].pop(id, None)

    def note(self, entries: Sequence[Entry], now: Micros) -> None:
        """Append to the audit log."""
        for entry in entries:
            self.entries += 1
            self.audit.append(EntrySeen(**asdict(entry), number=self.entries, at=now))

    def point(self, queue: str, now: Micros) -> Point:
        """Return the point of a queue that counts what happens now."""
        at = Resolution.SECOND.start(now)
        return self.series.setdefault((queue, Resolution.SECOND, at), Point(at=at))

    def list_tenants(self, queue: str) -> list[str]:
        """Return the tenants that have runnable tasks in a queue."""
        return sorted(tenant for tenant in self._runnable[queue] if self._get_heap(queue, tenant))

    def take_first(self, queue: str, tenant: str) -> TaskId | None:
        """Take the first runnable task of a tenant off its heap; None if there is none."""
        heap = self._get_heap(queue, tenant)
        return heappop(heap)[1] if heap else None

    def _get_heap(self, queue: str, tenant: str) -> list[tuple[Place, TaskId]]:
        """Return the runnable tasks of a tenant, without outdated entries at the head."""
        heap = self._runnable[queue].get(tenant, [])
        while heap:
            place, id = heap[0]
            task = self.tasks.get(id)
            if task is not None and task.state is State.RUNNABLE and self.places[id] == place:
                break
            heappop(heap)
        return heap

    def oldest(self, queue: str) -> Micros | None:
        """Return when the longest waiting runnable task of a queue became due; None if nothing is runnable."""
        heap = self._oldest[queue]
        while heap and not self._is_runnable(heap[0]):
            heappop(heap)
        return heap[0][0] if heap else None

    def timers(self, most: int) -> Iterator[Task]:
        """Yield the scheduled and retrying tasks in due order, at most `most` of them. The heap stays as it is."""
        seen: set[TaskId] = set()
        ahead = [(self._timers[0], 0)] if self._timers else []
        while ahead and len(seen) < most:  # Walk the heap from its root: the entries below an entry are later.
            (due, id), place = heappop(ahead)
            for below in (2 * place + 1, 2 * place + 2):
                if below < len(self._timers):
                    heappush(ahead, (self._timers[below], below))
            if self._is_timed(due, id) and id not in seen:
                seen.add(id)
                yield self.tasks[id]

    def holds(self, lease: Lease) -> bool:
        """Return True if the task is leased under this lease now."""
        task = self.tasks.get(lease.task)
        if task is None or task.state is not State.LEASED:
            return False
        return (task.fence, task.session) == (lease.fence, lease.session)

    def next_due(self) -> tuple[Micros, TaskId] | None:
        """Return the scheduled or retrying task that is due next, if any. It stays in the heap."""
        while self._timers:
            due, id = self._timers[0]
            if self._is_timed(due, id):
                return due, id
            heappop(self._timers)
        return None

    def next_expired(self, now: Micros) -> TaskId | None:
        """Take an unleased, unfinished task whose expiry has passed off the heap. None if there is none."""
        while self._limits and self._limits[0][0] <= now:
            limit, id = heappop(self._limits)
            task = self.tasks.get(id)
            if task is not None and not task.state.final and task.state is not State.LEASED and task.expires == limit:
                return id
        return None

    def end_of(self, above: UUID) -> End | None:
        """Return how a prerequisite has ended, or None while it is open."""
        task = self.tasks.get(TaskId(above))
        return End(task.state.value) if task is not None and task.state.final else None

    def put_back(self, id: TaskId) -> None:
        """Return an unchanged task to the heap of `take_first`."""
        self._push_runnable(self.tasks[id])

    def _push_runnable(self, task: Task) -> None:
        heappush(self._runnable[task.queue].setdefault(task.tenant, []), (self.places[task.id], task.id))

    def _is_timed(self, due: Micros, id: TaskId) -> bool:
        task = self.tasks.get(id)
        return task is not None and task.state in (State.SCHEDULED, State.RETRYING) and task.due == due

    def _is_runnable(self, entry: tuple[Micros, TaskId]) -> bool:
        task = self.tasks.get(entry[1])
        return task is not None and task.state is State.RUNNABLE and task.due == entry[0]

    def _keep_oldest(self, task: Task) -> None:
        """Record when a task became due, and drop outdated entries once there are many of them."""
        heap = self._oldest[task.queue]
        heappush(heap, (task.due, task.id))
        if len(heap) > 2 * sum(map(len, self._runnable[task.queue].values())) + 64:
            heap[:] = {entry for entry in heap if self._is_runnable(entry)}
            heapify(heap)

    def _put(self, task: Task) -> None:
        self.tasks[task.id] = task
        self.counts[task.queue, task.tenant, task.state] += 1
        match task.state:
            case State.RUNNABLE:
                self._push_runnable(task)
                self._keep_oldest(task)
            case State.SCHEDULED | State.RETRYING:
                heappush(self._timers, (task.due, task.id))
            case State.LEASED:
                assert task.session is not None
                self.held[task.session].add(task.id)
                self.running[limit_scopes(task)] += 1
            case _:
                pass
        if task.expires is not None and not task.state.final:
            heappush(self._limits, (task.expires, task.id))
