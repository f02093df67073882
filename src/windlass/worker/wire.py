"""What node, nursery and workers say to each other: length-prefixed msgpack over Unix sockets.

A `ticket` is the node's own number for one order given to one worker, so that nothing said about an attempt can be
taken for another one of the same task. Data only: nothing here is ever run.
"""

from __future__ import annotations

import struct
from typing import Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from windlass.core.lifecycle import State
from windlass.core.manifest import Manifest
from windlass.core.order import Order
from windlass.core.retry import Error, storable
from windlass.core.settlement import Outcome, Raised, Released, Returned, Stopped

T = TypeVar("T")
_LENGTH = struct.Struct(">I")
_encoder = msgspec.msgpack.Encoder(uuid_format="bytes")


class Message(Struct, frozen=True, array_like=True, tag=True, gc=False):
    """Anything that travels."""


# node → nursery


class Fork(Message, frozen=True):
    """Fork a worker; the socket it shall speak over comes with the message."""

    worker: int
    threads: int


class Kill(Message, frozen=True):
    """Kill a worker's whole process group."""

    worker: int


ToNursery: TypeAlias = Fork | Kill


# nursery → node


class Ready(Message, frozen=True):
    """The app is imported."""

    manifest: Manifest
    seconds: float


class Broken(Message, frozen=True):
    """The app could not be imported, or a worker could not start; `text` says why, with a traceback."""

    text: str


class Born(Message, frozen=True):
    """A worker was forked."""

    worker: int
    pid: int


class Unborn(Message, frozen=True):
    """A worker could not be forked."""

    worker: int
    reason: str


class Died(Message, frozen=True):
    """A worker has ended. `code` is its exit status, or minus the signal that ended it."""

    worker: int
    code: int


FromNursery: TypeAlias = Ready | Broken | Born | Unborn | Died


# node → worker


class Run(Message, frozen=True):
    """Run these, in this order, after what was given before."""

    orders: list[tuple[int, Order]]


class Recall(Message, frozen=True):
    """Give back what of these has not begun."""

    tickets: list[int]


class Ask(Message, frozen=True):
    """Tell the handler that it should stop: `current().cancelled`."""

    ticket: int


class Interrupt(Message, frozen=True):
    """Raise in the handler: it overran its soft limit, or did not heed a cancel."""

    ticket: int
    cancelled: bool


class Quit(Message, frozen=True):
    """Give back what has not begun, end what has, and leave."""


class Answer(Message, frozen=True):
    """The answer to a `Call`: an encoded value, or an encoded error."""

    call: int
    value: bytes | None
    error: bytes | None = None


class Measure(Message, frozen=True):
    """Say what one of the app's signals is now."""

    name: str


ToWorker: TypeAlias = Run | Recall | Ask | Interrupt | Quit | Answer | Measure


# worker → node


class Hello(Message, frozen=True):
    """The worker's start hooks have run: it takes orders. This may be heard before the nursery's word of its birth."""

    pid: int = 0


class Done(Message, frozen=True):
    """An attempt has ended."""

    ticket: int
    seconds: float
    result: str | None = None
    error: Error | None = None
    retry_in: int | None = None
    give_up: bool = False
    stopped: str | None = None
    released: int | None = None
    log: str | None = None


class Back(Message, frozen=True):
    """These had not begun, and never will here."""

    tickets: list[int]


class Beat(Message, frozen=True):
    """A handler reported progress."""

    ticket: int
    share: float | None
    message: str | None


class Call(Message, frozen=True):
    """A handler asks for something of the store; `ticket` says under which attempt's lease, 0 for none."""

    call: int
    ticket: int
    method: str
    value: bytes


class Measured(Message, frozen=True):
    """What a signal is, or why it cannot be said."""

    name: str
    value: float | None
    error: str = ""


FromWorker: TypeAlias = Hello | Broken | Done | Back | Beat | Call | Measured


def done(ticket: int, seconds: float, outcome: Outcome, log: str | None) -> Done:
    """How an attempt's outcome travels; of what a handler said, only what can be stored."""
    log = None if log is None else storable(log)
    match outcome:
        case Returned(result):
            return Done(ticket, seconds, result=result, log=log)
        case Raised(error, retry_in, give_up):
            return Done(ticket, seconds, error=error.storable(), retry_in=retry_in, give_up=give_up, log=log)
        case Stopped(_, reason):
            return Done(ticket, seconds, stopped=reason, log=log)
        case Released(delay):
            return Done(ticket, seconds, released=delay, log=log)
        case _:
            raise AssertionError(f"a worker does not decide about {outcome}")


def outcome_of(said: Done) -> Outcome:
    """The inverse of `done`."""
    if said.error is not None:
        return Raised(said.error, said.retry_in, said.give_up)
    if said.released is not None:
        return Released(said.released)
    return Returned(said.result) if said.stopped is None else Stopped(State.CANCELLED, said.stopped)


def frame(message: Message) -> bytes:
    """A message as it is sent."""
    body = _encoder.encode(message)
    return _LENGTH.pack(len(body)) + body


class Frames(Generic[T]):
    """Cuts what comes in over a socket into messages."""

    def __init__(self, kind: object) -> None:
        self._decoder: msgspec.msgpack.Decoder[T] = msgspec.msgpack.Decoder(kind)
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[T]:
        """The messages that are whole now."""
        self._rest += data
        messages: list[T] = []
        start, end = 0, len(self._rest)
        with memoryview(self._rest) as view:
            while start + 4 <= end:
                (length,) = _LENGTH.unpack_from(view, start)
                if start + 4 + length > end:
                    break
                messages.append(self._decoder.decode(view[start + 4 : start + 4 + length]))
                start += 4 + length
        del self._rest[:start]
        return messages
