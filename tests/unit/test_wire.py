from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.unit.values import OOPS, a_stored_task, an_id
from windlass.core.assignment import NO_SESSION, assignment_fields, assignment_of
from windlass.core.lifecycle import State
from windlass.core.output import MAX_OUTPUT
from windlass.core.retry import Error
from windlass.core.settlement import Crashed, Outcome, Raised, Released, Returned, Stopped
from windlass.core.task import Lease, Rules, SessionId, claim_of
from windlass.errors import InvalidPayload
from windlass.worker import wire
from windlass.worker.wire import (
    MARK,
    MAX_FRAME,
    MAX_TEXT,
    Answer,
    Call,
    Done,
    Frames,
    FromWorker,
    Heartbeat,
    Hello,
    Interrupt,
    Measured,
    Message,
    Output,
    RequestStop,
    Run,
    ToWorker,
    Valid,
    decode_outcome,
    encode_frame,
    encode_outcome,
    encode_run,
)

RULES = Rules(trace="t")
MESSAGES: list[Message] = [
    Valid(an_id(3), 12.5),
    RequestStop(7),
    Answer(1, b"x" * 1_000),
    Answer(2, None, b"no"),
    Interrupt(7, False),
]


@given(sizes=st.lists(st.integers(1, 60), min_size=1))
def test_messages_are_decoded_however_the_bytes_are_split(sizes: list[int]) -> None:
    data, frames, received, place = (
        b"".join(map(encode_frame, MESSAGES)),
        Frames[ToWorker](ToWorker),
        list[ToWorker](),
        0,
    )

    for size in sizes:
        received += frames.feed(data[place : place + size])
        place += size
    received += frames.feed(data[place:])

    assert received == MESSAGES


def test_a_run_is_encoded_from_claims_and_decoded_to_assignments() -> None:
    session = SessionId(an_id(3))
    tasks = [a_stored_task(id=an_id(number), key="k", deadline=5, attempts=2, rules=RULES) for number in (1, 2)]
    claims = [claim_of(task, Lease(task.id, 4, session)) for task in tasks]

    [run] = Frames[Run](Run).feed(encode_run(session, 12.5, [assignment_fields(7, 3, claim) for claim in claims]))

    expected = [replace(assignment_of(claim), ticket=7, slots=3, session=NO_SESSION) for claim in claims]
    assert run == Run(session, 12.5, expected)


@pytest.mark.parametrize(
    "outcome",
    [
        Returned(None),
        Returned("7"),
        Raised(OOPS),
        Raised(OOPS, retry_in=5),
        Raised(OOPS, give_up=True),
        Released(0),
        Released(9),
        Stopped(State.CANCELLED, ""),
        Stopped(State.CANCELLED, "stopped while running"),
    ],
)
def test_an_outcome_survives_encoding(outcome: Outcome) -> None:
    [sent] = Frames[Done](Done).feed(encode_frame(encode_outcome(1, 0.5, outcome, "log")))

    assert decode_outcome(sent) == outcome
    assert (sent.ticket, sent.seconds, sent.log) == (1, 0.5, "log")


def test_a_worker_does_not_report_its_own_crash() -> None:
    with pytest.raises(AssertionError):
        encode_outcome(1, 0.5, Crashed(OOPS), None)


def test_any_text_of_a_handler_can_be_sent() -> None:
    name = b"caf\xe9.txt".decode(errors="surrogateescape")
    outcome = Raised(Error(kind="OSError", message=f"no {name}", traceback=f"\0 {name}"))

    [sent] = Frames[FromWorker](FromWorker).feed(encode_frame(encode_outcome(1, 0.5, outcome, f"reading {name}")))

    assert isinstance(sent, Done)
    assert sent.log == "reading caf?.txt"
    assert sent.error is not None
    assert sent.error.message == "no caf?.txt"


GOOD = encode_frame(RequestStop(7))
WRONG = {
    "a byte": b"x",
    "the beginning of the mark, then another byte": MARK[:2] + b"x",
    "a length above the limit": MARK + (MAX_FRAME + 1).to_bytes(4, "big"),
    "not msgpack": MARK + b"\0\0\0\1\xc1",
    "not UTF-8": MARK + b"\0\0\0\x0f\x94\xa4Done\x01\xca\0\0\0\0\xa2\xff\xfe",
    "nested too deeply": MARK + (100_008).to_bytes(4, "big") + b"\x94\xa5Hello\x01" + b"\x91" * 100_000,
    "a message for somebody else": GOOD,
    "an attempt that took less than no time": encode_frame(Done(1, -1.0)),
    "an attempt that took no number of seconds": encode_frame(Done(1, float("nan"))),
    "a retry later than anybody may ask for": encode_frame(Done(1, 0.0, error=OOPS, retry_in=1 << 60)),
    "progress that is not a number": encode_frame(Heartbeat(1, float("nan"), None)),
    "a message about progress that is too long": encode_frame(Heartbeat(1, None, "x" * (MAX_TEXT + 1))),
    "output that is too long": encode_frame(Done(1, 0.0, log="x" * (MAX_OUTPUT + 1))),
    "output of a running attempt that is too long": encode_frame(Output(1, "x" * (MAX_OUTPUT + 1))),
    "a reason that is too long": encode_frame(Done(1, 0.0, stopped="x" * (MAX_TEXT + 1))),
    "a signal that is not a number": encode_frame(Measured("load", float("nan"))),
    "a signal without end": encode_frame(Measured("load", float("inf"))),
    "a call with too many arguments": encode_frame(Call(1, 1, "get", [b""] * 17, {})),
    "progress beyond the end": encode_frame(Heartbeat(1, 2.0, None)),
}


@pytest.mark.parametrize("data", WRONG.values(), ids=WRONG)
def test_invalid_bytes_end_the_connection_after_the_messages_before_them(data: bytes) -> None:
    frames, good = Frames[FromWorker](FromWorker), encode_frame(Hello())

    before = frames.feed(good + data + good)

    assert before == [Hello()]
    assert frames.broken
    assert frames.feed(good) == [], "later bytes are ignored"


def test_half_a_message_is_detected() -> None:
    frames = Frames[ToWorker](ToWorker)

    assert frames.feed(GOOD[:-1]) == []
    assert (frames.partial, frames.broken) == (True, None)
    assert frames.feed(GOOD[-1:]) == [RequestStop(7)]
    assert not frames.partial


def test_a_message_that_is_too_large_is_refused_by_the_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_FRAME", 1_000)

    with pytest.raises(InvalidPayload, match="exceeds 1,000 bytes"):
        encode_frame(Answer(1, b"x" * 1_000))
