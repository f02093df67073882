"""The messages between node, worker parent and workers: msgpack in frames over Unix sockets.

A frame is a mark, the length of the body, and the body. Bytes that a handler writes into a socket by mistake do not
begin with the mark, so they are detected at once.

A node treats every message of a worker as hostile, because handlers can write to the socket too: frames, texts and
lists have a largest size, numbers a range, and whatever does not fit is a crash of that worker.

A `ticket` is the node's number for one assignment to one worker, so that a message about one attempt cannot be taken
for another attempt of the same task. Messages are data only: nothing in them is ever executed.
"""

from __future__ import annotations

import struct
import sys
from typing import Annotated, Generic, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from windlass.core.assignment import Assignment, AssignmentFields
from windlass.core.lifecycle import State
from windlass.core.manifest import Manifest
from windlass.core.output import MAX_OUTPUT
from windlass.core.payload import MAX_BYTES
from windlass.core.retry import Error, storable
from windlass.core.settlement import Continued, Outcome, Raised, Released, Returned, Stopped
from windlass.core.times import LONGEST, micros
from windlass.custom_decider import PoolSituation
from windlass.errors import InvalidPayload
from windlass.worker.portable import decode_added, encode_added

T = TypeVar("T")
MARK = b"\xc1WL\xc1"
"""Begins every frame. The byte 0xC1 occurs neither in msgpack nor in UTF-8."""
MAX_FRAME = 64 * 1024 * 1024
"""Bytes in the largest body that is sent or accepted, in both directions."""
MAX_TEXT = 4_096
"""Characters of the longest message about progress, signals or reasons. The worker cuts what is longer."""
MAX_FAILURE = 65_536
"""Characters of the longest report about an app or a hook that failed."""
_MAX_ARGUMENTS = 16
_HEADER = struct.Struct(">4sI")
_Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=10 * LONGEST.total_seconds())]
_Delay: TypeAlias = Annotated[int, Meta(ge=0, le=micros(LONGEST))]
_Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
_Finite: TypeAlias = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
_Text: TypeAlias = Annotated[str, Meta(max_length=MAX_TEXT)]
_Output: TypeAlias = Annotated[str, Meta(max_length=MAX_OUTPUT)]
_Arguments: TypeAlias = Annotated[list[bytes], Meta(max_length=_MAX_ARGUMENTS)]
_NamedArguments: TypeAlias = Annotated[dict[str, bytes], Meta(max_length=_MAX_ARGUMENTS)]
_encoder = msgspec.msgpack.Encoder(uuid_format="bytes")


class Message(Struct, frozen=True, array_like=True, tag=True, gc=False):
    """Base class of all messages."""


# node → worker parent


class WorkerFiles(NamedTuple):
    """The descriptors of a worker, in the order in which they come with `Fork`."""

    control: int
    """The socket for `ToWorker` and `FromWorker`, which a thread of its own reads."""
    tasks: int
    """The socket for `Run`, which the thread that starts attempts reads."""
    tickets: int
    """The pipe of tickets (`windlass.worker.tickets`)."""
    ends: int
    """The pipe of ends."""


class Fork(Message, frozen=True):
    """Fork a worker. Its descriptors (`WorkerFiles`) come with the message."""

    worker: int
    threads: int
    shares_loop: bool = False
    """True if these are slots for `async def` handlers, and a `def` handler runs in the main thread."""


class Kill(Message, frozen=True):
    """Kill the process group of a worker."""

    worker: int


class EndStray(Message, frozen=True):
    """Kill a process that was reported as a stray, if it still is one."""

    pid: int


ToParent: TypeAlias = Fork | Kill | EndStray


# worker parent → node


class ParentReady(Message, frozen=True):
    """The app is imported."""

    manifest: Manifest
    seconds: float
    store_url: str | None = None
    """The URL that the app itself names, if it names one."""
    max_result_bytes: int = MAX_BYTES


class ParentFailed(Message, frozen=True):
    """The app could not be imported, or a worker could not start. `text` has the reason and a traceback."""

    text: Annotated[str, Meta(max_length=MAX_FAILURE)]


class WorkerStarted(Message, frozen=True):
    """A worker was forked."""

    worker: int
    pid: int


class WorkerNotStarted(Message, frozen=True):
    """A worker could not be forked."""

    worker: int
    reason: str


class WorkerExited(Message, frozen=True):
    """A worker has exited. `code` is its exit status, or minus the signal that ended it."""

    worker: int
    code: int


class Strays(Message, frozen=True):
    """Processes that handlers started and that have lost their parents, as daemons do."""

    pids: list[int]


class Stuck(Message, frozen=True):
    """All processes that were killed and do not end, as in uninterruptible sleep. They run no more code of theirs."""

    pids: list[int]


FromParent: TypeAlias = ParentReady | ParentFailed | WorkerStarted | WorkerNotStarted | WorkerExited | Strays | Stuck


# node → worker


class Run(Message, frozen=True):
    """Run these attempts, each when its ticket was taken (`windlass.worker.tickets`). They have one session.

    It has a socket of its own, from which the worker reads only when it has taken a ticket that it does not know.
    """

    session: UUID
    until: float
    """As in `Valid`."""
    assignments: list[Assignment]


class Valid(Message, frozen=True):
    """A session is certainly valid until this time of `windlass.clock.monotonic`. Start nothing under it later."""

    session: UUID
    until: float


class RequestStop(Message, frozen=True):
    """Ask the handler to stop: `current().cancelled` becomes true."""

    ticket: int


class Interrupt(Message, frozen=True):
    """Raise in the handler: it overran its soft limit, or ignored a request to stop."""

    ticket: int
    cancelled: bool


class Answer(Message, frozen=True):
    """The answer to a `Call`: an encoded value, or an encoded error."""

    call: int
    value: bytes | None
    error: bytes | None = None


class Measure(Message, frozen=True):
    """Measure a signal of the app, or ask one of its deciders about a situation."""

    name: str
    situation: PoolSituation | None = None


ToWorker: TypeAlias = Valid | RequestStop | Interrupt | Answer | Measure


# worker → node


class Hello(Message, frozen=True):
    """The start hooks of the worker have run: it takes tasks. This may arrive before `WorkerStarted`."""


class Done(Message, frozen=True):
    """An attempt has ended. One that only completed is reported through the pipe of ends instead."""

    ticket: int
    seconds: _Seconds
    result: str | None = None
    error: Error | None = None
    retry_in: _Delay | None = None
    give_up: bool = False
    stopped: _Text | None = None
    released: _Delay | None = None
    log: _Output | None = None
    added: bytes | None = None
    """The steps that the attempt adds, as `worker.portable` encodes them."""


class Heartbeat(Message, frozen=True):
    """A handler reported progress."""

    ticket: int
    share: _Share | None
    message: _Text | None


class Output(Message, frozen=True):
    """What a running attempt has printed and logged so far. The whole of it comes again with its end."""

    ticket: int
    text: _Output


class Waiting(Message, frozen=True):
    """A handler begins to wait for the result of another task, or has ended its wait."""

    ticket: int
    waits: bool


class Call(Message, frozen=True):
    """A handler calls the store, under the lease of the attempt with this ticket; 0 for none."""

    call: int
    ticket: int
    method: _Text
    positional: _Arguments
    named: _NamedArguments


class Measured(Message, frozen=True):
    """The value of a signal, or why there is none."""

    name: _Text
    value: _Finite | None
    error: _Text = ""


FromWorker: TypeAlias = Hello | ParentFailed | Done | Heartbeat | Output | Waiting | Call | Measured


def encode_outcome(ticket: int, seconds: float, outcome: Outcome, log: str | None) -> Done:
    """Return the message for an outcome, with text that cannot be stored replaced."""
    log = None if log is None else storable(log)[:MAX_OUTPUT]
    match outcome:
        case Returned(result):
            return Done(ticket, seconds, result=result, log=log)
        case Continued(added, result):
            return Done(ticket, seconds, result=result, log=log, added=encode_added(added))
        case Raised(error, retry_in, give_up):
            return Done(ticket, seconds, error=error.storable(), retry_in=retry_in, give_up=give_up, log=log)
        case Stopped(_, reason):
            return Done(ticket, seconds, stopped=storable(reason)[:MAX_TEXT], log=log)
        case Released(delay):
            return Done(ticket, seconds, released=delay, log=log)
        case _:
            raise AssertionError(f"a worker cannot report {outcome}")


def decode_outcome(message: Done) -> Outcome:
    """Return the outcome that a message reports."""
    if message.error is not None:
        return Raised(message.error, message.retry_in, message.give_up)
    if message.released is not None:
        return Released(message.released)
    if message.stopped is not None:
        return Stopped(State.CANCELLED, message.stopped)
    return Returned(message.result) if message.added is None else Continued(decode_added(message.added), message.result)


def encode_frame(message: Message) -> bytes:
    """Encode a message as a frame; raise `InvalidPayload` if it is too large to be sent."""
    return _frame(type(message).__name__, _encoder.encode(message))


def encode_run(session: UUID, until: float, assignments: list[AssignmentFields]) -> bytes:
    """Encode a `Run` as a frame, from the fields of its assignments."""
    return _frame(Run.__name__, _encoder.encode((Run.__name__, session, until, assignments)))


def _frame(name: str, body: bytes) -> bytes:
    if len(body) > MAX_FRAME:
        raise InvalidPayload(f"A {name} message of {len(body):,} bytes exceeds {MAX_FRAME:,} bytes. Send it in parts.")
    return _HEADER.pack(MARK, len(body)) + body


class Frames(Generic[T]):
    """Splits the bytes from a socket into messages, and stops at the first byte that cannot belong to one."""

    def __init__(self, kind: object) -> None:
        self.broken: str | None = None
        """What is wrong with the bytes; None if nothing is. Later bytes are ignored."""
        self._decoder: msgspec.msgpack.Decoder[T] = msgspec.msgpack.Decoder(kind)
        self._rest = bytearray()

    @property
    def partial(self) -> bool:
        """Whether part of a frame has arrived."""
        return bool(self._rest)

    @property
    def announced(self) -> int:
        """The size of the frame of which a part has arrived; 0 if that is not known."""
        return _HEADER.unpack_from(self._rest)[1] if len(self._rest) >= _HEADER.size else 0

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
                    break
                if body + length > end:
                    break
                try:
                    messages.append(self._decoder.decode(view[body : body + length]))
                except Exception as error:  # noqa: BLE001 - whatever a frame makes the decoder raise is its fault
                    self.broken = f"a frame that is not a message: {error}"
                start = body + length
        del self._rest[: start if self.broken is None else end]
        return messages
