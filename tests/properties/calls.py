"""What the store machine draws: small specs with numbers in place of references, so that they shrink and print well.

A number stands for "one of what there is", counted round: the machine resolves it against the model when it runs.
"""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from windlass.core.lifecycle import State
from windlass.core.ordering import Queue, Strategy
from windlass.core.retry import Error
from windlass.core.settlement import Crashed, Outcome, Raised, Released, Returned, Stopped
from windlass.core.task import Change, OnFailure
from windlass.stores.protocol import Filter

SCOPES: list[tuple[str, str | None]] = [("default", None), ("default", "w"), ("default", "ahead"), ("acme", "w")]
"""Tenant and workflow. `ahead` is the one that is opened unsealed, with forward references."""
QUEUES = ["default", "mail"]
KEYS = [f"k{n}" for n in range(10)]
SECOND = timedelta(seconds=1)
OOPS = Error(kind="ValueError", message="oops")


class TaskSpec(NamedTuple):
    """One task of a batch."""

    scope: int
    key: str
    parents: tuple[int, ...]
    """Which of the tasks that may be named, those of the batch included."""
    stray: bool
    """Names something unknown as well: refused, or a forward reference."""
    on_failure: OnFailure
    queue: str
    priority: int
    delay: int | None
    deadline: int | None
    expires: int | None
    retries: int
    handler: str


class ReportSpec(NamedTuple):
    """One report of a batch."""

    lease: int
    live: bool
    """One of the leases that stand, or one of all that ever were: late, stale or a repetition."""
    outcome: Outcome
    forged: int
    """Added to the fence; 0 but for forgeries."""


class WhichSpec(NamedTuple):
    """Tasks by number or by filter."""

    tasks: tuple[int, ...]
    filter: Filter | None


def rarely() -> SearchStrategy[bool]:
    return st.sampled_from([False] * 7 + [True])


def mostly_none(values: SearchStrategy[int]) -> SearchStrategy[int | None]:
    return st.one_of(st.none(), st.none(), values)


task_specs = st.builds(
    TaskSpec,
    scope=st.sampled_from([0, 0, 1, 2, 2, 3]),
    key=st.sampled_from(KEYS),
    parents=st.lists(st.integers(0, 15), max_size=3).map(tuple),
    stray=rarely(),
    on_failure=st.sampled_from([OnFailure.CANCEL, OnFailure.CANCEL, OnFailure.RUN]),
    queue=st.sampled_from(["default", "default", "mail"]),
    priority=st.integers(-1, 1),
    delay=mostly_none(st.sampled_from([1, 30])),
    deadline=mostly_none(st.sampled_from([5, 60])),
    expires=mostly_none(st.sampled_from([-1, 4, 40])),
    retries=st.integers(0, 2),
    handler=st.sampled_from(["work", "work", "work", "play"]),
)
batches = st.lists(task_specs, min_size=1, max_size=5)

outcomes: SearchStrategy[Outcome] = st.sampled_from(
    [
        Returned(),
        Returned('{"n":1}'),
        Returned(),
        Raised(OOPS),
        Raised(OOPS),
        Raised(OOPS, retry_in=2_000_000),
        Raised(OOPS, give_up=True),
        Crashed(OOPS),
        Released(),
        Released(delay=3_000_000),
        Stopped(State.CANCELLED, "stopped"),
        Stopped(State.EXPIRED, "overran"),
    ]
)
reports = st.lists(
    st.builds(
        ReportSpec,
        lease=st.integers(0, 30),
        live=st.sampled_from([True, True, True, False]),
        outcome=outcomes,
        forged=st.sampled_from([0] * 9 + [-1, 1]),
    ),
    min_size=1,
    max_size=4,
)

filters = st.builds(
    Filter,
    states=st.sets(st.sampled_from(State), max_size=2).map(frozenset),
    queue=st.none() | st.sampled_from(QUEUES),
    tenant=st.none() | st.just("acme"),
    workflow=st.none() | st.just("w"),
    handler=st.none() | st.just("play"),
)
which = st.one_of(
    st.builds(WhichSpec, tasks=st.lists(st.integers(0, 40), min_size=1, max_size=3).map(tuple), filter=st.none()),
    st.builds(WhichSpec, tasks=st.just(()), filter=filters),
)

times = st.sampled_from([None, -SECOND, SECOND, 20 * SECOND])
changes = st.one_of(
    st.builds(Change, priority=st.integers(-2, 2)),
    st.builds(Change, deadline=times),
    st.builds(Change, at=times),
    st.builds(Change, expires=times),
)

queues = st.builds(
    Queue,
    name=st.sampled_from(QUEUES),
    strategy=st.sampled_from(Strategy),
    step=st.sampled_from([SECOND, timedelta(minutes=1)]),
    paused=rarely(),
    max_waiting=st.sampled_from([None, None, None, 4]),
)

steps = st.sampled_from(
    [
        timedelta(microseconds=1),
        timedelta(microseconds=10),
        SECOND,
        SECOND,
        5 * SECOND,
        11 * SECOND,
        20 * SECOND,
        timedelta(minutes=2),
        timedelta(days=1),
        timedelta(days=8),
        -SECOND,
        timedelta(microseconds=-3),
    ]
)
