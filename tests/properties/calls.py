"""The calls that the store machine draws, with numbers instead of references, so that they shrink and print well.

A number stands for "one of what there is", counted round: the machine resolves it against the model when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from math import prod
from typing import Any, NamedTuple, TypeAlias, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from windlass.core.lifecycle import State
from windlass.core.ordering import Queue, Strategy
from windlass.core.retry import Error
from windlass.core.serving import EVERYTHING, Serves
from windlass.core.settlement import Crashed, Outcome, Raised, Released, Returned, Stopped
from windlass.core.task import Change, OnFailure, Unique
from windlass.stores.protocol import SESSION_TTL, Filter

T = TypeVar("T")

SCOPES: list[tuple[str, str | None]] = [("default", None), ("default", "w"), ("default", "ahead"), ("acme", "w")]
"""Tenant and workflow. `ahead` is the one that may be unsealed at first and take forward references."""
QUEUES = ["default", "mail"]
DOWNSTREAMS = ["payments", "post"]
KEYS = ["k0", "k1", "k2", "k3"]
"""Few, so that they collide; most tasks get a key that nobody has used."""
EVENTS = ["approved", "paid"]
STRAY = 99
"""As `ahead`, in every workflow: names what nobody will ever submit."""
SECOND = timedelta(seconds=1)
GRACES = [timedelta(0), 10 * SECOND]
OOPS = Error(kind="ValueError", message="oops")


class TaskSpec(NamedTuple):
    """One task of a batch."""

    scope: int
    key: str | None
    """None for a fresh one, `n0`, `n1` and so on."""
    parents: tuple[int, ...] = ()
    """Which of the tasks that may be named, those of the batch included."""
    ahead: int | None = None
    """In the workflow `ahead`: names a key that is used by a later task, and so may close a cycle."""
    on_failure: OnFailure = OnFailure.CANCEL
    queue: str = QUEUES[0]
    priority: int = 0
    delay: int | None = None
    deadline: int | None = None
    expires: int | None = None
    retries: int = 0
    at_most_once: bool = False
    handler: str = "work"
    downstream: str | None = None
    limit: str | None = None
    unique: Unique | None = None
    waits: str | None = None
    """`sleep`, or the name of an event. `delay` is how long the sleep lasts, or until the event has timed out."""


class Submit(NamedTuple):
    """A batch. What it names as `again` are keys that are known, with the same body or another."""

    batch: list[TaskSpec]
    again: tuple[int, ...] = ()
    other_body: bool = False
    under: int | None = None
    """The lease in whose name it comes, one of all that ever were."""


class ClaimTasks(NamedTuple):
    """Claim, and report an end for as many claims as there are outcomes."""

    session: int
    queues: list[str]
    limit: int
    ends: list[Outcome]
    serves: Serves = EVERYTHING
    merge: bool = False
    each: dict[str, int] | None = None


class ReportSpec(NamedTuple):
    """One report of a batch."""

    lease: int
    under: str
    """`live`: one that stands; `stale`: one whose task is leased again; else one of all that ever were."""
    outcome: Outcome
    forged: int
    """Added to the fence; 0 but for forgeries."""


class SettleTasks(NamedTuple):
    """Reports in one call."""

    reports: list[ReportSpec]


class HoldSession(NamedTuple):
    """Open, renew or close a session, or report in its name."""

    action: str
    session: int
    ttl: timedelta


class Which(NamedTuple):
    """Tasks by number or by filter."""

    tasks: tuple[int, ...]
    filter: Filter | None


class Operate(NamedTuple):
    """Cancel, retry, retry with what was taken down, the one after the other, or purge."""

    action: str
    which: Which
    grace: timedelta


class UpdateTask(NamedTuple):
    """Change one task."""

    task: int
    change: Change
    seen: int | None = None
    """Before how many steps it was seen as it is expected to be still; None for whatever it is."""


class PassTime(NamedTuple):
    """Renew the latest session or not, move the clock, and sweep or not."""

    by: timedelta
    renew: bool
    sweep: bool


class Configure(NamedTuple):
    """Set a queue's settings."""

    queue: Queue
    expect: Queue | None = None
    """The settings that it must have; any if None."""


class Seal(NamedTuple):
    """Seal the workflow that was opened."""

    missing: bool


class SetLimit(NamedTuple):
    """Set a limit, or remove it."""

    scope: dict[str, str]
    max_running: int | None
    tasks: int | None
    """The rate: the number of tasks in ten seconds."""
    until: int | None


class SetTenant(NamedTuple):
    """Set the weight of a tenant, or pause it."""

    tenant: str
    weight: int
    paused: bool
    until: int | None


class SetEvent(NamedTuple):
    """Set an event of a workflow, before or after a step waits for it."""

    scope: int
    event: str
    value: str | None


class RaiseEpoch(NamedTuple):
    """As after a restore."""


class PutControl(NamedTuple):
    """Write or remove a control, with an entry about it."""

    name: str
    value: str | None
    off: int
    """By how much the expected version is wrong."""


Call: TypeAlias = (
    Submit
    | ClaimTasks
    | SettleTasks
    | HoldSession
    | Operate
    | UpdateTask
    | PassTime
    | Configure
    | Seal
    | SetEvent
    | RaiseEpoch
    | PutControl
    | SetLimit
    | SetTenant
)


def weighted(choices: list[tuple[int, SearchStrategy[T]]]) -> SearchStrategy[T]:
    """One of several, each so often as its weight says. (`one_of` counts a strategy once, however often it stands.)"""
    strategies = [strategy for _, strategy in choices]
    numbers = [number for number, (weight, _) in enumerate(choices) for _ in range(weight)]
    return st.sampled_from(numbers).flatmap(lambda number: strategies[number])


def few(choices: SearchStrategy[T], most: int, least: int = 0) -> SearchStrategy[tuple[T, ...]]:
    """Some of them, as a tuple."""
    return st.lists(choices, min_size=least, max_size=most).map(tuple)


@st.composite
def mixed(draw: st.DrawFn, kind: Callable[..., T], **fields: Sequence[Any]) -> T:
    """Each field one of its choices, all decided by a single number: drawing is most of what an example costs."""
    number = draw(st.integers(0, prod(len(choices) for choices in fields.values()) - 1))
    values: dict[str, Any] = {}
    for name, choices in fields.items():
        number, index = divmod(number, len(choices))
        values[name] = choices[index]
    return kind(**values)


_ANY_SCOPE = [0, 0, 1, 2, 2, 3]
_ANY_QUEUE = ["default", "default", "mail"]
_PARENTS: list[tuple[int, ...]] = [(), (), (0,), (1,), (0, 1), (2, 0, 1), (4,), (7, 1), (3, 5, 9)]
roots = mixed(
    TaskSpec,
    scope=_ANY_SCOPE,
    key=[None, None, None, KEYS[0]],
    queue=_ANY_QUEUE,
    priority=[0, 0, 1, -1],
    deadline=[None, None, 5, 60],
    expires=[None, None, None, 40],
    retries=[0, 1, 2],
    at_most_once=[False, False, True],
    handler=["work", "work", "play"],
    downstream=[None, None, *DOWNSTREAMS],
    limit=[None, None, None, "one", "two"],
)
_any_tasks = mixed(
    TaskSpec,
    scope=_ANY_SCOPE,
    key=[None] * 8 + KEYS,
    parents=_PARENTS,
    ahead=[None, None, None, None, 0, 1, 2, STRAY],
    on_failure=[OnFailure.CANCEL, OnFailure.CANCEL, OnFailure.RUN],
    queue=_ANY_QUEUE,
    delay=[None, None, None, 1, 30],
    expires=[None, None, None, None, 4, 40, -1],
    retries=[0, 1, 2],
    at_most_once=[False, False, True],
)
_unique_tasks = mixed(
    TaskSpec,
    scope=[0],  # The steps of a workflow cannot be unique.
    key=[None, None, None, KEYS[0]],
    parents=[(), (), (), (0,)],
    retries=[0, 1],
    unique=[
        Unique(),
        Unique(key="same"),
        *[Unique(key="same", period=60 * SECOND)] * 4,  # It matters only once such a task has ended.
        Unique(key="same", debounce=3 * SECOND),
        Unique(key="same", debounce=3 * SECOND, max_wait=5 * SECOND, replace_args=True),
    ],
)
_waits = mixed(
    TaskSpec,
    scope=[1, 1, 2, 3],
    key=[None],
    parents=[(), (0,), (1,), (0, 1)],
    on_failure=[OnFailure.CANCEL, OnFailure.CANCEL, OnFailure.RUN],
    delay=[None, 1, 5, 30],
    expires=[None, None, None, 4],
    waits=["sleep", *EVENTS],
)


def _fan_in(scope: int, size: int, joins: list[OnFailure], chain: bool) -> list[TaskSpec]:
    """Some roots, some tasks that wait for all of them, and perhaps one that waits for the last of these."""
    above = [TaskSpec(scope, None) for _ in range(size)]
    below = [TaskSpec(scope, None, parents=tuple(range(n, n + size)), on_failure=how) for n, how in enumerate(joins)]
    return above + below + [TaskSpec(scope, None, parents=(0,))] * chain


_fan_ins = mixed(
    _fan_in,
    scope=[0, 1, 2, 3],
    size=[2, 3],
    joins=[[OnFailure.CANCEL], [OnFailure.RUN], [OnFailure.CANCEL, OnFailure.RUN]],
    chain=[False, True],
)


def _chain(scope: int, size: int, joins: bool) -> list[TaskSpec]:
    """One after the other; and perhaps each after the last but one as well."""
    parents: list[tuple[int, ...]] = [tuple(range(min(place, 1 + joins))) for place in range(size)]
    return [TaskSpec(scope, None, parents=above) for above in parents]


_chains = mixed(_chain, scope=[0, 1, 3], size=[4, 7, 12], joins=[False, True])
first = weighted(
    [
        (2, st.lists(roots, min_size=2, max_size=5)),
        (2, _fan_ins),
        (1, st.tuples(_unique_tasks, roots).map(list)),
    ]
)
_submits = weighted(
    [
        (2, st.lists(roots, min_size=1, max_size=4).map(Submit)),
        (4, st.lists(_any_tasks, min_size=1, max_size=5).map(Submit)),
        (2, _fan_ins.map(Submit)),
        (2, _chains.map(Submit)),
        (4, st.lists(_unique_tasks, min_size=1, max_size=2).map(Submit)),
        (1, st.tuples(roots, _waits, _any_tasks, _any_tasks).map(list).map(Submit)),
        (1, st.lists(_waits, min_size=1, max_size=2).map(Submit)),
        (2, st.builds(Submit, st.lists(_any_tasks, max_size=1), few(st.integers(0, 30), 2, least=1), st.booleans())),
        (2, st.builds(Submit, st.lists(_any_tasks, min_size=1, max_size=3), under=st.integers(0, 9))),
    ]
)

OUTCOMES: list[Outcome] = [
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
]
OVER = 9
"""A session drawn with this number is one that is over, if there is one."""
_SESSIONS = list(range(OVER + 1))
_claims = st.builds(
    ClaimTasks,
    session=st.integers(0, OVER),
    queues=st.sampled_from([QUEUES, QUEUES, QUEUES[::-1], QUEUES[1:]]),
    limit=st.sampled_from([1, 2, 3, 5, 9, 0]),
    ends=weighted(
        [
            (3, st.just([])),  # what is left unsettled here is cancelled, lost, settled late or by others' leases
            (2, st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=3)),
            (1, st.sampled_from([[end] * 9 for end in OUTCOMES])),
        ]
    ),
    serves=st.builds(
        Serves,
        handlers=st.sampled_from([None, None, None, frozenset(["work"]), frozenset(["play"])]),
        shut=st.sampled_from([(), (), (), ("payments",), ("post", "payments"), ("nobody",)]).map(frozenset),
        only=st.sampled_from([None, None, None, None, None, "post", "payments"]),
    ),
    merge=st.sampled_from([False, False, True]),
    each=st.sampled_from([None, None, None, {"default": 1, "mail": 2}, {"mail": 0}]),
)
_reports = mixed(
    ReportSpec,
    lease=range(20),
    under=["live", "live", "stale", "any"],
    outcome=OUTCOMES,
    forged=[0, 0, 0, 0, 0, 0, 0, -1, 1],
)
_settles = st.lists(_reports, min_size=1, max_size=4).map(SettleTasks)
_holds = mixed(
    HoldSession,
    action=["renew", "renew", "open", "close", "report"],
    session=_SESSIONS,
    ttl=[SESSION_TTL, 4 * SESSION_TTL],
)

HELD = 100
"""A task drawn with at least this number is one that is leased now, if there is one."""
_numbers = weighted([(1, st.integers(0, 30)), (1, st.integers(HELD, HELD + 5))])
_filters = mixed(
    Filter,
    states=[frozenset[State](), *(frozenset({state}) for state in State), frozenset({State.FAILED, State.CANCELLED})],
    queue=[None, None, *QUEUES],
    tenant=[None, None, "acme"],
    workflow=[None, None, "w"],
    handler=[None, None, "play"],
)
_which = weighted(
    [
        (4, st.builds(Which, few(_numbers, 3, least=1), st.none())),
        (1, st.builds(Which, few(_numbers, 30, least=4), st.none())),
        (2, st.builds(Which, st.just(()), _filters)),
        (1, st.just(Which((), Filter()))),
    ]
)
_ACTIONS = ["cancel", "retry", "retry", "retry from", "restore", "cancel and retry", "purge"]
_operates = st.builds(Operate, st.sampled_from(_ACTIONS), _which, st.sampled_from(GRACES))
CHUNKS = [3, 500, 500]
"""How many tasks one transaction of an operation takes: what is small here crosses the same borders as thousands."""
_TIMES = [None, -SECOND, SECOND, 20 * SECOND]
_updates = st.builds(
    UpdateTask,
    _numbers,
    st.sampled_from(
        [
            *(Change(priority=priority) for priority in (0, -2, -1, 1, 2)),
            *(Change(**{field: time}) for field in ("deadline", "at", "expires") for time in _TIMES),
        ]
    ),
    st.sampled_from([None, None, 0, 0, 1, 2, 4]),
)
_passes = mixed(
    PassTime,
    by=[
        timedelta(microseconds=10),
        SECOND,
        SECOND,
        SECOND,
        3 * SECOND,
        5 * SECOND,
        5 * SECOND,
        11 * SECOND,
        11 * SECOND,
        20 * SECOND,
        timedelta(minutes=2),
        timedelta(days=1),
        timedelta(days=8),
        -SECOND,
        timedelta(microseconds=-3),
    ],
    renew=[False, True],
    sweep=[True, True, False],
)
_queues = mixed(
    Queue,
    name=QUEUES,
    strategy=list(Strategy),
    step=[SECOND, timedelta(minutes=1)],
    paused=[False, False, False, True],
    max_waiting=[None, None, None, 4],
    fair=[False, True],
)

_controls = mixed(PutControl, name=["mail", "bulk"], value=["1", "2", None], off=[0, 0, 0, 1, -1])
_LIMITED: list[dict[str, str]] = [
    {"queue": "default"},
    {"tenant": "default"},
    {"tenant": "acme"},
    {"queue": "mail", "tenant": "default"},
    {"handler": "work"},
    {"key": "one"},
]
_UNTIL = [None, None, 5]
_limits = mixed(SetLimit, scope=_LIMITED, max_running=[None, 0, 1, 2, 2], tasks=[None, None, None, 2], until=_UNTIL)
_tenants = mixed(
    SetTenant, tenant=["default", "acme"], weight=[1, 1, 3], paused=[False, False, False, True], until=_UNTIL
)

calls: SearchStrategy[Call] = weighted(
    [
        (10, _submits),
        (10, _claims),
        (6, _settles),
        (2, _holds),
        (6, _operates),
        (3, _updates),
        (10, _passes),
        (2, st.builds(Configure, _queues, st.sampled_from([None, None, Queue(name="default"), Queue(name="mail")]))),
        (1, st.booleans().map(Seal)),
        (2, mixed(SetEvent, scope=[1, 1, 2, 3], event=EVENTS, value=[None, "1", "1", '"no"'])),
        (1, st.just(RaiseEpoch())),
        (2, _controls),
        (3, _limits),
        (2, _tenants),
    ]
)
