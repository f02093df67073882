"""Submit a stream of tasks over HTTP: one task per line, and one receipt per line in the same order.

Lines that arrive together are submitted together. A refused line gets its own problem and does not affect others: a
batch that the store refuses is halved until the invalid line is alone.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from functools import partial

from msgspec import Struct
from starlette.requests import ClientDisconnect

from windlass.core.task import NewTask
from windlass.errors import InvalidTask, Refused, StoreError, WindlassError
from windlass.operations import tasks
from windlass.operations.caller import Scope
from windlass.refused_submits import refused_submits
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.server.http.streaming import LineReader
from windlass.server.routes.tasks import SUBMIT_ERRORS
from windlass.stores.protocol import Receipt
from windlass.wire.fields import MAX_BATCH
from windlass.wire.problems import problem_of
from windlass.wire.strict_json import decode_json
from windlass.wire.tasks import LineReceipt, SubmitTask, new_task

route = Routes("tasks")
logger = logging.getLogger("windlass.server")

MAX_ATOMIC = 16_000_000
"""How many bytes an atomic stream may have: all of its tasks are in memory until the last line."""
BATCH = 1_000
"""How many lines are submitted in one batch."""


class StreamTasks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a stream is submitted."""

    atomic: bool = False
    """All lines or none: at most 10,000 and 16 MB, and the first receipt comes after the last line."""
    unchecked: bool = False
    """Accept handlers that no node has published yet."""


@route("POST", "/tasks:stream", Scope.SUBMIT, errors=[*SUBMIT_ERRORS, "too_many_tasks"])
async def stream_tasks(
    call: Call, reader: LineReader[SubmitTask], query: StreamTasks
) -> AsyncGenerator[Sequence[LineReceipt]]:
    """Submit one task per line (NDJSON), and read one receipt per line while you write.

    The receipt of a refused line has an `error`. Empty lines are skipped. The stream ends when the store becomes
    unavailable: send lines without a receipt again. Repeating a line with a key is harmless.
    """
    if query.atomic:
        yield await _atomic(call, reader, query)
        return
    number = 0
    try:
        async for lines in reader.lines():
            for start in range(0, len(lines), BATCH):
                group = _Group(call, query, number + start, lines[start : start + BATCH])
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
    except Refused as error:  # A timeout or an overload: it is unknown whether these lines were submitted.
        return group.give_up(error)


class _Group:
    """Lines that arrived together."""

    def __init__(self, call: Call, query: StreamTasks, before: int, lines: Sequence[bytes]) -> None:
        self._call, self._query, self._before, self._lines = call, query, before, lines
        self._receipts: dict[int, LineReceipt] = {}
        self.broken = False
        """True if the stream must end."""

    def submit(self) -> Sequence[LineReceipt]:
        """Submit the valid lines; return a receipt for each line that is not empty."""
        new: list[tuple[int, NewTask]] = []
        for number, line in self._numbered():
            try:
                given = decode_json(line, SubmitTask, "line")
                task = new_task(self._call.access, given, unchecked=self._query.unchecked)
                new.append((number, task))
            except StoreError as error:
                return self.give_up(error)
            except WindlassError as error:
                self._refuse(number, error)
        try:
            self._write(new)
        except StoreError as error:
            return self.give_up(error)
        return self._in_order()

    def give_up(self, error: WindlassError) -> Sequence[LineReceipt]:
        """Return this error for every line without a receipt, and end the stream."""
        self.broken = True
        logger.warning("stream of tasks ended: %s", error)
        for number, _ in self._numbered():
            if number not in self._receipts:
                self._refuse(number, error)
        return self._in_order()

    def _write(self, new: Sequence[tuple[int, NewTask]]) -> None:
        if not new:
            return
        try:
            written = tasks.submit(self._call.access, [task for _, task in new])
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
    """Submit all lines in one batch, or raise a problem that names the line. Lines are parsed as they arrive."""
    new: list[tuple[int, NewTask]] = []
    lines = size = 0
    async for more in reader.lines():
        lines += len(more)
        size += sum(map(len, more))
        reader.held.add(sum(map(len, more)))
        if lines > MAX_BATCH:
            raise Refused("too_many_tasks", f"More than {MAX_BATCH:,} lines. Leave out `atomic`, or send fewer.")
        if size > MAX_ATOMIC:
            raise Refused("body_too_large", f"More than {MAX_ATOMIC:,} bytes. Leave out `atomic`, or send fewer tasks.")
        new += await reader.run(partial(_parse, call, query, lines - len(more) + 1, more))

    def submit() -> Sequence[LineReceipt]:
        try:
            written = tasks.submit(call.access, [task for _, task in new])
        except InvalidTask as error:
            raise error if error.index is None else _of_line(error, new[error.index][0]) from error
        return [_line(number, receipt) for (number, _), receipt in zip(new, written, strict=True)]

    return await reader.run(submit)


def _parse(call: Call, query: StreamTasks, first: int, lines: Sequence[bytes]) -> list[tuple[int, NewTask]]:
    """Return the tasks of some lines with the numbers of the lines."""
    return [(number, _new(call, query, number, line)) for number, line in enumerate(lines, first) if line.strip()]


def _new(call: Call, query: StreamTasks, number: int, line: bytes) -> NewTask:
    try:
        return new_task(call.access, decode_json(line, SubmitTask, "line"), unchecked=query.unchecked)
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
