from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.values import OOPS, an_id
from windlass.core.lifecycle import State
from windlass.core.order import Order
from windlass.core.retry import Error
from windlass.core.settlement import Crashed, Outcome, Raised, Released, Returned, Stopped
from windlass.worker.wire import (
    Answer,
    Ask,
    Done,
    Frames,
    FromWorker,
    Message,
    Quit,
    Recall,
    Run,
    ToWorker,
    done,
    frame,
    outcome_of,
)

ORDER = Order(task=an_id(1), fence=2, session=an_id(3), handler="work", args="{}", slots=3)
MESSAGES: list[Message] = [
    Run([(1, ORDER), (2, ORDER)]),
    Recall([1, 2]),
    Ask(7),
    Answer(1, b"x" * 1_000),
    Answer(2, None, b"no"),
    Quit(),
]


@given(sizes=st.lists(st.integers(1, 60), min_size=1))
def test_messages_arrive_whole_however_the_bytes_are_cut(sizes: list[int]) -> None:
    data, frames, heard, place = b"".join(map(frame, MESSAGES)), Frames[ToWorker](ToWorker), list[ToWorker](), 0

    for size in sizes:
        heard += frames.feed(data[place : place + size])
        place += size
    heard += frames.feed(data[place:])

    assert heard == MESSAGES


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
        Stopped(State.CANCELLED, "stopped while it ran"),
    ],
)
def test_an_outcome_survives_its_journey(outcome: Outcome) -> None:
    [said] = Frames[Done](Done).feed(frame(done(1, 0.5, outcome, "log")))

    assert outcome_of(said) == outcome
    assert (said.ticket, said.seconds, said.log) == (1, 0.5, "log")


def test_a_worker_does_not_report_its_own_crash() -> None:
    with pytest.raises(AssertionError):
        done(1, 0.5, Crashed(OOPS), None)


def test_whatever_a_handler_says_can_be_sent() -> None:
    name = b"caf\xe9.txt".decode(errors="surrogateescape")
    outcome = Raised(Error(kind="OSError", message=f"no {name}", traceback=f"\0 {name}"))

    [said] = Frames[FromWorker](FromWorker).feed(frame(done(1, 0.5, outcome, f"reading {name}")))

    assert isinstance(said, Done)
    assert said.log == "reading caf?.txt"
    assert said.error is not None
    assert said.error.message == "no caf?.txt"
