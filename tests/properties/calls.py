"""What the store machine draws: calls with numbers in place of references, so that they shrink and print well.

A number stands for "one of what there is", counted round: the machine resolves it against the model when it runs.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from windlass.core.lifecycle import State
from windlass.core.ordering import Queue, Strategy
from windlass.core.retry import Error
from windlass.core.settlement import Crashed, Outcome, Raised, Released, Returned, Stopped
from windlass.core.task import Change, OnFailure
from windlass.stores.protocol import SESSION_TTL, Filter

T = TypeVar("T")

SCOPES: list[tuple[str, str | None]] = [("default", None), ("default", "w"), ("default", "ahead"), ("acme", "w")]
"""Tenant and workflow. `ahead` is the one that may be unsealed at first and take forward references."""
QUEUES = ["default", "mail"]
KEYS = [f"k{n}" for n in range(8)]
SECOND = timedelta(seconds=1)
OOPS = Error(kind="ValueError", message="oops")


class TaskSpec(NamedTuple):
    """One task of a batch."""

    scope: int
    key: str
    parents: tuple[int, ...] = ()
    """Which of the tasks that may be named, those of the batch included."""
    ahead: str | None = None
    """A key that may be unknown: refused, or a forward reference, which may close a cycle when it is filled."""
    on_failure: OnFailure = OnFailure.CANCEL
    queue: str = QUEUES[0]
    priority: int = 0
    delay: int | None = None
    deadline: int | None = None
    expires: int | None = None
    retries: int = 0
    handler: str = "work"


class Submit(NamedTuple):
    """A batch. What it names as `again` are keys that are known, with the same body or another."""

    batch: list[TaskSpec]
    again: tuple[int, ...] = ()
    other_body: bool = False


class ClaimTasks(NamedTuple):
    """Claim, and report the ends of so many of the claims as there are outcomes."""

    session: int
    queues: list[str]
    limit: int
    ends: list[Outcome]


class ReportSpec(NamedTuple):
    """One report of a batch."""

    lease: int
    live: bool
    """One of the leases that stand, or one of all that ever were: late, stale or a repetition."""
    outcome: Outcome
    forged: int
    """Added to the fence; 0 but for forgeries."""


class SettleTasks(NamedTuple):
    """Reports in one call."""

    reports: list[ReportSpec]


class HoldSession(NamedTuple):
    """Open, renew or close a session."""

    deed: str
    session: int
    ttl: timedelta


class Which(NamedTuple):
    """Tasks by number or by filter."""

    tasks: tuple[int, ...]
    filter: Filter | None


class Operate(NamedTuple):
    """Cancel, retry or purge."""

    deed: str
    which: Which
    grace: timedelta


class UpdateTask(NamedTuple):
    """Change one task."""

    task: int
    change: Change


class PassTime(NamedTuple):
    """Move the clock, and sweep or not."""

    by: timedelta
    sweep: bool


class Configure(NamedTuple):
    """Set a queue's settings."""

    queue: Queue


class Seal(NamedTuple):
    """Seal the workflow that was opened."""

    missing: bool


class RaiseEpoch(NamedTuple):
    """As after a restore."""


Call: TypeAlias = (
    Submit | ClaimTasks | SettleTasks | HoldSession | Operate | UpdateTask | PassTime | Configure | Seal | RaiseEpoch
)


def weighted(choices: list[tuple[int, SearchStrategy[T]]]) -> SearchStrategy[T]:
    """One of several, each so often as its weight says. (`one_of` counts a strategy once, however often it stands.)"""
    strategies = [strategy for _, strategy in choices]
    numbers = [number for number, (weight, _) in enumerate(choices) for _ in range(weight)]
    return st.sampled_from(numbers).flatmap(lambda number: strategies[number])


def of(*choices: Any) -> SearchStrategy[Any]:
    """One of some values; a value that stands more often is drawn more often."""
    return st.sampled_from(choices)


def few(choices: SearchStrategy[T], most: int, least: int = 0) -> SearchStrategy[tuple[T, ...]]:
    return st.lists(choices, min_size=least, max_size=most).map(lambda values: tuple(values))


_roots = st.builds(
    TaskSpec,
    scope=of(0, 0, 1, 2, 3),
    key=st.sampled_from(KEYS),
    queue=of("default", "default", "mail"),
    priority=of(0, 0, 1, -1),
    deadline=of(None, None, 5, 60),
    expires=of(None, None, None, 40),
    retries=of(0, 1, 2),
    handler=of("work", "work", "play"),
)
_any_tasks = st.builds(
    TaskSpec,
    scope=of(0, 0, 1, 2, 2, 3),
    key=st.sampled_from(KEYS),
    parents=few(st.integers(0, 15), 3),
    ahead=weighted([(3, st.none()), (1, st.sampled_from(KEYS))]),
    on_failure=of(OnFailure.CANCEL, OnFailure.CANCEL, OnFailure.RUN),
    queue=of("default", "default", "mail"),
    delay=of(None, None, None, 1, 30),
    expires=of(None, None, None, None, 4, 40, -1),
    retries=of(0, 1, 2),
)
_submits = st.builds(
    Submit,
    batch=weighted([(1, st.lists(_roots, min_size=1, max_size=4)), (2, st.lists(_any_tasks, min_size=1, max_size=5))]),
)
_submits_again = st.builds(
    Submit,
    batch=st.lists(_any_tasks, max_size=2),
    again=few(st.integers(0, 30), 2, least=1),
    other_body=of(False, False, True),
)

outcomes: SearchStrategy[Outcome] = of(
    Returned(),
    Returned('{"n":1}'),
    Returned(),
    Raised(OOPS),
    Raised(OOPS),
    Raised(OOPS, retry_in=2_000_000),
    Raised(OOPS, give_up=True),
    Crashed(OOPS),
    Crashed(OOPS),
    Released(),
    Released(delay=3_000_000),
    Stopped(State.CANCELLED, "stopped"),
    Stopped(State.EXPIRED, "overran"),
)
OVER = 9
"""A session drawn with this number is one that is over, if there is one."""
_sessions = st.integers(0, OVER)
_claims = st.builds(
    ClaimTasks,
    session=_sessions,
    queues=of(QUEUES, QUEUES, QUEUES[::-1], QUEUES[1:]),
    limit=of(1, 2, 3, 5, 9, 0),
    ends=st.lists(outcomes, max_size=3),
)
_settles = st.builds(
    SettleTasks,
    st.lists(
        st.builds(
            ReportSpec,
            lease=st.integers(0, 20),
            live=of(True, True, False),
            outcome=outcomes,
            forged=of(0, 0, 0, 0, 0, 0, 0, -1, 1),
        ),
        min_size=1,
        max_size=4,
    ),
)
_holds = st.builds(
    HoldSession, deed=of("renew", "renew", "open", "close"), session=_sessions, ttl=of(SESSION_TTL, 4 * SESSION_TTL)
)

_filters = st.builds(
    Filter,
    states=st.frozensets(st.sampled_from(State), max_size=2),
    queue=of(None, None, *QUEUES),
    tenant=of(None, None, "acme"),
    workflow=of(None, None, "w"),
    handler=of(None, None, "play"),
)
_which = weighted(
    [
        (2, st.builds(Which, tasks=few(st.integers(0, 30), 3, least=1), filter=st.none())),
        (1, st.builds(Which, tasks=st.just(()), filter=_filters)),
    ]
)
_operates = st.builds(
    Operate, deed=of("cancel", "cancel", "retry", "retry", "purge"), which=_which, grace=of(timedelta(0), 10 * SECOND)
)
_times = of(None, -SECOND, SECOND, 20 * SECOND)
_updates = st.builds(
    UpdateTask,
    task=st.integers(0, 30),
    change=st.one_of(
        st.builds(Change, priority=st.integers(-2, 2)),
        st.builds(Change, deadline=_times),
        st.builds(Change, at=_times),
        st.builds(Change, expires=_times),
    ),
)

_steps = of(
    timedelta(microseconds=10),
    SECOND,
    SECOND,
    5 * SECOND,
    11 * SECOND,
    20 * SECOND,
    20 * SECOND,
    timedelta(minutes=2),
    timedelta(days=1),
    timedelta(days=8),
    -SECOND,
    timedelta(microseconds=-3),
)
_queues = st.builds(
    Queue,
    name=st.sampled_from(QUEUES),
    strategy=st.sampled_from(Strategy),
    step=of(SECOND, timedelta(minutes=1)),
    paused=of(False, False, False, True),
    max_waiting=of(None, None, None, 4),
)

calls: SearchStrategy[Call] = weighted(
    [
        (9, _submits),
        (2, _submits_again),
        (10, _claims),
        (6, _settles),
        (3, _holds),
        (6, _operates),
        (3, _updates),
        (10, st.builds(PassTime, by=_steps, sweep=of(True, True, False))),
        (2, st.builds(Configure, queue=_queues)),
        (1, st.builds(Seal, missing=st.booleans())),
        (1, st.just(RaiseEpoch())),
    ]
)
