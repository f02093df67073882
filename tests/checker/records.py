"""What the checker reads: one JSON object per line, of any of these types, in any order and any number of files.

`README.md` describes the format for those who write it. Times are seconds since 1970; ids are text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

Status: TypeAlias = Literal["ok", "fail", "unknown"]
FINAL = frozenset({"completed", "failed", "cancelled", "expired"})


class Record(Struct, tag_field="type", tag=lambda name: name.lower(), omit_defaults=True):
    """Base class of all lines."""


class Invoke(Record, kw_only=True):
    """A client begins a call. Without an `End` for it, its outcome is unknown."""

    call: str
    """Unique in the recording."""
    process: str
    what: str
    """`submit`, `cancel`, `retry`, `purge`, `read` or `drain`. Others are checked for tenant and duration alone."""
    at: float
    tenant: str = ""
    """The tenant whose token the client used; empty for an operator who may see all."""
    tasks: tuple[str, ...] = ()
    """The tasks that it is about: those that a submit would create, those to cancel."""
    all: bool = False
    """True if it is about all tasks of the tenant."""
    node: str = ""
    sessions: tuple[str, ...] = ()
    """For `drain`: the sessions that the node had then, if the recording has no renewals."""


class End(Record, kw_only=True):
    """A client's call has ended."""

    call: str
    status: Status
    """`ok`: done. `fail`: certainly not done. `unknown`: either."""
    at: float
    tasks: tuple[str, ...] = ()
    """The tasks that the answer names."""
    error: str = ""


class TaskRow(Record, kw_only=True, tag="task"):
    """A task as the store has it at the end."""

    id: str
    tenant: str
    queue: str
    handler: str
    state: str
    submitted: float
    finished: float | None = None
    expires: float | None = None
    key: str | None = None
    prerequisites: tuple[str, ...] = ()
    on_failure: str = "cancel"
    waiting: int = 0
    fence: int = 0
    session: str = ""
    attempts: int = 0
    crashes: int = 0
    losses: int = 0
    generation: int = 0
    max_attempts: int = 1
    max_crashes: int = 2
    at_most_once: bool = False
    reason: str = ""


class AttemptRow(Record, kw_only=True, tag="attempt"):
    """A finished attempt in the store."""

    task: str
    fence: int
    session: str
    started: float
    ended: float
    state: str
    error: str = ""
    """The kind of the error."""


class SessionRow(Record, kw_only=True, tag="session"):
    """A session in the store."""

    id: str
    node: str


class Transition(Record, kw_only=True):
    """One change of a task's state, in the order of the commits; optional."""

    at: float
    transaction: int
    task: str
    before: str
    """Empty when the task is created."""
    after: str
    fence: int = 0
    session: str = ""
    generation: int = 0
    due: float = 0.0
    attempts: int = 0
    retry: tuple[float, float] = (0.0, 0.0)
    """For `retrying`: the shortest and the longest delay that the policy allows."""


class Renewal(Record, kw_only=True):
    """A session was opened or renewed, by the store's clock; optional."""

    session: str
    at: float
    until: float


class Lost(Record, kw_only=True):
    """The store took a session away; optional."""

    session: str
    at: float


class Choice(Record, kw_only=True):
    """What one claim took of a plain queue, and what it could have taken instead, each with its priority; optional."""

    at: float
    queue: str
    taken: tuple[int, ...]
    left: tuple[int, ...]


class Effect(Record, kw_only=True):
    """A handler ran: written by the handler itself when it starts, and again when it ends."""

    task: str
    fence: int
    process: str
    """Which process: host and pid."""
    start: float
    end: float | None = None


class Fault(Record, kw_only=True):
    """Something was broken on purpose, from `start` to `end`. `kill` lasts until the node is back."""

    kind: str
    """`kill`, `pause`, `partition`, `drain`, `outage` or any other word."""
    node: str = ""
    """Empty for the store."""
    start: float
    end: float | None = None
    sessions: tuple[str, ...] = ()
    """The sessions that the node had at the start, if the recording has no renewals."""


class Bounds(Record, kw_only=True):
    """How much time things may take. The last one of a recording counts."""

    session_ttl: float = 15.0
    recovery: float = 2.0
    """Seconds after the end of a lost session within which its tasks must be free."""
    transaction: float = 0.0
    """Seconds after which the database ends the transaction, and so frees the locks, of a node that is paused in it."""
    notice: float = 15.0
    """Seconds after a cancel or an expiry within which an attempt that was leased before may still start."""
    clock: float = 0.0
    """How much the clocks of handlers and store may differ."""
    call: float = 60.0
    """Seconds that a client's call may take."""
    finished: bool = True
    """Whether the run was left alone until all tasks should have ended."""


AnyRecord: TypeAlias = (
    Invoke | End | TaskRow | AttemptRow | SessionRow | Transition | Renewal | Lost | Choice | Effect | Fault | Bounds
)
_decode = msgspec.json.Decoder(AnyRecord).decode


class Call(Struct):
    """A client's call: how it began and how it ended."""

    invoke: Invoke
    end: End | None

    @property
    def status(self) -> Status:
        return "unknown" if self.end is None else self.end.status


class Recording:
    """Everything that is known about one run."""

    def __init__(self, records: Iterable[AnyRecord]) -> None:
        self._by_type: defaultdict[type, list[Any]] = defaultdict(list)
        for record in records:
            self._by_type[type(record)].append(record)

    @classmethod
    def read(cls, paths: Iterable[Path]) -> Recording:
        """Read files of JSON lines. Raise `ValueError` for a line that is not a record; a cut last line is ignored."""
        return cls(record for path in paths for record in _read_lines(path))

    @property
    def bounds(self) -> Bounds:
        return self._by_type[Bounds][-1] if self._by_type[Bounds] else Bounds()

    @cached_property
    def calls(self) -> list[Call]:
        ends: dict[str, End] = {end.call: end for end in self._by_type[End]}
        return [Call(invoke, ends.get(invoke.call)) for invoke in self._by_type[Invoke]]

    @cached_property
    def tasks(self) -> dict[str, TaskRow]:
        return {task.id: task for task in self._by_type[TaskRow]}

    @cached_property
    def attempts(self) -> dict[str, list[AttemptRow]]:
        """The attempts of each task, by fence."""
        return _group(sorted(self._by_type[AttemptRow], key=lambda one: one.fence))

    @cached_property
    def transitions(self) -> dict[str, list[Transition]]:
        """The changes of each task, in order."""
        return _group(self._by_type[Transition])

    @cached_property
    def effects(self) -> dict[str, list[Effect]]:
        """The runs of each task, by fence. A start without an end stays one."""
        runs: dict[tuple[str, int, str, float], Effect] = {}
        for effect in self._by_type[Effect]:
            known = runs.setdefault((effect.task, effect.fence, effect.process, effect.start), effect)
            known.end = known.end if effect.end is None else effect.end
        return _group(sorted(runs.values(), key=lambda one: (one.fence, one.start)))

    @cached_property
    def nodes(self) -> dict[str, str]:
        """The node of each session."""
        return {session.id: session.node for session in self._by_type[SessionRow]}

    @property
    def renewals(self) -> list[Renewal]:
        return self._by_type[Renewal]

    @property
    def lost(self) -> list[Lost]:
        return self._by_type[Lost]

    @property
    def choices(self) -> list[Choice]:
        return self._by_type[Choice]

    @property
    def faults(self) -> list[Fault]:
        return self._by_type[Fault]


def encode(record: AnyRecord) -> bytes:
    """Return a record as one line."""
    return msgspec.json.encode(record) + b"\n"


def write(path: Path, records: Iterable[AnyRecord]) -> None:
    """Write records to a file."""
    path.write_bytes(b"".join(map(encode, records)))


def _read_lines(path: Path) -> Iterator[AnyRecord]:
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        try:
            if line.strip():
                yield _decode(line)
        except msgspec.MsgspecError as error:
            if number < len(lines):  # A process that was killed may leave half a line at the very end.
                raise ValueError(f"{path}:{number} is not a record: {error}") from error


def _group(records: Iterable[Any]) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for record in records:
        groups.setdefault(record.task, []).append(record)
    return groups
