"""Submitting without end: a task a line, a receipt a line, in the same order.

Lines that come together are written together. One that is refused is answered with its own problem and harms none of
its neighbours: a batch that the store refuses is halved until the line at fault stands alone.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence

from msgspec import Struct
from starlette.requests import ClientDisconnect

from windlass.core.task import NewTask
from windlass.errors import InvalidTask, Refused, StoreError, WindlassError
from windlass.operations.caller import Scope
from windlass.refused_submits import refused_submits
from windlass.server.http.call import Call
from windlass.server.http.problems import problem_of
from windlass.server.http.routing import Routes
from windlass.server.http.streaming import LineReader
from windlass.server.routes.submission import new_task
from windlass.server.routes.tasks import SUBMIT_ERRORS
from windlass.stores.protocol import Receipt
from windlass.wire.schemas import MAX_BATCH, LineReceipt, SubmitTask
from windlass.wire.strict_json import decode_json

route = Routes("tasks")
logger = logging.getLogger("windlass.server")

TOGETHER = 1_000
"""How many lines are written in one batch at the most."""


class StreamTasks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a stream is taken."""

    atomic: bool = False
    """All lines or none; up to 10,000 of them, and the first receipt comes after the last line."""
    unchecked: bool = False
    """Take handlers that no node has published yet."""


@route("POST", "/tasks:stream", Scope.SUBMIT, errors=[*SUBMIT_ERRORS, "too_many_tasks"])
async def stream_tasks(
    call: Call, reader: LineReader[SubmitTask], query: StreamTasks
) -> AsyncGenerator[Sequence[LineReceipt]]:
    """Submit a task a line (NDJSON), and read a receipt a line while you write.

    A line that is refused has `error` in its receipt. Empty lines are passed over. When the store goes away the stream
    ends: lines without a receipt can be sent again, those with a key as often as you like.
    """
    if query.atomic:
        yield await _atomic(call, reader, query)
        return
    number = 0
    try:
        async for lines in reader.lines():
            for start in range(0, len(lines), TOGETHER):
                group = _Group(call, query, number + start, lines[start : start + TOGETHER])
                yield await _written(reader, group)
                if group.broken:
                    return
            number += len(lines)
    except Refused as error:
        if not number:
            raise
        yield [LineReceipt(line=number + 1, error=problem_of(error))]
    except ClientDisconnect:
        return


async def _written(reader: LineReader[SubmitTask], group: _Group) -> Sequence[LineReceipt]:
    try:
        return await reader.run(group.submit)
    except Refused as error:  # It took too long, or too many wait: what became of these lines is not known.
        return group.given_up(error)


class _Group:
    """Lines that came together."""

    def __init__(self, call: Call, query: StreamTasks, before: int, lines: Sequence[bytes]) -> None:
        self._call, self._query, self._before, self._lines = call, query, before, lines
        self._receipts: dict[int, LineReceipt] = {}
        self.broken = False
        """Whether the stream cannot go on."""

    def submit(self) -> Sequence[LineReceipt]:
        """Write what can be written; a receipt for each line that is not empty."""
        new: list[tuple[int, NewTask]] = []
        for number, line in self._numbered():
            try:
                given = decode_json(line, SubmitTask, "line")
                task = new_task(self._call.handlers, self._call.caller, given, trusted=self._query.unchecked)
                new.append((number, task))
            except StoreError as error:
                return self.given_up(error)
            except WindlassError as error:
                self._refuse(number, error)
        try:
            self._write(new)
        except StoreError as error:
            return self.given_up(error)
        return self._in_order()

    def given_up(self, error: WindlassError) -> Sequence[LineReceipt]:
        """The same answer for every line that has none yet, and no further lines."""
        self.broken = True
        logger.warning("a stream was given up: %s", error)
        for number, _ in self._numbered():
            if number not in self._receipts:
                self._refuse(number, error)
        return self._in_order()

    def _write(self, new: Sequence[tuple[int, NewTask]]) -> None:
        if not new:
            return
        try:
            written = self._call.store.submit([task for _, task in new])
        except StoreError:
            raise
        except WindlassError as error:
            if len(new) == 1:
                self._refuse(new[0][0], error)
                return
            middle = len(new) // 2
            self._write(new[:middle])
            self._write(new[middle:])
        else:
            for (number, _), receipt in zip(new, written, strict=True):
                self._receipts[number] = _line(number, receipt)

    def _refuse(self, number: int, error: WindlassError) -> None:
        refused_submits.count(error)
        self._receipts[number] = LineReceipt(line=number, error=problem_of(error))

    def _numbered(self) -> list[tuple[int, bytes]]:
        return [(number, line) for number, line in enumerate(self._lines, self._before + 1) if line.strip()]

    def _in_order(self) -> Sequence[LineReceipt]:
        return [self._receipts[number] for number in sorted(self._receipts)]


async def _atomic(call: Call, reader: LineReader[SubmitTask], query: StreamTasks) -> Sequence[LineReceipt]:
    """All lines in one batch, or a problem that names the line."""
    lines: list[bytes] = []
    async for more in reader.lines():
        lines += more
        if len(lines) > MAX_BATCH:
            raise Refused("too_many_tasks", f"more than {MAX_BATCH:,} lines; leave atomic out, or send fewer")
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]

    def submit() -> Sequence[LineReceipt]:
        new = [_new(call, query, number, line) for number, line in numbered]
        try:
            written = call.store.submit(new)
        except InvalidTask as error:
            raise error if error.index is None else _of_line(error, numbered[error.index][0]) from error
        return [_line(number, receipt) for (number, _), receipt in zip(numbered, written, strict=True)]

    return await reader.run(submit)


def _new(call: Call, query: StreamTasks, number: int, line: bytes) -> NewTask:
    try:
        return new_task(call.handlers, call.caller, decode_json(line, SubmitTask, "line"), trusted=query.unchecked)
    except StoreError:
        raise
    except WindlassError as error:
        raise _of_line(error, number) from error


def _of_line(error: WindlassError, number: int) -> Refused:
    """Return the refusal of one line of the stream."""
    found = problem_of(error)
    field = found.errors[0].field if found.errors else None
    return Refused(error.code, f"line {number}: {error}", field=field, line=number)


def _line(number: int, receipt: Receipt) -> LineReceipt:
    return LineReceipt(line=number, id=receipt.id, created=receipt.created, state=receipt.state)
