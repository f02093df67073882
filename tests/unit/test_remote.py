"""Which calls of the store a handler may make, and that their arguments and answers survive the way to the node."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast
from uuid import UUID

import pytest
from msgspec.structs import replace

from tests.support.builders import GAVE_UP, a_task, claim_one, decided, submit
from windlass.clock import ManualClock
from windlass.core.fingerprint import error_group
from windlass.core.manifest import CronInfo, HandlerInfo, Manifest
from windlass.core.ordering import Queue
from windlass.core.task import Progress, TaskId
from windlass.errors import DeadlineUnreachable, NotAllowed, UnknownTask, WindlassError
from windlass.operations.explain import explain
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Filter, Store
from windlass.wiring import open_store
from windlass.worker.call_queue import CallScope
from windlass.worker.handler_store import METHODS, HandlerStore
from windlass.worker.remote import RemoteStore, decode_call, encode_answer, encode_refusal
from windlass.worker.wire import Answer, Call

CASES: dict[str, Callable[[Store, TaskId], object]] = {
    "ahead": lambda store, id: store.ahead(id),
    "attempts": lambda store, id: store.attempts(id),
    "count": lambda store, id: store.count(Filter(queue="default")),
    "counts": lambda store, id: store.counts(),
    "dead_groups": lambda store, id: store.dead_groups(),
    "dead_ids": lambda store, id: store.dead_ids(error_group(GAVE_UP.error, None)),
    "dead_letters": lambda store, id: store.dead_letters(error_group(GAVE_UP.error, None)),
    "find": lambda store, id: store.find(Filter(workflow="w"), limit=1),
    "get": lambda store, id: store.get([id]),
    "logs": lambda store, id: store.logs(id),
    "neighbourhood": lambda store, id: store.neighbourhood(id),
    "progress_of": lambda store, id: store.progress_of([id]),
    "workflow_edges": lambda store, id: store.workflow_edges("w", tenant="default", limit=10),
    "workflow_groups": lambda store, id: store.workflow_groups("w", tenant="default"),
    "workflow_steps": lambda store, id: store.workflow_steps("w", tenant="default"),
    "workflows": lambda store, id: store.workflows(limit=1),
}


def remote(node_store: Store) -> Store:
    """Return a store as a handler has it, whose calls arrive at this store."""

    def send(call: Call) -> None:
        positional, named = decode_call(call)
        try:
            answer = getattr(HandlerStore(node_store, CallScope(None, {})), call.method)(*positional, **named)
        except WindlassError as error:
            found.receive(Answer(call.call, None, encode_refusal(error)))
        else:
            found.receive(Answer(call.call, None if answer is None else encode_answer(answer)))

    found = RemoteStore(send, lambda: 0)
    return cast("Store", found)


def filled_store() -> tuple[Store, TaskId]:
    """Return a store in which every read finds something, and a task that has failed in it."""
    store = open_store("memory:", clock=ManualClock())
    [first] = submit(store, a_task(workflow="w"))
    submit(store, a_task(workflow="w", prerequisites=[first]))
    claim = claim_one(store)
    store.progress([Progress(lease=claim.lease, share=0.5, message="half")])
    store.settle([(claim.lease, replace(decided(claim, GAVE_UP), log="a line"))])
    store.publish(
        Manifest(
            handlers=(HandlerInfo(name="send"),), crons=(CronInfo(name="daily", handler="send", schedule="0 6 * * *"),)
        )
    )
    store.configure(Queue(name="default", weight=2))
    store.put_control("pool", "mail", "3", expect=0)
    store.note([Entry(subject="task/1", action="did", text="did it")])
    return store, first


def test_every_call_has_a_case_or_changes_something() -> None:
    changes = {"submit", "cancel", "retry", "update", "open_workflow", "seal_workflow", "set_event"}
    assert CASES.keys() == METHODS - changes - {"check_admission", "explain"}


@pytest.mark.parametrize("read", CASES)
def test_a_handler_gets_the_same_answer_as_its_node(read: str) -> None:
    store, id = filled_store()

    answer = CASES[read](remote(store), id)

    assert answer == CASES[read](store, id)
    assert answer or read == "ahead", "an empty answer shows nothing"


@pytest.mark.parametrize("method", ["claim", "settle", "raise_epoch", "put_control", "controls", "audit", "purge"])
def test_a_handler_may_not_make_the_calls_of_a_node_or_an_operator(method: str) -> None:
    store, _ = filled_store()

    with pytest.raises(NotAllowed, match=f"A handler may not call {method}. It may call ahead, attempts, "):
        getattr(remote(store), method)


def test_a_handler_gets_the_explanation_of_a_task_from_its_node() -> None:
    store, id = filled_store()
    [task] = store.get([id])
    assert task is not None

    found: Any = remote(store)

    assert found.explain(id) == explain(store, task)
    with pytest.raises(UnknownTask):
        found.explain(TaskId(UUID(int=7)))


def test_the_node_checks_whether_the_deadline_of_a_task_can_be_met() -> None:
    store, _ = filled_store()
    store.configure(Queue(name="closed", paused=True))
    found: Any = remote(store)

    found.check_admission([a_task(queue="closed", deadline=timedelta(hours=1))])

    with pytest.raises(DeadlineUnreachable, match="it is paused"):
        found.check_admission([a_task(queue="closed", deadline=timedelta(hours=1), admit="strict")])
