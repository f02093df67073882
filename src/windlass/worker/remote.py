"""The store as a handler sees it: every call goes to the node, under the lease of the attempt that makes it.

Handlers may call what `handler_store.METHODS` lists, within their tenant; the node checks both. Values are encoded as
msgpack by the types of `HandlerStore`. Where a caller may pass several types (times, ids), the value is a msgpack
extension.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from queue import SimpleQueue
from typing import Any, cast, get_type_hints

import msgspec
from msgspec import Struct

from windlass import errors
from windlass.core.task import Change, Lease, NewTask, TaskId
from windlass.errors import NotAllowed, WindlassError
from windlass.stores.protocol import Receipt
from windlass.worker.handler_store import METHODS, HandlerStore
from windlass.worker.portable import decode, encode, make_portable
from windlass.worker.wire import Answer, Call


class Refusal(Struct, frozen=True):
    """An error as it is sent: its code, its message and the plain values it carries."""

    code: str
    message: str
    carries: dict[str, Any]


class RemoteStore:
    """The store that a worker binds every `App` to, with the methods that handlers may call."""

    def __init__(self, send: Callable[[Call], None], current_ticket: Callable[[], int]) -> None:
        self._send = send
        self._current_ticket = current_ticket
        self._numbers = itertools.count(1)
        self._awaited: dict[int, SimpleQueue[Answer]] = {}

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method not in METHODS:
            raise NotAllowed(f"A handler may not call {method}. It may call {', '.join(sorted(METHODS))}.")
        return lambda *positional, **named: self._call(method, positional, named)

    def submit(
        self, tasks: Sequence[NewTask], *, conn: object | None = None, lease: Lease | None = None
    ) -> list[Receipt]:
        if conn is not None:
            from windlass.wiring import submit_in

            return submit_in(conn, tasks, lease)
        return self._call("submit", ([make_portable(task) for task in tasks],), {"lease": lease})

    def check_admission(self, tasks: Sequence[NewTask]) -> None:
        """Let the node check tasks with `admit="strict"`."""
        self._call("check_admission", ([make_portable(task) for task in tasks],), {})

    def update(self, task: TaskId, change: Change) -> Any:
        return self._call("update", (task, make_portable(change)), {})

    def identity(self) -> None:
        """Return None: a worker does not know which database its node uses."""

    def close(self) -> None:
        """Do nothing: the socket belongs to the worker."""

    def receive(self, answer: Answer) -> None:
        """Pass an answer of the node to the thread that waits for it."""
        awaited = self._awaited.get(answer.call)
        if awaited is not None:
            awaited.put(answer)

    def _call(self, method: str, positional: Sequence[Any], named: Mapping[str, Any]) -> Any:
        number = next(self._numbers)
        answers = self._awaited[number] = SimpleQueue()
        try:
            self._send(encode_call(number, self._current_ticket(), method, positional, named))
            answer = answers.get()
        finally:
            del self._awaited[number]
        if answer.error is not None:
            raise _rebuild(msgspec.msgpack.decode(answer.error, type=Refusal))
        return None if answer.value is None else decode_answer(method, answer.value)


def encode_call(number: int, ticket: int, method: str, positional: Sequence[Any], named: Mapping[str, Any]) -> Call:
    """Return the message for a call, with each argument encoded by itself."""
    values = {name: encode(value) for name, value in named.items()}
    return Call(number, ticket, method, [encode(value) for value in positional], values)


def decode_call(call: Call) -> tuple[list[Any], dict[str, Any]]:
    """Return the positional and the named arguments of a call, by the types of the method."""
    hints = get_type_hints(getattr(HandlerStore, call.method))
    names = list(signature(getattr(HandlerStore, call.method)).parameters)[1:]
    positional = [decode(value, hints[name]) for name, value in zip(names, call.positional, strict=False)]
    return positional, {name: decode(value, hints[name]) for name, value in call.named.items()}


def encode_answer(value: Any) -> bytes:
    """Encode the return value of a call."""
    return encode(value)


def decode_answer(method: str, value: bytes) -> Any:
    """Decode the return value of a call."""
    return decode(value, get_type_hints(getattr(HandlerStore, method))["return"])


def encode_refusal(error: WindlassError) -> bytes:
    """Encode an error of the store, so that the handler can catch it by its class."""
    carries = {name: _plain(value) for name, value in vars(error).items()}
    return encode(Refusal(error.code, str(error), carries))


def _rebuild(refusal: Refusal) -> WindlassError:
    ours = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, WindlassError)]
    kind = next((kind for kind in ours if kind.code == refusal.code), WindlassError)
    error = kind.__new__(kind, refusal.message)
    error.args = (refusal.message,)
    vars(error).update(refusal.carries)
    return error


def _plain(value: object) -> object:
    if isinstance(value, (list, tuple)):
        return [_plain(member) for member in cast("Sequence[object]", value)]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
