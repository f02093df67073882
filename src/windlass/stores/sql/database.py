"""The interface of a database: transactions that run named statements.

A database retries a transaction after a serialization failure, a deadlock or a lost connection, so the function passed
to `transact` must be repeatable. If a repeat after a commit whose answer was lost would be wrong, the caller passes
`recover`, which finds out whether it was committed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol, TypeAlias, TypeVar
from uuid import UUID

from windlass.core.times import Micros

T = TypeVar("T")
Values: TypeAlias = tuple[Any, ...]
Query: TypeAlias = tuple[str, Mapping[str, Any]]
"""A statement and its parameters."""


class Answer(Protocol):
    """The result of a statement. `rows` fetches it; statements sent before that share the round trip."""

    def rows(self) -> Sequence[Values]: ...


class Transaction(Protocol):
    """An open transaction."""

    def query(self, statement: str, batch: Sequence[Values] | None = None, **scalars: object) -> Answer:
        """Run a statement and return its result; with `batch`, for every row of it."""
        ...

    def execute(self, statement: str, batch: Sequence[Values] | None = None, **scalars: object) -> None:
        """Run a statement without fetching a result. An empty batch is not sent."""
        ...


class Dialect(Protocol):
    """How a database returns ids, and which clock its statements use."""

    def uuid(self, value: Any) -> UUID:
        """Convert an id from the driver to a UUID."""
        ...

    def now(self) -> Micros | None:
        """Return the current time for statements; None to use the database's own clock."""
        ...


class Database(Dialect, Protocol):
    """A PostgreSQL or SQLite database with the Windlass tables."""

    def transact(self, work: Callable[[Transaction], T], *, recover: Callable[[], T | None] | None = None) -> T:
        """Run `work` in a transaction and commit it. The whole transaction is retried after transient errors."""
        ...

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work`, which only reads."""
        ...

    def snapshot(self, queries: Sequence[Query]) -> list[Sequence[Values]]:
        """Return the results of reading statements, from one snapshot and in one round trip."""
        ...

    def join(self, conn: object, work: Callable[[Transaction], T]) -> T:
        """Run `work` in the open transaction of a caller's connection, who commits it or rolls it back."""
        ...

    def lease_now(self) -> Micros | None:
        """Return the time of the clock for sessions: a monotonic clock if the machine has one, else as `now`."""
        ...

    def boot(self) -> str:
        """Return the id of the machine's boot, from which the clock for sessions counts; empty without such a clock."""
        ...

    def notify(self, queues: Collection[str]) -> None:
        """Wake up everyone who waits for work in these queues. A hint: it never fails and never blocks for long."""
        ...

    def wait(self, queues: Sequence[str], timeout: timedelta) -> bool:
        """Wait until one of the queues is notified. Return False after `timeout`."""
        ...

    def upkeep(self) -> Mapping[str, int]:
        """Do what this kind of database needs regularly. Every sweep calls it, so it is bounded and quick.

        Return the number of repaired tasks by queue: runnable ones that no claim could see.
        """
        ...

    def close(self) -> None:
        """Close connections, sockets and threads."""
        ...
