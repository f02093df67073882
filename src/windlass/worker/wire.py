"""What node, nursery and workers say to each other: msgpack in frames over Unix sockets.

A frame is a mark, the length of the body, and the body. Bytes that somebody else writes into a socket do not begin with
the mark, so they are found at once, whatever they are.

A `ticket` is the node's own number for one order given to one worker, so that nothing said about an attempt can be
taken for another one of the same task. Data only: nothing here is ever run.
"""

from __future__ import annotations

import struct
from typing import Annotated, Generic, TypeAlias, TypeVar
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from windlass.core.assignment import Assignment
from windlass.core.lifecycle import State
from windlass.core.manifest import Manifest
from windlass.core.retry import Error, storable
from windlass.core.settlement import Outcome, Raised, Released, Returned, Stopped
from windlass.core.times import LONGEST, micros
from windlass.custom_decider import PoolSituation
from windlass.errors import InvalidPayload

T = TypeVar("T")
MARK = b"\xc1WL\xc1"
"""Begins every frame. The byte 0xC1 occurs neither in msgpack nor in UTF-8."""
MAX_FRAME = 1 << 30
"""Bytes in the largest body that is sent or accepted."""
_HEADER = struct.Struct(">4sI")
_Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=10 * LONGEST.total_seconds())]
_Delay: TypeAlias = Annotated[int, Meta(ge=0, le=micros(LONGEST))]
_Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
_encoder = msgspec.msgpack.Encoder(uuid_format="bytes")


class Message(Struct, frozen=True, array_like=True, tag=True, gc=False):
    """Anything that travels."""


# node → nursery


class Fork(Message, frozen=True):
    """Fork a worker; its socket and its end of the queue of tickets come with the message."""

    worker: int
    threads: int


class Kill(Message, frozen=True):
    """Kill a worker's whole process group."""

    worker: int


class EndStray(Message, frozen=True):
    """Kill a process that was reported as a stray, if it is one still."""

    pid: int


ToParent: TypeAlias = Fork | Kill | EndStray


# nursery → node


class ParentReady(Message, frozen=True):
    """The app is imported."""

    manifest: Manifest
    seconds: float


class ParentFailed(Message, frozen=True):
    """The app could not be imported, or a worker could not start; `text` says why, with a traceback."""

    text: str


class WorkerStarted(Message, frozen=True):
    """A worker was forked."""

    worker: int
    pid: int


class WorkerNotStarted(Message, frozen=True):
    """A worker could not be forked."""

    worker: int
    reason: str


class WorkerExited(Message, frozen=True):
    """A worker has ended. `code` is its exit status, or minus the signal that ended it."""

    worker: int
    code: int


class Strays(Message, frozen=True):
    """These processes were started by handlers and have lost their parents, as daemons do."""

    pids: list[int]


FromParent: TypeAlias = ParentReady | ParentFailed | WorkerStarted | WorkerNotStarted | WorkerExited | Strays


# node → worker


class Run(Message, frozen=True):
    """Run these, each when its ticket is taken from the queue of tickets (`windlass.worker.tickets`)."""

    assignments: list[tuple[int, Assignment]]


class Valid(Message, frozen=True):
    """A session is surely valid until this moment of `windlass.clock.monotonic`. Start nothing under it later."""

    session: UUID
    until: float


class RequestStop(Message, frozen=True):
    """Tell the handler that it should stop: `current().cancelled`."""

    ticket: int


class Interrupt(Message, frozen=True):
    """Raise in the handler: it overran its soft limit, or did not heed a cancel."""

    ticket: int
    cancelled: bool


class Answer(Message, frozen=True):
    """The answer to a `Call`: an encoded value, or an encoded error."""

    call: int
    value: bytes | None
    error: bytes | None = None


class Measure(Message, frozen=True):
    """Say what one of the app's signals is now, or what one of its deciders makes of a situation."""

    name: str
    situation: PoolSituation | None = None


ToWorker: TypeAlias = Run | Valid | RequestStop | Interrupt | Answer | Measure


# worker → node


class Hello(Message, frozen=True):
    """The worker's start hooks have run: it takes orders. This may be heard before the nursery's word of its birth."""

    pid: int = 0


class Done(Message, frozen=True):
    """An attempt has ended."""

    ticket: int
    seconds: _Seconds
    result: str | None = None
    error: Error | None = None
    retry_in: _Delay | None = None
    give_up: bool = False
    stopped: str | None = None
    released: _Delay | None = None
    log: str | None = None


class Heartbeat(Message, frozen=True):
    """A handler reported progress."""

    ticket: int
    share: _Share | None
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


FromWorker: TypeAlias = Hello | ParentFailed | Done | Heartbeat | Call | Measured


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
    """Encode a message as a frame; raise `InvalidPayload` if it is too large to be sent."""
    body = _encoder.encode(message)
    if len(body) > MAX_FRAME:
        name = type(message).__name__
        raise InvalidPayload(f"a {name} message of {len(body):,} bytes exceeds {MAX_FRAME:,} bytes; send it in parts")
    return _HEADER.pack(MARK, len(body)) + body


class Frames(Generic[T]):
    """Cuts the bytes that a socket delivers into messages, and stops at the first byte that cannot be one."""

    def __init__(self, kind: object) -> None:
        self.broken: str | None = None
        """What is wrong with the bytes, once something is. Nothing after that is read."""
        self._decoder: msgspec.msgpack.Decoder[T] = msgspec.msgpack.Decoder(kind)
        self._rest = bytearray()

    @property
    def partial(self) -> bool:
        """Whether a frame has arrived in part."""
        return bool(self._rest)

    def feed(self, data: bytes) -> list[T]:
        """Return the messages that are complete now, up to the first error."""
        messages: list[T] = []
        if self.broken is not None:
            return messages
        self._rest += data
        start, end = 0, len(self._rest)
        with memoryview(self._rest) as view:
            while start < end and self.broken is None:
                if bytes(view[start : start + 4]) != MARK[: end - start]:
                    self.broken = f"stray bytes on the socket: {bytes(view[start : start + 16])!r}"
                    break
                if start + _HEADER.size > end:
                    break
                _, length = _HEADER.unpack_from(view, start)
                body = start + _HEADER.size
                if length > MAX_FRAME:
                    self.broken = f"a frame of {length:,} bytes; at most {MAX_FRAME:,} are accepted"
                if body + length > end:
                    break
                try:
                    messages.append(self._decoder.decode(view[body : body + length]))
                except (ValueError, RecursionError) as error:  # Also what is not UTF-8, or nested too deeply.
                    self.broken = f"a frame that is no message: {error}"
                start = body + length
        del self._rest[:start]
        return messages
