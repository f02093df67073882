"""Record the statements of a submit without a database, so that they can be sent without the store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

from msgspec import Struct

from windlass.clock import SystemClock
from windlass.core.task import NewTask
from windlass.stores.protocol import RETENTION
from windlass.stores.series import SERIES_KEPT
from windlass.stores.sql.database import Transaction, Values
from windlass.stores.sql.store import SqlStore

T = TypeVar("T")


class Call(Struct, frozen=True):
    """One statement of a transaction. If `answered`, its rows are read before the next statement is sent."""

    statement: str
    batch: Sequence[Values] | None
    scalars: dict[str, Any]
    answered: bool


class Rows:
    """The rows that a submit of new tasks finds: no queue settings, and no tasks with the same keys."""

    def __init__(self, found: Sequence[Values]) -> None:
        self._found = found

    def rows(self) -> Sequence[Values]:
        return self._found


class Recorder:
    """A database and transaction that record their calls."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def query(self, statement: str, batch: Sequence[Values] | None = None, **scalars: object) -> Rows:
        self.calls.append(Call(statement, batch, scalars, True))
        return Rows([(SystemClock().now(), True, *[None] * 11)] if statement == "prepare" else [])

    def execute(self, statement: str, batch: Sequence[Values] | None = None, **scalars: object) -> None:
        if batch is None or batch:
            self.calls.append(Call(statement, batch, scalars, False))

    def transact(self, work: Callable[[Transaction], T], *, recover: Callable[[], T | None] | None = None) -> T:
        return work(self)

    def read(self, work: Callable[[Transaction], T]) -> T:
        return work(self)

    def join(self, conn: object, work: Callable[[Transaction], T]) -> T:
        return work(self)

    def uuid(self, value: Any) -> UUID:
        return UUID(bytes=value) if isinstance(value, bytes) else value

    def now(self) -> int:
        return SystemClock().now()

    def lease_now(self) -> int:
        return self.now()

    def boot(self) -> str:
        return ""

    def notify(self, queues: Collection[str]) -> None:
        return

    def wait(self, queues: Sequence[str], timeout: timedelta) -> bool:
        return False

    def upkeep(self) -> Mapping[str, int]:
        return {}

    def close(self) -> None:
        return


def record_submit(tasks: Sequence[NewTask]) -> list[Call]:
    """Return the statements that a SQL store sends to submit these tasks."""
    recorder = Recorder()
    SqlStore(recorder, RETENTION, SERIES_KEPT).submit(tasks)
    return recorder.calls
