"""What the shared half needs of a database: transactions that run named statements.

An implementation retries a transaction whole when that is safe (serialization failure, deadlock, lost connection), so
the work given to `transact` must be repeatable; where a repeat would be wrong after a commit whose answer was lost,
the caller passes `recover`, which looks up what became of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol, TypeAlias, TypeVar
from uuid import UUID

from windlass.core.times import Micros

T = TypeVar("T")
Values: TypeAlias = tuple[Any, ...]
Asked: TypeAlias = tuple[str, Mapping[str, Any]]
"""A statement and what it is given."""


class Answer(Protocol):
    """The rows of a statement, fetched when they are asked for: what was sent meanwhile shares the round trip."""

    def rows(self) -> Sequence[Values]: ...


class Transaction(Protocol):
    """One transaction under way."""

    def query(self, statement: str, batch: Sequence[Values] | None = None, **scalars: object) -> Answer:
        """Run a statement whose rows are wanted; over every row of `batch` if one is given."""
        ...

    def execute(self, statement: str, batch: Sequence[Values] | None = None, **scalars: object) -> None:
        """Run a statement whose rows are not wanted. An empty batch is not sent at all."""
        ...


class Dialect(Protocol):
    """How a kind of database gives back ids, and by whose clock its statements go."""

    def uuid(self, value: Any) -> UUID:
        """A UUID as the driver gives it back."""
        ...

    def now(self) -> Micros | None:
        """The moment for statements; None where the database's own clock is to be asked."""
        ...


class Database(Dialect, Protocol):
    """A PostgreSQL or SQLite database with the Windlass tables in it."""

    def transact(self, work: Callable[[Transaction], T], *, recover: Callable[[], T | None] | None = None) -> T:
        """Run `work` in one transaction and commit it; retried whole for passing reasons."""
        ...

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work`, which writes nothing."""
        ...

    def snapshot(self, asked: Sequence[Asked]) -> list[Sequence[Values]]:
        """The rows of statements that write nothing, all as of one moment, and all in one round trip."""
        ...

    def join(self, conn: object, work: Callable[[Transaction], T]) -> T:
        """Run `work` inside the transaction of the caller's own connection, which commits or rolls it back."""
        ...

    def lease_now(self) -> Micros | None:
        """The moment by which sessions are judged; the same as `now` unless the machine has a steadier clock."""
        ...

    def boot(self) -> str:
        """Which start of the machine the sessions' clock counts from; empty where there is only one clock."""
        ...

    def notify(self, queues: Collection[str]) -> None:
        """Hint to everyone who waits that these queues may have work. Never fails, never blocks for long."""
        ...

    def wait(self, queues: Sequence[str], timeout: timedelta) -> bool:
        """Sleep until a hint for one of the queues comes, or the time is up."""
        ...

    def upkeep(self) -> Mapping[str, int]:
        """What this kind of database needs from time to time; called by every sweep, so bounded and quick.

        Returns how many runnable tasks that no claim could see were brought back into sight, by queue.
        """
        ...

    def close(self) -> None:
        """Let go of connections, sockets and threads."""
        ...
