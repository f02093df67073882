"""What nodes and people agree on through a store: controls, reports, the audit log, and the look that sizes pools.

A control is a small versioned document (a pool's target, an operator's order, a circuit breaker, a token): whoever
changes it says which version was read, and of two who read the same one only one succeeds. The audit log says what was
done or decided, by whom. What is inside of a control, a report or an entry's data is JSON text of its writers' making.
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

STEERING = ("breaker", "order", "pool")
"""The kinds of controls that every `look` brings along."""
LOOKED_AT = 5_000
"""How many of the tasks that come due next a `look` counts at the most."""
AUDIT_KEPT = timedelta(days=90)

MAX_QUEUES = 1_000
MAX_CONTROL = 262_144
MAX_REPORT = 65_536
MAX_ENTRIES = 1_000
MAX_SUBJECT = 640
"""Room for a kind, and for the longest text that can be a name."""
MAX_TEXT = 2_000
MAX_DATA = 65_536


class Control(Struct, frozen=True, kw_only=True):
    """A document as it stands. The version grows with every change, also over a removal."""

    kind: str
    name: str
    version: int
    value: str
    """JSON text."""
    changed: Micros


class Entry(Struct, frozen=True, kw_only=True):
    """Something that a person or the autoscaler did or decided: one line of the audit log."""

    subject: str
    """Kind and name, as in "pool/mail", "breaker/payments", "queue/bulk"."""
    action: str
    """One word, as in "grew", "shrank", "held", "paused", "opened"."""
    text: str
    """One readable sentence."""
    by: str = ""
    """Who: a person, or a node."""
    data: str = ""
    """JSON text: inputs and arithmetic."""


class EntrySeen(Entry, frozen=True, kw_only=True):
    """An entry as the log has it."""

    number: int
    """Grows from entry to entry, with gaps; where a page ends and the next begins."""
    at: Micros


class QueueLook(Struct, frozen=True, kw_only=True):
    """What there is to do in a queue."""

    queue: str
    runnable: int = 0
    leased: int = 0
    scheduled: int = 0
    retrying: int = 0
    oldest: Micros | None = None
    """Since when the runnable task that has waited longest has been due; None when nothing is runnable."""
    paused: bool = False


class Due(Struct, frozen=True, kw_only=True):
    """How many tasks of a queue come due in one second."""

    queue: str
    state: State
    """Scheduled or retrying."""
    seconds: int
    """Within so many whole seconds from now, and not within one less; 0 = due already, and not yet swept."""
    tasks: int


class Report(Struct, frozen=True, kw_only=True):
    """What a node that is alive has said last."""

    session: SessionId
    node: str
    report: str
    """JSON text."""
    age: timedelta
    """How long ago it said so."""


class Look(Struct, frozen=True, kw_only=True):
    """All that is needed to size the pools of some queues, as of one moment."""

    now: Micros
    """By the store's clock."""
    queues: list[QueueLook]
    """In the order in which they were asked for, each once."""
    due: list[Due]
    """By queue, state and second."""
    controls: list[Control]
    """Those that steer, by kind and name."""
    reports: list[Report]
    """Of the sessions that are alive and have reported, the newest session first."""


class Coordination(Protocol):
    """What nodes need to agree on the sizes of their pools, and people to overrule them."""

    def report(self, session: SessionId, text: str) -> None:
        """Keep what a node says of its pools, in place of what it said before. It does not renew the session.

        Raises `SessionLost`.
        """
        ...

    def look(self, queues: Sequence[str], *, ahead: timedelta) -> Look:
        """What there is to do in these queues, what comes due within `ahead`, what was agreed, and who is there.

        All of it is as of one moment. The cost does not grow with the backlog: no more than `LOOKED_AT` of the tasks
        that come due next, of whatever queue, are counted.
        """
        ...

    def put_control(
        self, kind: str, name: str, value: str | None, *, expect: int, entries: Sequence[Entry] = ()
    ) -> bool:
        """Write a control, and the entries about it in the same transaction, if its version is still `expect`.

        0 stands for one that does not exist. It then has the version `expect + 1`; one that is made again after a
        removal goes on from the version at which it was removed, so that nobody who knew the old one can overwrite it.
        None removes it. False, and nothing written, when somebody was here before: of several who expect the same
        version exactly one gets True. `CommitUnknown` when the answer was lost and somebody has changed it since.
        """
        ...

    def note(self, entries: Sequence[Entry]) -> None:
        """Append entries to the audit log. If the answer to the commit is lost they may come to stand there twice."""
        ...


def check_control(kind: str, name: str, value: str | None, expect: int) -> str | None:
    """Refuse what can be no control; the value as a store keeps it."""
    check_name("kind", kind)
    check_text("name", name, 256)
    if type(expect) is not int or expect < 0:
        raise InvalidTask(f"expect={expect!r} is no version; give the one that was read, or 0 if there was none")
    return None if value is None else sized("value", value, MAX_CONTROL)


def check_entries(entries: Sequence[Entry]) -> list[Entry]:
    """Refuse what can be no entries of the log; the entries as a store keeps them."""
    check_type("entries", entries, (list, tuple), "pass a list of Entry")
    if len(entries) > MAX_ENTRIES:
        raise InvalidTask(f"entries: {len(entries):,} given, at most {MAX_ENTRIES:,} are taken in one call")
    return [_checked(entry) for entry in entries]


def check_report(text: str) -> str:
    """Refuse a report that is too long; the report as a store keeps it."""
    return sized("report", text, MAX_REPORT)


def check_renewal(about: str | None, workers: str | None) -> dict[str, str | None]:
    """Refuse a list of workers that is too long; both texts as a store keeps them."""
    return {
        "about": None if about is None else storable(about),
        "workers": None if workers is None else sized("workers", workers, MAX_CHARACTERS),
    }


def check_queues(queues: Sequence[str]) -> list[str]:
    """Refuse what can be no queues to look at; each of them once."""
    if len(queues) > MAX_QUEUES:
        raise InvalidTask(f"queues: {len(queues):,} given, at most {MAX_QUEUES:,} are looked at in one call")
    for queue in queues:
        check_name("queue", queue)
    return list(dict.fromkeys(queues))


def seconds_until(due: Micros, now: Micros) -> int:
    """In how many whole seconds a task is due, the begun one counted; 0 for one that is due already."""
    return max(0, -((now - due) // 1_000_000))


def is_prefix(subject: str) -> bool:
    """Whether a subject that is asked for stands for all that begin with it."""
    return subject.endswith("/")


def kind_of(subject: str) -> str:
    """The first part of a subject."""
    return subject.partition("/")[0]


def sized(field: str, text: str, longest: int) -> str:
    """Text that any database can hold, or a refusal of too much of it."""
    check_type(field, text, str, "pass text")
    if len(text) > longest:
        raise InvalidTask(f"{field} has {len(text):,} characters; at most {longest:,} are taken")
    return storable(text)


def _checked(entry: Entry) -> Entry:
    check_type("entry", entry, Entry, "pass an Entry")
    check_text("subject", entry.subject, MAX_SUBJECT)
    check_text("action", entry.action, 64)
    return replace(
        entry,
        text=sized("text", entry.text, MAX_TEXT),
        by=sized("by", entry.by, MAX_TEXT),
        data=sized("data", entry.data, MAX_DATA),
    )
