"""What people need of a database beside its tasks: how it is doing, whether it is sound, a copy of it elsewhere.

None of it is on the way of a task. An `Admin` opens a connection of its own, migrates nothing and makes no file. Rows
travel in one neutral form between databases: ids as UUIDs, flags as bool, the rest as it is.
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
    """A table that is copied: its columns in both dialects, and which of them are ids and flags."""

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
        "crashes losses generation cancel_requested cancel_by reason kind error_group",
        ids="id session",
        flags="cancel_requested",
    ),
    _table(
        "body",
        "id handler args rules workflow workflow_tenant key fingerprint priority deadline first_due submitted",
        ids="id fingerprint",
    ),
    _table("result", "id value", ids="id"),
    _table("attempt", "task fence session started ended state error", ids="task session"),
    _table("edge", "child parent resolved", ids="child parent", flags="resolved"),
    _table("ended", "parent how after", ids="parent after"),
    _table("joining", "child", ids="child"),
    _table("bulk", "id action decided reason grace expires", ids="id", flags="decided"),
    _table("bulk_task", "bulk task chosen stage", ids="bulk task", flags="chosen"),
    _table("session", "id node ttl renewed boot lost about workers report reported", ids="id", flags="lost"),
    _table("workflow", "id tenant name sealed forward check_later", ids="id", flags="sealed check_later"),
    _table("placeholder", "id workflow expires", ids="id workflow"),
    _table(
        "queue",
        "name strategy horizon step paused paused_by paused_why max_waiting max_leased weight fair",
        flags="paused fair",
    ),
    _table("tally", "queue tenant state tasks at arrived waited longest"),
    _table("series", "queue width at arrived started completed failed retried waited longest"),
    _table("log", "task fence text", ids="task"),
    _table("progress", "task fence share message at", ids="task"),
    _table("handler", "name is_async queue parameters returns doc template seen", flags="is_async"),
    _table("cron", "name handler schedule timezone misfire args fired paused paused_by paused_why", flags="paused"),
    _table("control", "kind name version value changed mark", ids="mark"),
    _table("audit", "number at kind subject action text by data"),
)
"""Everything but the epoch, and what one dialect keeps for itself: lots, and the record of migrations."""


class Status(Struct, frozen=True, kw_only=True):
    """How a database is doing."""

    kind: str
    version: str
    """Of the database's own software."""
    schema: int
    """The last migration that was applied; 0 before the first."""
    newest: int
    """The last migration that this Windlass knows."""
    bytes: int
    tasks: dict[str, int]
    """By state."""
    sessions: int
    """Nodes that are not known to be gone."""
    facts: dict[str, str]
    """What bears on durability and limits, by the database's own names."""


class Finding(Struct, frozen=True, kw_only=True):
    """Something that must not be so."""

    check: str
    count: int
    text: str
    examples: list[str]


class DatabaseMissing(StoreUnavailable):
    """The file that a URL names does not exist."""


class Source(Protocol):
    """All rows of a database as of one moment."""

    def epoch(self) -> int:
        """The store's epoch."""
        ...

    def count(self, table: Table) -> int:
        """How many rows there are."""
        ...

    def rows(self, table: Table) -> Iterator[Rows]:
        """All of them, in batches."""
        ...


class Target(Protocol):
    """A database that is being filled, in one transaction."""

    def is_empty(self) -> bool:
        """Whether nobody has used it yet, not even a node."""
        ...

    def write(self, table: Table, rows: Rows) -> None:
        """Add rows."""
        ...

    def end(self, epoch: int) -> None:
        """Set the epoch, and whatever must follow the rows that were written."""
        ...


class Admin(Protocol):
    """What one kind of database offers."""

    def status(self) -> Status:
        """How it is doing."""
        ...

    def clock(self) -> int:
        """The moment by the clock that judges leases, in microseconds since 1970."""
        ...

    def check(self) -> list[Finding]:
        """What is wrong with it: its own structure first, then what our statements promise about its rows."""
        ...

    def backup(self, to: str, advance: Advance) -> None:
        """A copy that can be opened as it is, made while others work. `NotAllowed` where other tools do that better."""
        ...

    def reading(self) -> AbstractContextManager[Source]:
        """Read all of it as of now."""
        ...

    def writing(self) -> AbstractContextManager[Target]:
        """Fill it: committed at the end, and left as it was on any error."""
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...


PROMISES: Mapping[str, str] = {
    "tally_differs": "the counts by queue, tenant and state are not those of the rows",
    "leases_without_session": "tasks are leased to a session that does not exist",
    "waiting_differs": "tasks count other open prerequisites than they have",
    "tasks_without_body": "tasks have no handler and arguments",
    "bodies_without_task": "handlers and arguments belong to no task",
    "edges_from_nowhere": "tasks wait for something that does not exist",
    "out_of_sight": "tasks are runnable where no claim looks; a sweep, which every node makes, brings them back",
    "wakeups_lost": "tasks wait for something that has ended, and nobody will tell them",
}
"""What each statement of a dialect's `inspection` folder looks for; the rows that it finds are what is wrong. A dialect
in which something cannot go wrong has no statement for it."""


def found(check: str, rows: Sequence[Sequence[Any]]) -> list[Finding]:
    """What a check has found, if anything: each row begins with what it is about, the last column counts them all."""
    if not rows:
        return []
    return [Finding(check=check, count=rows[0][-1], text=PROMISES[check], examples=[str(row[0]) for row in rows[:5]])]
