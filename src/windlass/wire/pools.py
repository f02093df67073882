"""The JSON shapes of pools, of what people order of them, and of downstreams."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct, field

from windlass.core.breaker import BreakerState
from windlass.core.times import Micros, to_datetime
from windlass.operations.breakers import Downstream
from windlass.operations.pools import NodePart, PoolView
from windlass.redaction import redact_text
from windlass.simulation.run import SimulationResult
from windlass.wire.schemas import Length, Name, Reason

Workers = Annotated[int, Meta(ge=0, le=10_000)]


class OverrideShape(Struct, frozen=True, kw_only=True):
    """A size that somebody has set, and until when."""

    least: int
    most: int
    until: datetime
    by: str
    why: str


class PausedShape(Struct, frozen=True, kw_only=True):
    """Who has stopped the pool, when and why."""

    by: str
    at: datetime
    why: str


class PoolShape(Struct, frozen=True, kw_only=True):
    """One pool over all nodes: how large it is, how large it is to be, and why."""

    name: str
    queues: list[str]
    fixed: bool
    """Whether its nodes were told a size; otherwise it sizes itself."""
    target: int
    live: int
    ready: int
    running: int
    """Tasks that run now."""
    starting: int
    draining: int
    asleep: int
    threads: int
    floor: int
    ceiling: int
    wait_seconds: float
    """The goal: how long a task may wait."""
    runnable: int
    leased: int
    oldest_seconds: float
    """How long the longest-waiting runnable task has waited."""
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
    """Why a pool has the size it has: the decision that stands, and the chain of reasons that led to it."""

    pool: str
    target: int
    sentence: str
    reasons: list[str]
    """From what was seen to what was decided, one step each."""
    alerts: list[str]
    decided_at: datetime | None
    decided_by: str
    ordered: str
    """What people have ordered, which outranks all of that; empty if nothing."""


class DesiredPool(Struct, frozen=True, kw_only=True):
    """How large one pool should be, over all nodes."""

    desired_workers: int
    desired_slots: int
    """How many tasks so many workers run at once."""


class DesiredPools(Struct, frozen=True, kw_only=True):
    """How large every pool should be, by name."""

    pools: dict[str, DesiredPool]


class Overrule(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A size for some time."""

    workers: Workers
    most: Workers | None = None
    """With it, `workers` is the least, and the controller chooses between the two."""
    lasts: Length | None = "1h"
    """null: until it is resumed."""


class Freeze(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The size that it has now, for some time."""

    lasts: Length | None = None
    """null: until it is resumed."""


class Tune(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Other settings, by their names; null puts one back to what the nodes were told."""

    settings: Annotated[dict[str, Any], Meta(min_length=1, max_length=50)]


class Simulate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What if: the load of the last hour or less, with another goal or other bounds."""

    since: Length = "1h"
    wait: Length | None = None
    floor: Workers | None = None
    ceiling: Workers | None = None
    start_delay: Length | None = None
    policies: Annotated[list[Name], Meta(min_length=1, max_length=5)] = field(default_factory=lambda: ["slo"])


class Simulated(Struct, frozen=True, kw_only=True):
    """What each policy would have come to, the best first."""

    pool: str
    tasks: int
    seconds: int
    results: list[SimulationResult]


class BreakerShape(Struct, frozen=True, kw_only=True):
    """A downstream, and whether its tasks may start."""

    name: str
    state: BreakerState
    since: datetime
    until: datetime | None
    attempts: int
    """Ended of late, as far as they were counted."""
    errors: int
    held_by: str
    """Who holds it so, whatever its tasks say; empty if nobody does."""
    sentence: str


class HoldOpen(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Let none of its tasks start."""

    lasts: Length | None = None
    """null: until it is closed."""


class Close(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Let its tasks start again."""

    hold: bool = False
    """Keep it closed whatever its tasks say, for `lasts` or until it is closed again."""
    lasts: Length | None = None


def pool_shape(view: PoolView) -> PoolShape:
    """A pool."""
    override, paused = view.override, view.paused
    as_they_are = ("name", "fixed", "target", "live", "ready", "running", "starting", "draining", "asleep", "threads")
    more = ("floor", "ceiling", "runnable", "leased", "needs", "sentence", "degraded")
    return PoolShape(
        **{field: getattr(view, field) for field in (*as_they_are, *more)},
        queues=list(view.queues),
        wait_seconds=view.wait,
        oldest_seconds=view.oldest,
        alerts=list(view.alerts),
        override=override
        and OverrideShape(
            least=override.least,
            most=override.most,
            until=to_datetime(int(override.until * 1e6)),
            by=override.author,
            why=redact_text(override.why),
        ),
        paused=paused and PausedShape(by=paused.by, at=to_datetime(paused.at), why=redact_text(paused.why)),
        tuned=dict(view.tuned),
        nodes=list(view.nodes),
    )


def explain_shape(view: PoolView) -> ExplainShape:
    """Why a pool is as it is."""
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
        ordered=redact_text(ordered),
    )


def breaker_shape(found: Downstream) -> BreakerShape:
    """A downstream."""
    breaker = found.breaker
    return BreakerShape(
        name=found.name,
        state=breaker.state,
        since=to_datetime(breaker.since),
        until=_moment(breaker.until),
        attempts=breaker.attempts,
        errors=breaker.errors,
        held_by=breaker.forced_by,
        sentence=redact_text(found.sentence),
    )


def _moment(instant: Micros | None) -> datetime | None:
    return None if instant is None else to_datetime(instant)
