"""Messages that a handler could write to the socket of its worker: none of them harms the node or goes uncharged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fake_workers import FakeWorker, HubNode, hub_node
from tests.support.processes import until
from tests.unit.values import an_id
from windlass.core.payload import MAX_DEPTH
from windlass.core.retry import Error
from windlass.core.settlement import Crashed, Raised, Returned, Stopped
from windlass.core.task import NewTask
from windlass.stores.protocol import Filter
from windlass.worker import socket_hub, wire
from windlass.worker.call_queue import MAX_UNREAD
from windlass.worker.end_checks import find_fault
from windlass.worker.remote import encode_call
from windlass.worker.tickets import encode_end
from windlass.worker.wire import MARK, Answer, Call, Done, Heartbeat, Measured, Output, ParentFailed, encode_frame
from windlass.worker.worker import WorkerState


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubNode]:
    with hub_node(monkeypatch) as found:
        yield found


def raw(*fields: object) -> bytes:
    """Return a frame with any fields, checked by nobody."""
    body = msgspec.msgpack.encode(fields)
    return MARK + len(body).to_bytes(4, "big") + body


def start(node: HubNode) -> FakeWorker:
    """Give one task to a worker that starts it. Its ticket is 1."""
    [worker] = node.workers
    node.give(1)
    assert node.take_ticket(worker) == 1
    return worker


LONG = "x" * 300_000
INVALID: dict[str, bytes] = {
    "a result that is too large": encode_frame(Done(1, 0.1, result=f'"{LONG}"')),
    "a result that is not JSON": encode_frame(Done(1, 0.1, result='{"a":')),
    "a result with text after it": encode_frame(Done(1, 0.1, result="1 2")),
    "a result that is not a number": encode_frame(Done(1, 0.1, result="NaN")),
    "a result with NUL": encode_frame(Done(1, 0.1, result='"a\\u0000b"')),
    "a result nested too deeply": encode_frame(Done(1, 0.1, result="[" * 65 + "]" * 65)),
    "a result nested far too deeply": encode_frame(Done(1, 0.1, result="[" * 100_000 + "]" * 100_000)),
    "an error that is too long": encode_frame(Done(1, 0.1, error=Error(kind="E", message=LONG))),
    "a traceback that is too long": encode_frame(Done(1, 0.1, error=Error(kind="E", traceback=LONG))),
    "a class that is too long": encode_frame(Done(1, 0.1, error=Error(kind=LONG))),
    "output that is too long": encode_frame(Done(1, 0.1, log=LONG)),
    "output of a running attempt that is too long": encode_frame(Output(1, LONG)),
    "a reason that is too long": encode_frame(Done(1, 0.1, stopped=LONG)),
    "seconds that are not a number": raw("Done", 1, float("nan")),
    "infinite seconds": raw("Done", 1, float("inf")),
    "progress that is not a number": raw("Heartbeat", 1, float("nan"), None),
    "progress that is too long": encode_frame(Heartbeat(1, None, LONG)),
    "a signal that nobody asked for": encode_frame(Measured("load", 1.0)),
    "a failed start hook of a worker that has started": encode_frame(ParentFailed("no")),
    "a method that is too long": encode_frame(Call(1, 1, LONG, [], {})),
    "a frame that is too large": MARK + (wire.MAX_FRAME + 1).to_bytes(4, "big"),
    "invalid UTF-8": MARK + b"\0\0\0\x0f\x94\xa4Done\x01\xca\0\0\0\0\xa2\xff\xfe",
    "nesting": MARK + (100_008).to_bytes(4, "big") + b"\x94\xa5Hello\x01" + b"\x91" * 100_000,
}


@pytest.mark.parametrize("data", INVALID.values(), ids=INVALID)
def test_an_invalid_message_is_a_crash_that_is_charged_to_the_running_task(node: HubNode, data: bytes) -> None:
    worker = start(node)

    sent = 0
    while sent < len(data) and worker.number not in node.parent.killed:
        sent += worker.write(data[sent:])
        node.step()
    node.step()
    assert node.parent.killed == [worker.number], "the node kills the worker"
    node.reap()

    outcome = node.outcomes[1]
    assert isinstance(outcome, Crashed)
    assert "broke the protocol" in outcome.error.message


def test_an_attempt_that_ended_before_an_invalid_message_keeps_its_outcome(node: HubNode) -> None:
    [worker] = node.workers
    node.give(1, 2)
    assert (node.take_ticket(worker), node.take_ticket(worker)) == (1, 2)

    worker.send(Done(1, 0.1, result="7"))
    worker.send(Done(2, 0.1, result="not JSON"))
    node.step()
    node.reap()

    assert node.outcomes[1] == Returned("7")
    assert isinstance(node.outcomes[2], Crashed)


VALID: dict[str, Any] = {
    "the largest result": (Done(1, 0.1, result=f'"{"x" * (wire.MAX_BYTES - 2)}"'), Returned),
    "a result nested as deeply as allowed": (Done(1, 0.1, result="[" * 64 + "]" * 64), Returned),
    "brackets in text": (Done(1, 0.1, result=f'["\\"{"[" * 100}"]'), Returned),
    "an escaped escape": (Done(1, 0.1, result='"\\\\u0000"'), Returned),
    "large numbers and other scripts": (Done(1, 0.1, result='[1e300,-5,"é€😀",null,true]'), Returned),
    "a cut error": (Done(1, 0.1, error=Error(kind="E", message="x" * 4_140)), Raised),
    "a reason": (Done(1, 0.1, stopped="stopped"), Stopped),
}


@pytest.mark.parametrize(("done", "kind"), VALID.values(), ids=VALID)
def test_every_end_that_a_worker_of_ours_reports_is_accepted(node: HubNode, done: Done, kind: type) -> None:
    worker = start(node)
    data, sent = encode_frame(done), 0

    while sent < len(data):
        sent += worker.write(data[sent:])
        node.step()
    node.step()

    assert isinstance(node.outcomes[1], kind)
    assert node.parent.killed == []


def test_text_that_a_database_cannot_store_is_replaced_by_the_node(node: HubNode) -> None:
    worker = start(node)

    worker.send(Done(1, 0.1, error=Error(kind="E\0", message="a\0b"), log="c\0d"))
    node.step()

    outcome = node.outcomes[1]
    assert isinstance(outcome, Raised)
    assert (outcome.error.kind, outcome.error.message, node.logs[1]) == ("E\ufffd", "a\ufffdb", "c\ufffdd")


def test_the_output_of_an_attempt_that_a_worker_does_not_have_is_ignored(node: HubNode) -> None:
    worker = start(node)

    worker.send(Output(2, "of another"))
    worker.send(Output(1, "a\0b"))
    node.step()
    node.exit(worker)

    assert (node.logs, node.parent.killed) == ({1: "a\ufffdb"}, [])


def test_a_process_id_that_a_worker_sends_is_not_believed(node: HubNode) -> None:
    [worker] = node.workers

    worker.write(raw("Hello", 1))
    node.step()

    assert node.dispatcher.workers[worker.number].pid == 1 << 22


def test_a_signal_that_was_asked_for_is_accepted_once(node: HubNode) -> None:
    [worker] = node.workers
    measured: list[object] = []
    node.dispatcher.on_measured = lambda *given: measured.append(given)

    assert node.dispatcher.measure("default", "load")
    worker.send(Measured("load", 2.5))
    node.step()
    assert measured == [("default", "load", 2.5, "")]
    assert node.parent.killed == []
    worker.send(Measured("load", 2.5))
    node.step()

    assert node.parent.killed == [worker.number]


def a_call(number: int, ticket: int = 1) -> Call:
    return encode_call(number, ticket, "find", (Filter(),), {"limit": 1_000})


def test_a_worker_that_never_reads_its_answers_holds_little_memory_and_is_killed(node: HubNode) -> None:
    """The store has 20 tasks of 200 kB, so an answer has 4 MB, and all of them would have 400 GB."""
    node.store.submit([NewTask(handler="work", args={"text": "x" * 200_000}) for _ in range(20)])
    worker = start(node)
    data = b"".join(encode_frame(a_call(number)) for number in range(100_000))
    served = node.dispatcher.workers[worker.number]

    sent, most = 0, 0
    for _ in range(200):
        sent += worker.write(data[sent:])
        node.step(0.01)
        most = max(most, node.hub.count_unread(served))
        assert served.calls.waiting < 20_000, "the node reads no more than once after the queue is full"
    until(lambda: node.hub.count_unread(served) >= MAX_UNREAD, "answers are unread", 10)
    assert most <= MAX_UNREAD + 3 * 4_100_000, "at most the answers of calls that were under way"

    for _ in range(40):
        node.step(1.0)
    assert worker.number in node.parent.killed
    node.reap()

    outcome = node.outcomes[1]
    assert isinstance(outcome, Crashed)
    assert "read no answer for 30 s" in outcome.error.message


def test_many_calls_are_all_answered_in_order_by_a_worker_that_reads(node: HubNode) -> None:
    worker = start(node)
    data = b"".join(encode_frame(a_call(number)) for number in range(1, 501))

    sent, answers = 0, list[int]()
    while len(answers) < 500:
        sent += worker.write(data[sent:])
        node.step(0.01)
        answers += [message.call for message in worker.read() if isinstance(message, Answer)]

    assert sorted(answers) == list(range(1, 501))
    assert node.parent.killed == []


def test_large_frames_of_several_workers_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_hub, "MAX_INCOMING", 4_500_000)
    large = encode_frame(Call(1, 0, "find", [b"x" * 2_000_000], {}))
    with hub_node(monkeypatch, workers=3) as node:
        first, second, third = node.workers
        for worker in (first, second):
            worker.write(large[:100])
        node.step()
        sent = 0
        for _ in range(50):
            sent += third.write(large[sent:])
            node.step(0.01)
        assert 100 < sent < len(large), "the node does not read it while the others have announced theirs"

        for worker in (first, second):
            place = 100
            while place < len(large):
                place += worker.write(large[place:])
                node.step(0.01)
        while sent < len(large):
            sent += third.write(large[sent:])
            node.step(0.01)

        answered: set[int] = set()
        while len(answered) < 3:
            node.step(0.01)
            answered |= {each.number for each in node.workers for one in each.read() if isinstance(one, Answer)}
        assert node.parent.killed == []


def test_bytes_in_the_pipe_of_ends_are_charged_too(node: HubNode) -> None:
    worker = start(node)

    os.write(worker.files.ends, encode_end(1, float("nan")))
    node.step()
    node.reap()

    assert isinstance(node.outcomes[1], Crashed)


def test_a_worker_that_was_replaced_runs_the_next_task(node: HubNode) -> None:
    worker = start(node)
    worker.write(b"stray")
    node.step()
    node.reap()

    node.start_workers()
    node.give(2)

    [replacement] = node.workers
    assert node.dispatcher.workers[replacement.number].state is WorkerState.BUSY
    assert node.dispatcher.workers[replacement.number].running[2].claim.id == an_id(2)


NESTED = st.recursive(
    st.none() | st.text(alphabet='[]{}"\\ a\n', max_size=8) | st.integers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet='[]{}"\\a', max_size=4), inner),
    max_leaves=30,
)


def depth_of(value: object) -> int:
    if isinstance(value, dict):
        value = list(cast("dict[str, object]", value).values())
    return 1 + max(map(depth_of, cast("list[object]", value)), default=0) if isinstance(value, list) else 0


@given(value=NESTED, around=st.integers(0, 70))
def test_nesting_is_counted_outside_of_strings_only(value: object, around: int) -> None:
    for _ in range(around):
        value = [value, "]" * 3]
    text = msgspec.json.encode(value).decode()

    fault = find_fault(Done(1, 0.1, result=text), 1_000_000)

    assert (fault is not None) == (depth_of(value) > MAX_DEPTH), text


def open_tickets(worker: FakeWorker) -> int:
    """Open the queue of tickets for writing, which a handler can do although it has the reading end only."""
    return os.open(f"/proc/self/fd/{worker.files.tickets}", os.O_WRONLY | os.O_NONBLOCK)


def test_bytes_in_the_queue_of_tickets_are_a_crash(node: HubNode) -> None:
    worker = start(node)
    node.give(2)
    writer = open_tickets(worker)

    os.write(writer, b"abc")
    for _ in range(3):
        node.step(1.0)
    os.close(writer)
    assert worker.number in node.parent.killed
    node.reap()

    outcome = node.outcomes[1]
    assert isinstance(outcome, Crashed)
    assert "11 bytes in its queue of tickets" in outcome.error.message
    assert not isinstance(node.outcomes.get(2), Crashed), "it had not started"


def test_a_full_queue_of_tickets_is_a_crash(node: HubNode) -> None:
    worker = start(node)
    writer = open_tickets(worker)
    with suppress(BlockingIOError):
        while os.write(writer, encode_end(7, 0.0)):
            pass

    node.give(2)
    os.close(writer)
    assert worker.number in node.parent.killed
    node.reap()

    assert isinstance(node.outcomes[1], Crashed)
