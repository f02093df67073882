"""What nodes and people share through a store: controls, reports, the audit log, and the snapshot that sizes pools.

A control is a small versioned document: a pool's target size, an operator's override, a circuit breaker, a token. It is
written with compare-and-set. The audit log records what was done or decided, and by whom. The contents of controls,
reports and audit entries are JSON text that only their writers and readers interpret.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from windlass.core.lifecycle import State
from windlass.core.names import check_name, check_text, check_type
from windlass.core.retry import storable
from windlass.core.task import SessionId
from windlass.core.times import Micros
from windlass.core.worker_list import MAX_CHARACTERS
from windlass.errors import InvalidTask

STEERING = ("breaker", "order", "pool", "stop")
"""The kinds of controls that a `look` includes."""
LOOKED_AT = 5_000
"""The largest number of due tasks that a `look` counts."""
AUDIT_KEPT = timedelta(days=90)

MAX_QUEUES = 1_000
MAX_CONTROL = 262_144
MAX_REPORT = 65_536
MAX_ENTRIES = 1_000
MAX_SUBJECT = 640
"""Enough for a kind and the longest name."""
MAX_TEXT = 2_000
MAX_DATA = 65_536


class Control(Struct, frozen=True, kw_only=True):
    """A stored document. Its version grows with every change, including removals."""

    kind: str
    name: str
    version: int
    value: str
    """JSON text."""
    changed: Micros


class Entry(Struct, frozen=True, kw_only=True):
    """An audit entry: something that a person or the autoscaler did or decided."""

    subject: str
    """Kind and name, such as "pool/mail", "breaker/payments", "queue/bulk"."""
    action: str
    """One word, such as "grew", "shrank", "held", "paused", "opened"."""
    text: str
    """One readable sentence."""
    by: str = ""
    """The author: a person or a node."""
    data: str = ""
    """JSON text with the inputs of the decision."""


class EntrySeen(Entry, frozen=True, kw_only=True):
    """A stored audit entry."""

    number: int
    """Grows from entry to entry, with gaps. Used as the cursor of pages."""
    at: Micros


class QueueLook(Struct, frozen=True, kw_only=True):
    """The work in a queue."""

    queue: str
    runnable: int = 0
    leased: int = 0
    scheduled: int = 0
    retrying: int = 0
    oldest: Micros | None = None
    """When the longest waiting runnable task became due; None if nothing is runnable."""
    paused: bool = False


class Due(Struct, frozen=True, kw_only=True):
    """The number of tasks of a queue that become due in one second."""

    queue: str
    state: State
    """Scheduled or retrying."""
    seconds: int
    """The second from now, rounded up; 0 for tasks that are already due and not swept yet."""
    tasks: int


class Report(Struct, frozen=True, kw_only=True):
    """The latest report of a live node."""

    session: SessionId
    node: str
    report: str
    """JSON text."""
    age: timedelta
    """The time since the report."""


class Look(Struct, frozen=True, kw_only=True):
    """A snapshot of what is needed to size the pools of some queues."""

    now: Micros
    """By the store's clock."""
    queues: list[QueueLook]
    """In the order of the request, each once."""
    due: list[Due]
    """Sorted by queue, state and second."""
    controls: list[Control]
    """The controls of the kinds in `STEERING`, by kind and name."""
    reports: list[Report]
    """The reports of live sessions, newest session first."""


class Coordination(Protocol):
    """What nodes need to agree on pool sizes, and people to override them."""

    def report(self, session: SessionId, text: str) -> None:
        """Store a node's report about its pools, replacing the previous one. This does not renew the session.

        Raise `SessionLost`.
        """
        ...

    def look(self, queues: Sequence[str], *, ahead: timedelta) -> Look:
        """Return a snapshot: the work in these queues, tasks due within `ahead`, controls, and reports of nodes.

        The cost does not grow with the number of tasks: of those that become due, at most the next `LOOKED_AT` are
        counted, over all queues.
        """
        ...

    def put_control(
        self, kind: str, name: str, value: str | None, *, expect: int, entries: Sequence[Entry] = ()
    ) -> bool:
        """Write a control and its audit entries in one transaction, if its version is still `expect` (compare-and-set).

        The version of a control that does not exist is 0; a value of None removes it. Return False and write nothing
        if the version differs: of several callers that expect the same version, exactly one gets True. A control that
        is created again after a removal continues with the next version, so that nobody can overwrite it with an old
        one. Raise `CommitUnknown` if the answer to the commit was lost and the control has been changed since.
        """
        ...

    def note(self, entries: Sequence[Entry]) -> None:
        """Append entries to the audit log. If the answer to the commit is lost, they may be written twice."""
        ...


def check_control(kind: str, name: str, value: str | None, expect: int) -> str | None:
    """Check a control and return its value as a store keeps it."""
    check_name("kind", kind)
    check_text("name", name, 256)
    if type(expect) is not int or expect < 0:
        raise InvalidTask(f"expect={expect!r} is not a version. Pass the one that was read, or 0 if there was none.")
    return None if value is None else check_size("value", value, MAX_CONTROL)


def check_entries(entries: Sequence[Entry]) -> list[Entry]:
    """Check audit entries and return them as a store keeps them."""
    check_type("entries", entries, (list, tuple), "pass a list of Entry")
    if len(entries) > MAX_ENTRIES:
        raise InvalidTask(f"entries: {len(entries):,} given, at most {MAX_ENTRIES:,} allowed in one call")
    return [_check_entry(entry) for entry in entries]


def check_report(text: str) -> str:
    """Check the length of a report and return it as a store keeps it."""
    return check_size("report", text, MAX_REPORT)


def check_renewal(about: str | None, workers: str | None) -> dict[str, str | None]:
    """Check the length of a list of workers. Return both texts as a store keeps them."""
    return {
        "about": None if about is None else storable(about),
        "workers": None if workers is None else check_size("workers", workers, MAX_CHARACTERS),
    }


def check_queues(queues: Sequence[str]) -> list[str]:
    """Check the names of queues and return each once."""
    if len(queues) > MAX_QUEUES:
        raise InvalidTask(f"queues: {len(queues):,} given, at most {MAX_QUEUES:,} allowed in one call")
    for queue in queues:
        check_name("queue", queue)
    return list(dict.fromkeys(queues))


def seconds_until(due: Micros, now: Micros) -> int:
    """Return the number of seconds until a task is due, rounded up; 0 if it is due."""
    return max(0, -((now - due) // 1_000_000))


def is_prefix(subject: str) -> bool:
    """Return True if a requested subject stands for all that start with it."""
    return subject.endswith("/")


def kind_of(subject: str) -> str:
    """Return the kind of a subject: the part before the slash."""
    return subject.partition("/")[0]


def check_size(field: str, text: str, longest: int) -> str:
    """Return text that any database can store. Raise `InvalidTask` if it is too long."""
    check_type(field, text, str, "pass text")
    if len(text) > longest:
        raise InvalidTask(f"{field} has {len(text):,} characters; at most {longest:,} are allowed")
    return storable(text)


def _check_entry(entry: Entry) -> Entry:
    check_type("entry", entry, Entry, "pass an Entry")
    check_text("subject", entry.subject, MAX_SUBJECT)
    check_text("action", entry.action, 64)
    return replace(
        entry,
        text=check_size("text", entry.text, MAX_TEXT),
        by=check_size("by", entry.by, MAX_TEXT),
        data=check_size("data", entry.data, MAX_DATA),
    )
