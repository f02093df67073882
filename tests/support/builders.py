"""Helpers for tests of stores: tasks with defaults, sessions, claims, and ends of attempts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any, TypeVar

from windlass.autoscale.controller import Override
from windlass.core.lifecycle import State
from windlass.core.retry import Error, Retry
from windlass.core.settlement import COMPLETED, Outcome, Raised, Returned, Settlement, settle
from windlass.core.task import Claim, NewTask, SessionId, Task, TaskId
from windlass.stores.protocol import Filter, Store, Swept, TaskReader, TaskStore, Verdict

T = TypeVar("T")

MICROSECOND = timedelta(microseconds=1)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

OOPS = Error(kind="ValueError", message="oops", traceback="Traceback: …")
RAISED = Raised(OOPS)
GAVE_UP = Raised(OOPS, give_up=True)
NO_RETRY = Retry(retries=0)


def a_task(**changes: Any) -> NewTask:
    """A task that any store takes."""
    return NewTask(**{"handler": "work", **changes})


def after(key: str, *prerequisites: Any, **changes: Any) -> NewTask:
    """A task with a key that waits for these."""
    return a_task(key=key, prerequisites=prerequisites, **changes)


def submit(store: TaskStore, *tasks: NewTask) -> list[TaskId]:
    """Submit a batch; the ids."""
    return [receipt.id for receipt in store.submit(tasks)]


def submit_one(store: TaskStore, **changes: Any) -> TaskId:
    """Submit one task; its id."""
    return submit(store, a_task(**changes))[0]


def a_session(store: TaskStore, node: str = "node-1", **options: Any) -> SessionId:
    """A fresh session."""
    return store.open_session(node, **options)


def claim_all(store: TaskStore, session: SessionId | None = None, queues: Sequence[str] = ("default",)) -> list[Claim]:
    """Everything that can be claimed now."""
    return store.claim(session or a_session(store), queues, limit=10_000)


def claim_one(store: TaskStore, session: SessionId | None = None, queue: str = "default") -> Claim:
    """The first task that can be claimed; there must be one."""
    [claim] = store.claim(session or a_session(store), [queue], limit=1)
    return claim


def claimed_ids(claims: Sequence[Claim]) -> list[TaskId]:
    """Which tasks were claimed, in this order."""
    return [claim.id for claim in claims]


def complete(store: TaskStore, *claims: Claim) -> list[Verdict]:
    """Report that these attempts ended well."""
    return store.settle([(claim.lease, COMPLETED) for claim in claims])


def decided(claim: Claim, outcome: Outcome) -> Settlement:
    """What the rules make of an outcome; chance gives the middle of every interval."""
    return settle(claim, outcome, lambda: 0.5)


def report(store: TaskStore, claim: Claim, outcome: Outcome) -> Verdict:
    """Report the end of one attempt."""
    [verdict] = store.settle([(claim.lease, decided(claim, outcome))])
    return verdict


def run(store: TaskStore, outcome: Outcome, queue: str = "default") -> TaskId:
    """Claim the first task and end its attempt; its id."""
    claim = claim_one(store, queue=queue)
    report(store, claim, outcome)
    return claim.id


def run_all(store: TaskStore) -> list[TaskId]:
    """Claim and complete until nothing is left to claim; the ids in the order in which they ran."""
    ran: list[TaskId] = []
    session = a_session(store)
    while claims := claim_all(store, session):
        complete(store, *claims)
        ran += claimed_ids(claims)
        sweep_until_quiet(store)
    return ran


def in_state(store: Store, state: State) -> TaskId:
    """A fresh task, brought into this state. The store must hold nothing else that can be claimed."""
    match state:
        case State.WAITING:
            submit(store, a_task(key="blocker", queue="blockers"))
            return submit_one(store, prerequisites=["blocker"])
        case State.SCHEDULED:
            return submit_one(store, delay=DAY)
        case State.EXPIRED:
            return submit_one(store, expires=-SECOND)
        case State.CANCELLED:
            id = submit_one(store)
            store.cancel([id], reason="first")
            return id
        case _:
            id = submit_one(store)
    if state is not State.RUNNABLE:
        claim = claim_one(store)
        ends = {State.RETRYING: RAISED, State.COMPLETED: Returned(), State.FAILED: GAVE_UP}
        if state in ends:
            report(store, claim, ends[state])
    return id


def task_of(store: TaskReader, id: TaskId) -> Task:
    """The task as it stands now."""
    [task] = store.get([id])
    assert task is not None, f"{id} is gone"
    return task


def state_of(store: TaskReader, id: TaskId) -> State:
    """Where one task stands now."""
    return task_of(store, id).state


def states_of(store: TaskReader, ids: Sequence[TaskId]) -> list[State]:
    """Where these tasks stand now."""
    return [state_of(store, id) for id in ids]


def all_tasks(store: TaskReader) -> list[Task]:
    """Every task of the store, newest first."""
    page = store.find(Filter(), limit=10_000)
    tasks = page.tasks
    while page.after is not None:
        page = store.find(Filter(), limit=10_000, after=page.after)
        tasks += page.tasks
    return tasks


def sweep_until_quiet(store: TaskStore, most: int = 1_000) -> Swept:
    """Let time pass until there is nothing left to do; what was done in all."""
    total = Swept()
    for _ in range(most):
        swept = store.sweep()
        fields = [field for field in Swept.__struct_fields__ if field != "next_due"]
        sums = {field: getattr(total, field) + getattr(swept, field) for field in fields}
        total = Swept(**sums, next_due=swept.next_due)
        if swept.quiet:
            return total
    raise AssertionError(f"still busy after {most} sweeps: {total}")


def at_once(number: int, action: Callable[[int], T]) -> list[T]:
    """Run an action in several threads at the same time. Return the results by thread."""
    together = Barrier(number)

    def one(thread: int) -> T:
        together.wait()
        return action(thread)

    with ThreadPoolExecutor(number) as threads:
        return list(threads.map(one, range(number)))


def recounted(store: Store) -> dict[tuple[str, str, State], int]:
    """The counts as a look at every task gives them."""
    counts: dict[tuple[str, str, State], int] = {}
    for task in all_tasks(store):
        key = (task.queue, task.tenant, task.state)
        counts[key] = counts.get(key, 0) + 1
    return counts


def counted(store: TaskReader) -> dict[tuple[str, str, State], int]:
    """The counts as the store gives them."""
    return {(count.queue, count.tenant, count.state): count.tasks for count in store.counts()}


def a_pin(size: int, until: float, author: str = "", why: str = "") -> Override:
    """Return an override that sets exactly this size."""
    return Override(min=size, max=size, until=until, author=author, why=why)


def find_delays(retry: Retry, attempts: int) -> tuple[float, float]:
    """Return the shortest and the longest delay that a policy allows after this many failed attempts, in seconds."""
    base, cap = retry.base.total_seconds() * 2 ** (attempts - 1), retry.cap.total_seconds()
    return min(cap, base * 0.5), min(cap, base * 1.5)
