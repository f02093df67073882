"""Which calls of the store a handler may make, and that their arguments and answers survive the way to the node."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import cast

import pytest
from msgspec.structs import replace

from tests.support.builders import GAVE_UP, a_task, claim_one, decided, submit
from windlass.clock import ManualClock
from windlass.core.fingerprint import error_group
from windlass.core.manifest import CronInfo, HandlerInfo, Manifest
from windlass.core.ordering import Queue
from windlass.core.task import Progress, TaskId
from windlass.errors import NotAllowed
from windlass.stores.coordination import Entry
from windlass.stores.protocol import Filter, Store
from windlass.stores.read_only import READS
from windlass.stores.series import Resolution
from windlass.wiring import open_store
from windlass.worker.remote import RemoteStore, decode_call, encode_answer
from windlass.worker.wire import Answer, Call

CASES: dict[str, Callable[[Store, TaskId], object]] = {
    "ahead": lambda store, id: store.ahead(id),
    "attempts": lambda store, id: store.attempts(id),
    "audit": lambda store, id: store.audit("task/1"),
    "controls": lambda store, id: store.controls("pool"),
    "count": lambda store, id: store.count(Filter(queue="default")),
    "counts": lambda store, id: store.counts(),
    "crons": lambda store, id: store.crons(),
    "dead_groups": lambda store, id: store.dead_groups(),
    "dead_ids": lambda store, id: store.dead_ids(error_group(GAVE_UP.error, None)),
    "dead_letters": lambda store, id: store.dead_letters(error_group(GAVE_UP.error, None)),
    "find": lambda store, id: store.find(Filter(workflow="w"), limit=1),
    "get": lambda store, id: store.get([id]),
    "handlers": lambda store, id: store.handlers(),
    "logs": lambda store, id: store.logs(id),
    "look": lambda store, id: store.look(["default"], ahead=timedelta(hours=1)),
    "neighbourhood": lambda store, id: store.neighbourhood(id),
    "progress_of": lambda store, id: store.progress_of([id]),
    "queues": lambda store, id: store.queues(),
    "series": lambda store, id: store.series("default", Resolution.SECOND, 0),
    "sessions": lambda store, id: store.sessions(workers=True),
    "workflow_edges": lambda store, id: store.workflow_edges("w", tenant="default", limit=10),
    "workflow_groups": lambda store, id: store.workflow_groups("w", tenant="default"),
    "workflow_steps": lambda store, id: store.workflow_steps("w", tenant="default"),
    "workflow_tenants": lambda store, id: store.workflow_tenants("w"),
    "workflows": lambda store, id: store.workflows(limit=1),
}


def remote(node_store: Store) -> Store:
    """Return a store as a handler has it, whose calls arrive at this store."""

    def send(call: Call) -> None:
        positional, named = decode_call(call)
        answer = getattr(node_store, call.method)(*positional, **named)
        found.receive(Answer(call.call, None if answer is None else encode_answer(answer)))

    found = RemoteStore(send, lambda _lease: 0)
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


def test_every_read_has_a_case() -> None:
    assert CASES.keys() == READS - {"close"}


@pytest.mark.parametrize("read", CASES)
def test_a_handler_gets_the_same_answer_as_its_node(read: str) -> None:
    store, id = filled_store()

    answer = CASES[read](remote(store), id)

    assert answer == CASES[read](store, id)
    assert answer or read == "ahead", "an empty answer shows nothing"


@pytest.mark.parametrize("method", ["claim", "settle", "raise_epoch", "put_control"])
def test_a_handler_may_not_make_the_calls_of_a_node_or_an_operator(method: str) -> None:
    store, _ = filled_store()

    with pytest.raises(NotAllowed, match=f"A handler may not call {method}. It may call all reads and cancel, "):
        getattr(remote(store), method)
