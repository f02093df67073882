from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.values import OOPS, an_id
from windlass.core.assignment import Assignment
from windlass.core.lifecycle import State
from windlass.core.retry import Error
from windlass.core.settlement import Crashed, Outcome, Raised, Released, Returned, Stopped
from windlass.errors import InvalidPayload
from windlass.worker import wire
from windlass.worker.wire import (
    MARK,
    MAX_FRAME,
    Answer,
    Done,
    Frames,
    FromWorker,
    Heartbeat,
    Hello,
    Interrupt,
    Message,
    RequestStop,
    Run,
    ToWorker,
    Valid,
    decode_outcome,
    encode_frame,
    encode_outcome,
)

ORDER = Assignment(task=an_id(1), fence=2, session=an_id(3), handler="work", args="{}", slots=3)
MESSAGES: list[Message] = [
    Run([(1, ORDER), (2, ORDER)]),
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
    "progress beyond the end": encode_frame(Heartbeat(1, 2.0, None)),
}


@pytest.mark.parametrize("data", WRONG.values(), ids=WRONG)
def test_invalid_bytes_end_the_connection_after_the_messages_before_them(data: bytes) -> None:
    frames, good = Frames[FromWorker](FromWorker), encode_frame(Hello(1))

    before = frames.feed(good + data + good)

    assert before == [Hello(1)]
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
