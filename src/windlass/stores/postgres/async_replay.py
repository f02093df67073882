"""Synchronous work over an asynchronous connection, without a thread and without a second copy of the work.

The work is run until it asks for rows that are not there yet. Then what it has asked so far is sent, and the work is
run again from its start, now with those answers. It is pure but for its statements, so it comes to the same place; no
statement is sent twice. A cancelled caller stops between two statements, and never after its own rollback.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from psycopg import AsyncRawCursor
from psycopg.rows import tuple_row

from windlass.stores.postgres.caller import AsyncConnection
from windlass.stores.postgres.transaction import bound
from windlass.stores.sql.database import Transaction, Values
from windlass.stores.statements import Statement

T = TypeVar("T")


class Unanswered(Exception):
    """The rows of a statement are wanted that has not been sent yet."""


class Asked(NamedTuple):
    """One statement of the work, what it was given, and whether it gives rows."""

    statement: str
    values: list[object]
    rows: bool


class Replay:
    """The transaction as the work sees it: statements that were answered before, then those that are to be sent."""

    def __init__(self, statements: Mapping[str, Statement], sent: Sequence[Asked], answers: Sequence[list[Values]]):
        self._statements = statements
        self._sent = sent
        self.answers = answers
        self._asked = 0
        self.unsent: list[Asked] = []

    def query(self, statement: str, batch: Sequence[Values] | None = None, **scalars: object) -> Later:
        return self._note(Asked(statement, bound(self._statements[statement], batch, scalars), True))

    def execute(self, statement: str, batch: Sequence[Values] | None = None, **scalars: object) -> None:
        if batch is None or batch:
            self._note(Asked(statement, bound(self._statements[statement], batch, scalars), False))

    def _note(self, asked: Asked) -> Later:
        number = self._asked
        self._asked += 1
        if number >= len(self._sent):
            self.unsent.append(asked)
        else:
            assert asked == self._sent[number], f"{asked.statement} was {self._sent[number].statement} the last time"
        return Later(self, number)


class Later:
    """The rows of one statement, once it has been sent."""

    def __init__(self, replay: Replay, number: int) -> None:
        self._replay = replay
        self._number = number

    def rows(self) -> Sequence[Values]:
        if self._number >= len(self._replay.answers):
            raise Unanswered
        return self._replay.answers[self._number]


async def replayed(
    connection: AsyncConnection, statements: Mapping[str, Statement], work: Callable[[Transaction], T]
) -> T:
    """Run the work to its end and send all of it. The work must begin anew with every call."""
    sent: list[Asked] = []
    answers: list[list[Values]] = []
    while True:
        replay = Replay(statements, tuple(sent), answers)
        result: list[T] = []
        with suppress(Unanswered):
            result.append(work(replay))
        for asked in replay.unsent:
            answers.append(await _send(connection, statements[asked.statement], asked))
            sent.append(asked)
        if result:
            return result[0]


async def _send(connection: AsyncConnection, statement: Statement, asked: Asked) -> list[Values]:
    cursor = AsyncRawCursor(connection, row_factory=tuple_row)
    await cursor.execute(statement.text.encode(), asked.values)
    return await cursor.fetchall() if asked.rows else []
