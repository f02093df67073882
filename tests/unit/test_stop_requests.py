"""Requests to drain and stop workers and nodes: the rules about them, and the operations that make them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from windlass.clock import ManualClock
from windlass.core.stop_requests import (
    KIND,
    NAME,
    UNLISTED_KEPT,
    StopRequest,
    add_request,
    decode_requests,
    encode_requests,
    find_request,
)
from windlass.core.task import SessionId
from windlass.core.worker_list import WorkerList, WorkerProcess, encode_workers
from windlass.errors import ChangedMeanwhile, InvalidTask, NotAllowed, Refused, UnknownNode, UnknownWorker
from windlass.operations import nodes
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.caller import Caller, Scope
from windlass.stores.memory import MemoryStore

ADA = Author("ada", "it leaks")
BEN = Author("ben")
ABOUT = json.dumps({"pools": {"mail": {"queues": ["mail"]}}})


def a_request(session: str = "s", worker: int | None = 1, grace: float | None = None, **fields: Any) -> StopRequest:
    return StopRequest(session=session, worker=worker, grace=grace, by="ada", at=1, **fields)


def a_list(*numbers: int, more: int = 0, state: str = "busy") -> WorkerList:
    workers = (WorkerProcess(number=number, pool="mail", state=state, since=0) for number in numbers)
    return WorkerList(workers=tuple(workers), more=more)


ALIVE = {"s": a_list(1, 2)}


def test_requests_are_read_as_they_were_written() -> None:
    requests = (a_request(), a_request(worker=None, grace=0.0, why="it hangs"))

    assert decode_requests(encode_requests(requests)) == requests


@pytest.mark.parametrize("text", ["", "[]", '{"requests": [{"session": 7}]}'])
def test_an_unreadable_document_counts_as_empty(text: str) -> None:
    assert decode_requests(text) == ()


@pytest.mark.parametrize(
    ("before", "after", "is_added"),
    [
        (None, None, False),
        (None, 5.0, True),
        (5.0, None, False),
        (5.0, 5.0, False),
        (5.0, 60.0, False),
        (5.0, 0.0, True),
    ],
)
def test_a_request_that_asks_for_no_more_than_an_open_one_is_not_added(
    before: float | None, after: float | None, is_added: bool
) -> None:
    found = add_request([a_request(grace=before)], a_request(grace=after), ALIVE)

    assert found == ((a_request(grace=after),) if is_added else None)


def test_a_request_for_a_node_and_one_for_its_worker_are_separate() -> None:
    whole = a_request(worker=None)
    found = add_request([whole], a_request(), ALIVE)

    assert found == (whole, a_request())
    assert find_request(found, "s") == whole
    assert find_request(found, "s", 1) == a_request()
    assert find_request(found, "other") is None


def test_requests_for_what_has_ended_are_dropped_with_the_next_one() -> None:
    alive = {"s": a_list(2), "many": a_list(1, more=9)}
    stale = [a_request("gone"), a_request("gone", None), a_request("s", 1)]
    kept = [a_request("s", None), a_request("many", 77)]

    assert add_request([*stale, *kept], a_request("s", 2), alive) == (*kept, a_request("s", 2))


def test_a_request_for_a_worker_that_is_not_listed_is_dropped_after_a_while() -> None:
    alive = {"many": a_list(1, 2, more=9)}
    unlisted, listed, whole = a_request("many", 77), a_request("many", 1), a_request("many", None)
    later = replace(a_request("many", 2), at=1 + UNLISTED_KEPT)

    found = add_request([unlisted, listed, whole], later, alive)

    assert found == (listed, whole, later)


def test_a_request_describes_itself() -> None:
    assert a_request().describe() == "asked to drain by ada"
    assert a_request(grace=0.0, why="it hangs").describe() == "asked to stop by ada: it hangs"


# Operations


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(clock=ManualClock())


@pytest.fixture
def session(store: MemoryStore) -> SessionId:
    """A node named box-1 with two workers."""
    return open_node(store, "box-1")


def open_node(store: MemoryStore, name: str) -> SessionId:
    session = store.open_session(name, about=ABOUT)
    store.renew(session, workers=encode_workers(a_list(1, 2)))
    return session


def requests(store: MemoryStore) -> tuple[StopRequest, ...]:
    return nodes.read_requests(store.look([], ahead=timedelta(0)).controls)


def test_a_drain_is_stored_with_its_audit_entry_and_shown_with_the_worker(
    store: MemoryStore, session: SessionId
) -> None:
    nodes.drain(Access(store), "box-1", 2, author=ADA)

    [request] = requests(store)
    assert (request.session, request.worker, request.grace) == (str(session), 2, None)
    [entry] = store.audit("node/box-1")
    assert (entry.action, entry.by, entry.text) == ("drained", "ada", "worker 2 drained by ada: it leaks")
    data = {"session": str(session), "worker": 2, "grace": None, "action_id": ADA.action_id}
    assert json.loads(entry.data) == data
    view = nodes.get(Access(store), session)
    assert [view.describe_state(worker) for worker in view.workers.workers] == ["busy", "busy, drain requested"]
    store.renew(session, workers=encode_workers(a_list(1, 2, state="draining")))
    view = nodes.get(Access(store), session)
    assert [view.describe_state(worker) for worker in view.workers.workers] == ["draining", "draining"]


def test_a_stop_stores_the_time_for_running_tasks(store: MemoryStore, session: SessionId) -> None:
    nodes.stop(Access(store), str(session), 1, author=BEN)
    nodes.stop(Access(store), str(session), author=BEN, grace="1m")

    assert [(one.worker, one.grace) for one in requests(store)] == [(1, 5.0), (None, 60.0)]
    assert [entry.text for entry in store.audit("node/box-1")] == [
        "the node stopped by ben, with 60 s for running tasks",
        "worker 1 stopped by ben, with 5 s for running tasks",
    ]


def test_asking_twice_writes_nothing_the_second_time(store: MemoryStore, session: SessionId) -> None:
    nodes.drain(Access(store), "box-1", 1, author=ADA)
    again = nodes.drain(Access(store), "box-1", 1, author=BEN)
    nodes.stop(Access(store), "box-1", 1, author=BEN)
    nodes.drain(Access(store), "box-1", 1, author=ADA)

    assert again.find_request(1) is not None
    assert [(one.by, one.grace) for one in requests(store)] == [("ben", 5.0)], "a drain does not undo a stop"
    assert [entry.action for entry in store.audit("node/box-1")] == ["stopped", "drained"]


def test_an_unknown_node_or_worker_is_refused_and_what_exists_is_named(store: MemoryStore, session: SessionId) -> None:
    ended = open_node(store, "ended")
    store.close_session(ended)

    for name in ("box-7", "ended", str(ended)):
        with pytest.raises(UnknownNode, match=r"The running nodes are 'box-1'\."):
            nodes.drain(Access(store), name, author=ADA)
    with pytest.raises(UnknownWorker, match=r"Node 'box-1' has no worker 3, or it has ended. Its workers are 1, 2\."):
        nodes.stop(Access(store), "box-1", 3, author=ADA)
    assert (requests(store), store.audit()) == ((), [])


def test_a_worker_that_its_node_does_not_list_may_exist(store: MemoryStore, session: SessionId) -> None:
    store.renew(session, workers=encode_workers(a_list(1, more=300)))

    nodes.drain(Access(store), "box-1", 299, author=ADA)

    assert [one.worker for one in requests(store)] == [299]


def test_of_two_nodes_with_one_name_the_session_must_be_given(store: MemoryStore, session: SessionId) -> None:
    other = open_node(store, "box-1")

    with pytest.raises(InvalidTask, match="2 running nodes have the name 'box-1'") as error:
        nodes.drain(Access(store), "box-1", author=ADA)

    assert str(session) in str(error.value)
    assert str(other) in str(error.value)
    nodes.drain(Access(store), str(other), author=ADA)
    assert [one.session for one in requests(store)] == [str(other)]


def test_a_worker_over_http_takes_no_requests(store: MemoryStore) -> None:
    store.open_session("over-http", about=json.dumps({"queues": ["mail"], "slots": 2}))

    with pytest.raises(InvalidTask, match="worker over HTTP"):
        nodes.stop(Access(store), "over-http", author=ADA)


@pytest.mark.parametrize("grace", [-1, "2d", "soon"])
def test_an_invalid_grace_is_refused(store: MemoryStore, session: SessionId, grace: Any) -> None:
    with pytest.raises(InvalidTask, match="grace"):
        nodes.stop(Access(store), "box-1", 1, author=ADA, grace=grace)


def test_a_caller_who_is_limited_to_a_tenant_may_not_stop_nodes(store: MemoryStore, session: SessionId) -> None:
    caller = Caller(name="acme", scopes=frozenset({Scope.OPERATE}), tenant="acme")

    with pytest.raises(Refused):
        nodes.drain(Access(store, caller), "box-1", author=ADA)


def test_requests_of_two_people_at_once_are_both_kept(
    store: MemoryStore, session: SessionId, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, others = store.put_control, [lambda: nodes.drain(Access(store), "box-1", 2, author=BEN)]

    def put_after_another(*args: Any, **kwargs: Any) -> bool:
        if others:
            others.pop()()
        return put(*args, **kwargs)

    monkeypatch.setattr(store, "put_control", put_after_another)
    nodes.drain(Access(store), "box-1", 1, author=ADA)

    assert sorted(one.worker or 0 for one in requests(store)) == [1, 2]


def test_there_is_one_control_however_many_requests_were_made(store: MemoryStore) -> None:
    for number in range(20):
        session = open_node(store, f"box-{number}")
        nodes.drain(Access(store), f"box-{number}", 1, author=ADA)
        store.close_session(session)
    open_node(store, "last")
    nodes.drain(Access(store), "last", author=ADA)

    [control] = store.controls(KIND)
    assert control.name == NAME
    assert len(requests(store)) == 1


def test_a_request_for_which_there_is_no_room_says_what_to_do(
    store: MemoryStore, session: SessionId, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes.drain(Access(store), "box-1", 1, author=ADA)
    monkeypatch.setattr(nodes, "MAX_CONTROL", 150)

    with pytest.raises(NotAllowed, match=r"1 requests to drain or stop are open.* drain their whole node\."):
        nodes.drain(Access(store), "box-1", 2, author=ADA)


def test_endless_conflicts_are_reported(
    store: MemoryStore, session: SessionId, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "put_control", lambda *_, **__: False)

    with pytest.raises(ChangedMeanwhile):
        nodes.drain(Access(store), "box-1", author=ADA)
