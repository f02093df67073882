"""What the node lets handlers do with the store: little, and only within the tenant of the task that asks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.builders import GAVE_UP, a_session, a_task, claim_all, decided
from windlass.clock import ManualClock, SystemClock
from windlass.core.filter import Condition, Op, Pattern, Query
from windlass.core.fingerprint import error_group
from windlass.core.lifecycle import State
from windlass.core.task import Change, Lease, NewTask, TaskId
from windlass.errors import InvalidPayload, InvalidTask, NotAllowed, StaleLease, UnknownTask, WindlassError
from windlass.events import Events
from windlass.stores.coordination import Entry
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Filter, Store
from windlass.worker import handler_store as module
from windlass.worker.call_queue import CallScope
from windlass.worker.handler_calls import HandlerCalls
from windlass.worker.handler_store import HandlerStore
from windlass.worker.remote import encode_call
from windlass.worker.wire import Answer
from windlass.worker.worker import Worker


class Tenants:
    """A store with a failed task of `acme` and one of `globex`, and a running task of each."""

    def __init__(self) -> None:
        self.store = MemoryStore(clock=ManualClock())
        for tenant in ("acme", "globex"):
            self.store.submit([a_task(tenant=tenant, workflow="w", args={"secret": tenant})])
        session = a_session(self.store)
        ended = claim_all(self.store, session)
        self.store.settle([(claim.lease, decided(claim, GAVE_UP)) for claim in ended])
        self.dead = {claim.tenant: claim.id for claim in ended}
        self.store.submit([a_task(tenant=tenant) for tenant in ("acme", "globex", "default")])
        self.claims = {claim.tenant: claim for claim in claim_all(self.store, session)}

    def as_task_of(self, *tenants: str) -> HandlerStore:
        """Return the store for a call of a task of the first tenant, in a process that runs tasks of all of these."""
        running = {self.claims[tenant].lease: tenant for tenant in tenants}
        return HandlerStore(self.store, CallScope(self.claims[tenants[0]].lease, running))

    def as_thread_among(self, *tenants: str) -> HandlerStore:
        """Return the store for a thread without a task, in a process that runs tasks of these tenants."""
        return HandlerStore(self.store, CallScope(None, {self.claims[name].lease: name for name in tenants}))


@pytest.fixture
def tenants() -> Tenants:
    return Tenants()


READS: dict[str, Callable[[HandlerStore, TaskId], object]] = {
    "get": lambda store, id: store.get([id])[0],
    "attempts": lambda store, id: store.attempts(id),
    "progress_of": lambda store, id: store.progress_of([id])[0],
    "logs": lambda store, id: store.logs(id),
    "neighbourhood": lambda store, id: store.neighbourhood(id).prerequisites,
    "ahead": lambda store, id: store.ahead(id),
}


@pytest.mark.parametrize("read", READS)
def test_a_task_of_another_tenant_does_not_exist_for_a_handler(tenants: Tenants, read: str) -> None:
    assert not READS[read](tenants.as_task_of("acme"), tenants.dead["globex"])


def test_a_handler_finds_counts_and_groups_tasks_of_its_tenant_only(tenants: Tenants) -> None:
    store = tenants.as_task_of("acme", "globex")

    assert {task.tenant for task in store.find(Filter()).tasks} == {"acme"}
    assert store.count(Filter()).tasks == 2
    assert {count.tenant for count in store.counts()} == {"acme"}
    assert [group.tenants for group in store.dead_groups().groups] == [["acme"]]
    assert [task.tenant for task in store.dead_letters(error_group(GAVE_UP.error, None)).tasks] == ["acme"]
    assert store.dead_ids(error_group(GAVE_UP.error, None)).ids == [tenants.dead["acme"]]
    assert {each.tenant for each in store.workflows().workflows} == {"acme"}
    assert store.attempts(tenants.dead["acme"])


FOREIGN: dict[str, Callable[[HandlerStore], object]] = {
    "find": lambda store: store.find(Filter(tenant="globex")),
    "count": lambda store: store.count(Filter(tenant="globex")),
    "cancel": lambda store: store.cancel(Filter(tenant="globex"), reason="mine"),
    "retry": lambda store: store.retry(Filter(tenant="globex")),
    "dead_groups": lambda store: store.dead_groups(tenant="globex"),
    "workflows": lambda store: store.workflows(tenant="globex"),
    "workflow_steps": lambda store: store.workflow_steps("w", tenant="globex"),
    "workflow_groups": lambda store: store.workflow_groups("w", tenant="globex"),
    "workflow_edges": lambda store: store.workflow_edges("w", tenant="globex"),
    "submit": lambda store: store.submit([a_task(tenant="globex")]),
    "submit to the tenant of the installation": lambda store: store.submit([a_task()]),
    "open_workflow": lambda store: store.open_workflow("new", tenant="globex"),
    "open_workflow with tasks": lambda store: store.open_workflow("n", tenant="acme", tasks=[a_task(tenant="globex")]),
    "seal_workflow": lambda store: store.seal_workflow("w", tenant="globex"),
}


@pytest.mark.parametrize("call", FOREIGN)
def test_a_handler_may_not_name_another_tenant(tenants: Tenants, call: str) -> None:
    with pytest.raises(NotAllowed, match="tenant"):
        FOREIGN[call](tenants.as_task_of("acme"))


def test_a_handler_changes_tasks_of_its_tenant_only(tenants: Tenants) -> None:
    store, theirs, mine = tenants.as_task_of("acme"), tenants.claims["globex"].id, tenants.claims["acme"].id

    assert store.cancel([theirs], reason="mine") == 0
    assert store.retry([tenants.dead["globex"]]) == 0
    with pytest.raises(UnknownTask):
        store.update(theirs, Change(priority=9))

    assert store.retry([tenants.dead["acme"], tenants.dead["globex"]]) == 1
    assert store.update(mine, Change(priority=9)).priority == 9
    assert store.cancel([mine, theirs], reason="done") == 1
    [unharmed] = tenants.store.get([theirs])
    assert unharmed is not None
    assert not unharmed.cancel_requested


def test_a_task_of_the_default_tenant_starts_work_for_others_and_does_not_see_it(tenants: Tenants) -> None:
    store = tenants.as_task_of("default")

    [receipt] = store.submit([a_task(tenant="globex")])

    assert store.get([receipt.id]) == [None]
    [stored] = tenants.store.get([receipt.id])
    assert stored is not None
    assert stored.tenant == "globex"


def test_a_thread_outside_of_a_task_may_do_what_the_tasks_of_its_process_may(tenants: Tenants) -> None:
    store = tenants.as_thread_among("acme", "globex")

    assert None not in store.get([tenants.dead["acme"], tenants.dead["globex"]])
    assert store.find(Filter(tenant="acme")).tasks
    with pytest.raises(NotAllowed, match="several tenants run in this process \\(acme, globex\\)"):
        store.find(Filter())
    assert tenants.as_thread_among("acme").get([tenants.dead["globex"]]) == [None]
    assert tenants.as_thread_among().get([tenants.dead["acme"]]) == [None], "a start hook acts for `default`"


def test_a_handler_submits_under_a_lease_of_its_own_process_only(tenants: Tenants) -> None:
    other = tenants.claims["globex"].lease

    with pytest.raises(StaleLease):
        tenants.as_task_of("acme").submit([a_task(tenant="globex")], lease=other)
    with pytest.raises(StaleLease):
        tenants.as_thread_among("acme").submit([a_task(tenant="acme")], lease=Lease(other.task, 9, other.session))
    mine = tenants.claims["acme"].lease
    assert tenants.as_thread_among("acme").submit([a_task(tenant="acme")], lease=mine)[0].created


def test_a_result_of_another_tenant_cannot_be_referenced(tenants: Tenants) -> None:
    args = {"stolen": {"$result": str(tenants.dead["globex"])}}

    with pytest.raises(InvalidPayload, match="is not a prerequisite"):
        tenants.as_task_of("acme").submit([a_task(tenant="acme", args=args)])
    named = a_task(tenant="acme", args=args, prerequisites=[tenants.dead["globex"]])
    with pytest.raises(InvalidTask, match="prerequisite"):
        tenants.as_task_of("acme").submit([named])


def test_conditions_that_no_filter_text_can_have_are_refused(tenants: Tenants) -> None:
    store = tenants.as_task_of("acme")
    condition = Condition(field="queue", op=Op.IS, values=(Pattern(("default",)),))
    wrong = Condition(field="__class__", op=Op.IS, values=(Pattern(("x",)),))

    assert len(store.find(Filter(query=Query((condition,)))).tasks) == 2
    for query in (Query((condition,) * 51), Query((wrong,))):
        with pytest.raises(WindlassError):
            store.find(Filter(query=query))


def test_large_answers_are_cut_or_refused(tenants: Tenants, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ANSWER", 30_000)
    monkeypatch.setattr(module, "_AT_ONCE", 2)
    tasks = [a_task(tenant="acme", args={"text": "x" * 10_000}, queue="large") for _ in range(5)]
    ids = [receipt.id for receipt in tenants.store.submit(tasks)]
    store = tenants.as_task_of("acme")

    pages = [store.find(Filter(queue="large"))]
    while pages[-1].after is not None:
        pages.append(store.find(Filter(queue="large"), after=pages[-1].after))

    assert [len(page.tasks) for page in pages] == [2, 2, 1]
    assert {task.id for page in pages for task in page.tasks} == {*ids}
    assert len(store.get(ids[:2])) == 2
    with pytest.raises(InvalidPayload, match="Ask for fewer"):
        store.get(ids)
    with pytest.raises(InvalidTask, match="at most 1,000 tasks"):
        store.find(Filter(), limit=1_001)
    with pytest.raises(InvalidTask, match="at most 1,000 tasks"):
        store.get([ids[0]] * 1_001)


def serve(store: Store, method: str, *positional: Any, **named: Any) -> Answer:
    """Return the node's answer to a call of a thread without a task."""
    answers: list[Answer] = []
    answered = threading.Event()

    def answer(_worker: Worker, given: Answer) -> None:
        answers.append(given)
        answered.set()

    calls = HandlerCalls(store, answer, Events(), SystemClock())
    call = encode_call(1, 1, method, positional, named)
    calls.call(Worker(1, "default", 1, 0.0, Events()), CallScope(None, {}), call)
    assert answered.wait(10)
    calls.close()
    return answers[0]


def test_a_handler_cannot_forge_an_audit_entry(tenants: Tenants) -> None:
    [id] = [receipt.id for receipt in tenants.store.submit([NewTask(handler="work")])]
    forged = [Entry(subject=f"task/{id}", action="cancelled", text="by the boss", by="boss")]

    answer = serve(tenants.store, "cancel", [id], reason="mine", entries=forged)

    assert answer.error is not None
    assert b"may not write audit entries" in answer.error
    assert tenants.store.audit() == []
    [task] = tenants.store.get([id])
    assert task is not None
    assert task.state is State.RUNNABLE


def test_calls_that_are_not_on_the_list_are_refused_by_the_node(tenants: Tenants) -> None:
    for method, positional in (("controls", ["token"]), ("sessions", []), ("purge", [[]]), ("raise_epoch", [])):
        answer = serve(tenants.store, method, *positional)
        assert answer.error is not None
        assert f"handlers may not call {method}".encode() in answer.error
