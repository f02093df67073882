"""A fuzz target: bytes that handlers could write to the socket and the pipe of their worker.

Each input is a sequence of valid messages with some bytes changed, cut, repeated or inserted. A real hub reads it. The
node must survive every input, charge a broken one to the running task, and go on with the next worker. The seeds are
fixed, so the inputs are the same in every run; `WINDLASS_FUZZ=N` tries N further inputs.
"""

from __future__ import annotations

import os
import random

import msgspec
import pytest

from tests.support.fake_workers import FakeWorker, HubNode, hub_node
from windlass.core.retry import Error
from windlass.core.settlement import Crashed
from windlass.stores.protocol import Filter
from windlass.worker.remote import encode_call
from windlass.worker.tickets import encode_end
from windlass.worker.wire import (
    MARK,
    Call,
    Done,
    Heartbeat,
    Hello,
    Measured,
    Message,
    Output,
    ParentFailed,
    RequestStop,
    encode_frame,
)

INPUTS = 1_500
MORE_INPUTS = int(os.environ.get("WINDLASS_FUZZ", "0"))
NUMBERS = (0, 1, -1, 2**31, 2**63 - 1, 2**64 - 1, 0.0, -0.0, 1e308, float("nan"), float("inf"), float("-inf"))


def valid_messages(ticket: int) -> list[Message]:
    return [
        Hello(),
        Done(ticket, 0.1, result="[1,2]"),
        Done(ticket, 0.1, error=Error(kind="E", message="m", traceback="t"), retry_in=5, log="a line"),
        Done(ticket, 0.1, stopped="because"),
        Done(ticket, 0.1, released=0),
        Heartbeat(ticket, 0.5, "half"),
        Output(ticket, "a line\n"),
        encode_call(1, ticket, "find", (Filter(queue="default"),), {"limit": 3}),
        encode_call(2, 0, "get", ([],), {}),
        Call(3, ticket, "submit", [b"\x91\x80"], {"lease": b"\xc0"}),
        Measured("load", 1.5),
        ParentFailed("a hook failed"),
        RequestStop(ticket),
    ]


def any_value(chance: random.Random, depth: int = 0) -> object:
    """Return a value that msgpack can carry."""
    if depth < 3 and chance.random() < 0.2:
        return [any_value(chance, depth + 1) for _ in range(chance.randrange(6))]
    values = (*NUMBERS, None, True, "", "x" * chance.randrange(5_000), b"\xff" * chance.randrange(50))
    return chance.choice(values)


def any_frame(chance: random.Random, ticket: int) -> bytes:
    """Return a frame: a valid one, or one with any fields."""
    message = chance.choice(valid_messages(ticket))
    if chance.random() < 0.5:
        return encode_frame(message)
    fields = [type(message).__name__, ticket, *(any_value(chance) for _ in range(chance.randrange(10)))]
    body = msgspec.msgpack.encode(fields)
    return MARK + len(body).to_bytes(4, "big") + body


def any_bytes(chance: random.Random, ticket: int) -> bytes:
    """Return frames, of which some bytes may be changed, cut, repeated or inserted."""
    data = bytearray(b"".join(any_frame(chance, ticket) for _ in range(chance.randrange(1, 4))))
    for _ in range(chance.randrange(4)):
        place = chance.randrange(len(data) + 1)
        match chance.randrange(4):
            case 0 if place < len(data):
                data[place] = chance.randrange(256)
            case 1:
                del data[place:]
            case 2:
                data[place:place] = data[max(0, place - chance.randrange(64)) : place]
            case _:
                data[place:place] = chance.randbytes(chance.randrange(1, 16))
    return bytes(data)


def try_input(node: HubNode, seed: int) -> None:
    chance = random.Random(seed)
    while not node.workers:
        node.step(40)  # The pool waits longer after each death.
        node.start_workers()
    worker: FakeWorker = node.workers[0]
    node.give(seed)
    ticket = node.take_ticket(worker)

    if chance.random() < 0.2:
        end = encode_end(ticket, chance.choice([0.1, *map(float, NUMBERS)]))
        os.write(worker.files.ends, end[: chance.choice([16, 16, chance.randrange(16)])])
    worker.write(any_bytes(chance, ticket))
    node.step()
    for _ in range(3):
        node.step(20)

    if worker.number in node.parent.killed:
        node.reap()
        assert seed in node.outcomes, "what ran in a broken worker is settled"
    elif seed not in node.outcomes:
        worker.send(Done(ticket, 0.1))
        node.step()
        if seed not in node.outcomes:  # The rest of a frame ate it.
            node.exit(worker)
            node.workers.remove(worker)
        assert seed in node.outcomes


@pytest.mark.parametrize("block", range(3))
def test_no_bytes_of_a_worker_harm_the_node(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    number = (INPUTS + MORE_INPUTS) // 3
    with hub_node(monkeypatch) as node:
        for seed in range(1 + block * number, 1 + (block + 1) * number):
            try_input(node, seed)
        outcomes = node.outcomes

    crashes = sum(isinstance(outcome, Crashed) for outcome in outcomes.values())
    assert len(outcomes) == number
    assert number // 10 < crashes < number, "the inputs break the protocol often, but not always"
