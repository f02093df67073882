"""Run synchronous work on an asynchronous connection, without a thread and without a second version of the work.

The work runs until it needs a result that is not there yet. Then its statements so far are sent, and the work starts
again from the beginning, now with their results. Apart from its statements the work is pure, so it reaches the same
point again. No statement is sent twice. A cancelled caller stops between two statements, never after its own rollback.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from windlass.stores.postgres.async_callers import AsyncCaller
from windlass.stores.sql.database import Transaction, Values
from windlass.stores.statements import Statement

T = TypeVar("T")


class Unanswered(Exception):
    """The work needs the result of a statement that has not been sent yet."""


class Asked(NamedTuple):
    """A statement, its parameters, and whether it returns rows."""

    statement: str
    values: list[object]
    rows: bool


class Replay:
    """The transaction that the work sees: it returns known results, and records the statements to send."""

    def __init__(
        self,
        caller: AsyncCaller,
        statements: Mapping[str, Statement],
        sent: Sequence[Asked],
        answers: Sequence[list[Values]],
    ) -> None:
        self._caller = caller
        self._statements = statements
        self._sent = sent
        self.answers = answers
        self._asked = 0
        self.unsent: list[Asked] = []

    def query(self, statement: str, batch: Sequence[Values] | None = None, **scalars: object) -> Later:
        return self._note(Asked(statement, self._caller.bind(self._statements[statement], batch, scalars), True))

    def execute(self, statement: str, batch: Sequence[Values] | None = None, **scalars: object) -> None:
        if batch is None or batch:
            self._note(Asked(statement, self._caller.bind(self._statements[statement], batch, scalars), False))

    def _note(self, asked: Asked) -> Later:
        number = self._asked
        self._asked += 1
        if number >= len(self._sent):
            self.unsent.append(asked)
        else:
            assert asked == self._sent[number], f"{asked.statement} was {self._sent[number].statement} in the last run"
        return Later(self, number)


class Later:
    """The result of a statement, available once it has been sent."""

    def __init__(self, replay: Replay, number: int) -> None:
        self._replay = replay
        self._number = number

    def rows(self) -> Sequence[Values]:
        if self._number >= len(self._replay.answers):
            raise Unanswered
        return self._replay.answers[self._number]


async def replayed(caller: AsyncCaller, statements: Mapping[str, Statement], work: Callable[[Transaction], T]) -> T:
    """Run the work to its end and send all its statements. The work must start from the beginning at every call."""
    sent: list[Asked] = []
    answers: list[list[Values]] = []
    while True:
        replay = Replay(caller, statements, tuple(sent), answers)
        result: list[T] = []
        with suppress(Unanswered):
            result.append(work(replay))
        for asked in replay.unsent:
            answers.append(await caller.run(statements[asked.statement].text, asked.values, rows=asked.rows))
            sent.append(asked)
        if result:
            return result[0]
