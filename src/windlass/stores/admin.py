"""Administration of databases: status, integrity checks, backups and copies.

An `Admin` opens its own connection. It does not migrate and does not create files. Rows are copied between databases in
a neutral form: ids as UUIDs, flags as bool, everything else as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from windlass.errors import StoreUnavailable

Rows: TypeAlias = Sequence[Sequence[Any]]
Advance: TypeAlias = Callable[[int], object]

BATCH = 5_000


class Table(Struct, frozen=True):
    """A table to copy: its columns, and which of them are ids and flags."""

    name: str
    columns: tuple[str, ...]
    ids: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()


def _table(name: str, columns: str, *, ids: str = "", flags: str = "") -> Table:
    return Table(name, tuple(columns.split()), frozenset(ids.split()), frozenset(flags.split()))


TABLES: tuple[Table, ...] = (
    _table(
        "task",
        "id queue tenant state band rank tie due expires waiting on_failure fence session claimed finished attempts "
        "crashes losses generation cancel_requested cancel_by reason kind error_group handler args rules workflow "
        "workflow_tenant key fingerprint priority deadline first_due submitted wait",
        ids="id session fingerprint",
        flags="cancel_requested",
    ),
    _table("runnable", "queue band rank tie id kind due expires", ids="id"),
    _table(
        "leased",
        "id fence session claimed queue tenant handler limit_key limited charge cancel_requested",
        ids="id session",
        flags="limited cancel_requested",
    ),
    _table("completed", "id fence session claimed finished", ids="id session"),
    _table("result", "id value", ids="id"),
    _table("attempt", "task fence session started ended state error", ids="task session"),
    _table("edge", "child parent resolved", ids="child parent", flags="resolved"),
    _table("ended", "parent how after", ids="parent after"),
    _table("joining", "child", ids="child"),
    _table("bulk", "id action decided reason grace expires", ids="id", flags="decided"),
    _table("bulk_task", "bulk task chosen stage", ids="bulk task", flags="chosen"),
    _table(
        "session", "id node ttl renewed boot lost closed about workers report reported", ids="id", flags="lost closed"
    ),
    _table("workflow", "id tenant name sealed forward check_later", ids="id", flags="sealed check_later"),
    _table("placeholder", "id workflow expires", ids="id workflow"),
    _table(
        "queue",
        "name strategy horizon step paused paused_by paused_why paused_until max_waiting weight fair",
        flags="paused fair",
    ),
    _table("count_delta", "queue tenant state tasks at arrived waited longest"),
    _table("series", "queue width at arrived started completed failed retried waited longest"),
    _table("log", "task fence text", ids="task"),
    _table("progress", "task fence share message at", ids="task"),
    _table("handler", "name is_async queue parameters returns doc template seen", flags="is_async"),
    _table(
        "cron",
        "name handler schedule timezone misfire args fired paused paused_by paused_why queue tenant priority starts "
        "ends at_run_time version due",
        flags="paused at_run_time",
    ),
    _table("control", "kind name version value changed mark", ids="mark"),
    _table("audit", "number at kind subject action text by data"),
    _table("account", "queue tenant charged highest mean minute hour at active", flags="active"),
    _table("usage", "queue tenant ran charge attempts at"),
    _table("bucket", "name full_at"),
    _table("unique_lock", "id task until look", ids="id task"),
)
"""All tables except the epoch, claim partitions and lanes, which claims build again, and applied migrations."""


class Status(Struct, frozen=True, kw_only=True):
    """The status of a database."""

    kind: str
    version: str
    """The version of PostgreSQL or SQLite."""
    schema: int
    """The number of the last applied migration; 0 if there is none."""
    compatible_from: int
    """The oldest schema whose programs can use the database."""
    newest: int
    """The number of the last migration that this version of Windlass has."""
    bytes: int
    tasks: dict[str, int]
    """The number of tasks by state."""
    sessions: int
    """The number of sessions that are not lost or closed."""
    facts: dict[str, str]
    """Settings that affect durability and limits, by the database's own names."""

    @property
    def is_usable(self) -> bool:
        """Return True if this program can use the database as it is: it needs no migration, and is not too new."""
        return self.compatible_from <= self.newest <= self.schema


class Rights(Struct, frozen=True, kw_only=True):
    """What a role may do in a database."""

    role: str
    superuser: bool
    verbs: Mapping[str, frozenset[str]]
    """SELECT, INSERT, UPDATE and DELETE, by table."""


class Finding(Struct, frozen=True, kw_only=True):
    """A problem that a check has found."""

    check: str
    count: int
    text: str
    examples: list[str]


class DatabaseMissing(StoreUnavailable):
    """The file that a URL names does not exist, or the database has no Windlass tables."""


class Source(Protocol):
    """A snapshot of all rows of a database."""

    def epoch(self) -> int:
        """Return the store's epoch."""
        ...

    def count(self, table: Table) -> int:
        """Return the number of rows."""
        ...

    def rows(self, table: Table) -> Iterator[Rows]:
        """Yield all rows, in batches."""
        ...


class Target(Protocol):
    """A database to copy into, in one transaction."""

    def is_empty(self) -> bool:
        """Return True if the database has never been used, not even by a node."""
        ...

    def write(self, table: Table, rows: Rows) -> None:
        """Add rows."""
        ...

    def end(self, epoch: int) -> None:
        """Set the epoch, and do what must follow the rows."""
        ...


class Admin(Protocol):
    """The administration of one database."""

    def status(self) -> Status:
        """Return the status of the database."""
        ...

    def rights(self) -> Rights | None:
        """Return what the role of the connection may do. None if the database has no roles."""
        ...

    def clock(self) -> int:
        """Return the time of the clock that decides about sessions, in microseconds since 1970."""
        ...

    def check(self) -> list[Finding]:
        """Check the database: first its own structure, then the consistency of its rows."""
        ...

    def backup(self, to: str, advance: Advance) -> None:
        """Make a copy while the database is in use. Raise `NotAllowed` if another tool should be used."""
        ...

    def reading(self) -> AbstractContextManager[Source]:
        """Open a snapshot of the whole database."""
        ...

    def writing(self) -> AbstractContextManager[Target]:
        """Open the database for a copy. It is committed at the end, and rolled back on any error."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


PROMISES: Mapping[str, str] = {
    "counts_differ": "the counts by queue, tenant and state differ from the rows",
    "leases_without_session": "tasks are leased to a session that does not exist",
    "waiting_differs": "the number of open prerequisites of a task differs from its edges",
    "in_two_tables": "tasks are in two of the tables runnable, leased and completed, or in one and not queued",
    "in_no_table": "queued tasks are in none of the tables runnable, leased and completed",
    "edges_from_nowhere": "tasks wait for something that does not exist",
    "out_of_sight": "tasks are runnable where no claim looks; the sweep of any node repairs them",
    "wakeups_lost": "tasks wait for something that has ended, and nothing will unblock them",
}
"""What the rows mean that each statement of an `inspection` folder finds. A dialect has no statement for a problem that
it cannot have."""


def found(check: str, rows: Sequence[Sequence[Any]]) -> list[Finding]:
    """Return the finding of a check, if any. Each row starts with an example; the last column is the total."""
    if not rows:
        return []
    return [Finding(check=check, count=rows[0][-1], text=PROMISES[check], examples=[str(row[0]) for row in rows[:5]])]
