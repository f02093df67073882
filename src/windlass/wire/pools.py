"""The JSON shapes of pools and of changes to them."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from windlass.core.times import to_datetime
from windlass.operations.pools import Desired, NodePart, PoolView
from windlass.simulation.run import SimulationResult
from windlass.wire.fields import Length, Moment, Name, Reason

Workers = Annotated[int, Meta(ge=0, le=10_000)]


class OverrideShape(Struct, frozen=True, kw_only=True):
    """A size that a person has set, and until when."""

    min: int
    max: int
    until: Moment
    by: str
    why: str


class PausedShape(Struct, frozen=True, kw_only=True):
    """Who paused the pool, when and why."""

    by: str
    at: Moment
    why: str


class PoolShape(Struct, frozen=True, kw_only=True):
    """A pool over all nodes: how large it is, how large it should be, and why."""

    name: str
    queues: list[str]
    fixed: bool
    """Whether its nodes were given a size; otherwise it sizes itself."""
    target: int
    live: int
    ready: int
    running: int
    """Running tasks."""
    starting: int
    draining: int
    asleep: int
    threads: int
    min: int
    max: int
    wait_seconds: float
    """The goal: how long a task may wait."""
    runnable: int
    leased: int
    oldest_seconds: float
    """How long the oldest runnable task has waited."""
    needs: float
    sentence: str
    """The latest decision in one line."""
    alerts: list[str]
    override: OverrideShape | None
    paused: PausedShape | None
    tuned: dict[str, Any]
    degraded: str
    nodes: list[NodePart]


class ExplainShape(Struct, frozen=True, kw_only=True):
    """Why a pool has its size: the latest decision and the reasons for it."""

    pool: str
    target: int
    sentence: str
    reasons: list[str]
    """From what was observed to what was decided, one step each."""
    alerts: list[str]
    decided_at: Moment | None
    decided_by: str
    ordered: str
    """What a person has set, which overrides the decision; empty if nothing."""


class DesiredShape(Struct, frozen=True, kw_only=True):
    """How large a pool should be, over all nodes."""

    pool: str
    workers: int
    slots: int
    """How many tasks these workers run at once."""


class DesiredPool(Struct, frozen=True, kw_only=True):
    """How large one pool should be, over all nodes."""

    desired_workers: int
    desired_slots: int
    """How many tasks these workers run at once."""


class DesiredPools(Struct, frozen=True, kw_only=True):
    """How large every pool should be, by name."""

    pools: dict[str, DesiredPool]


class Overrule(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A size for a pool, for some time."""

    workers: Workers
    max: Workers | None = None
    """If given, `workers` is the minimum and the controller chooses between the two."""
    lasts: Length | None = "1h"
    """null: until it is resumed."""


class Freeze(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Keep the size that a pool has now, for some time."""

    lasts: Length | None = None
    """null: until it is resumed."""


class Tune(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a pool, by name; null restores what the nodes' own files say."""

    settings: Annotated[dict[str, Any], Meta(min_length=1, max_length=50)]


class Simulate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Replay the load of the last hour or less with another goal or other bounds."""

    since: Length = "1h"
    wait: Length | None = None
    min: Workers | None = None
    max: Workers | None = None
    start_delay: Length | None = None
    policies: Annotated[list[Name], Meta(min_length=1, max_length=5)] = field(default_factory=lambda: ["slo"])


class Simulated(Struct, frozen=True, kw_only=True):
    """How each policy would have done, the best first."""

    pool: str
    tasks: int
    seconds: int
    results: list[SimulationResult]


def pool_shape(view: PoolView) -> PoolShape:
    """Convert a pool."""
    override, paused = view.override, view.paused
    same = ("name", "fixed", "target", "live", "ready", "running", "starting", "draining", "asleep", "threads")
    more = ("min", "max", "runnable", "leased", "needs", "sentence", "degraded")
    return PoolShape(
        **{field: getattr(view, field) for field in (*same, *more)},
        queues=list(view.queues),
        wait_seconds=view.wait,
        oldest_seconds=view.oldest,
        alerts=list(view.alerts),
        override=override
        and OverrideShape(
            min=override.min,
            max=override.max,
            until=to_datetime(int(override.until * 1e6)),
            by=override.author,
            why=override.why,
        ),
        paused=paused and PausedShape(by=paused.by, at=to_datetime(paused.at), why=paused.why),
        tuned=dict(view.tuned),
        nodes=list(view.nodes),
    )


def explain_shape(view: PoolView) -> ExplainShape:
    """Convert the explanation of a pool's size."""
    ordered = view.override.describe() if view.override else ""
    if view.paused:
        ordered = f"paused by {view.paused.by}" + (f": {view.paused.why}" if view.paused.why else "")
    return ExplainShape(
        pool=view.name,
        target=view.target,
        sentence=view.sentence,
        reasons=list(view.reasons),
        alerts=list(view.alerts),
        decided_at=to_datetime(view.decided_at * 1_000_000) if view.decided_at else None,
        decided_by=view.decided_by,
        ordered=ordered,
    )


def desired_shape(desired: Desired) -> DesiredShape:
    """Convert the size that a pool should have."""
    return DesiredShape(pool=desired.pool, workers=desired.workers, slots=desired.slots)


def desired_pools(found: list[Desired]) -> DesiredPools:
    """Convert the sizes that all pools should have."""
    return DesiredPools(
        pools={each.pool: DesiredPool(desired_workers=each.workers, desired_slots=each.slots) for each in found}
    )
