"""The JSON shapes of tenants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import asdict

from windlass.core.fairness import MAX_WEIGHT
from windlass.core.shares import Share
from windlass.operations.shares import TenantShare
from windlass.operations.tenants import TenantView
from windlass.wire.fields import Length, Moment, Reason, as_datetime


class TenantShape(Struct, frozen=True, kw_only=True):
    """A tenant: its tasks by state, over all queues, the queues in which it has any, and its settings."""

    name: str
    tasks: dict[str, int]
    queues: list[str]
    weight: int
    """Its share of the fair queues, relative to the other tenants."""
    weight_by: str | None
    weight_why: str | None
    weight_until: Moment | None
    """When the weight is 1 again; null: when it is changed."""
    paused: bool
    paused_by: str | None
    paused_why: str | None
    paused_until: Moment | None
    """null: until it is resumed."""


class PeriodShape(Struct, frozen=True, kw_only=True):
    """What a tenant used of a fair queue in about one period. Shares are from 0 to 1."""

    run_seconds: float
    due: float | None
    """Its weight, divided by the weights of all tenants with tasks or recent use. null for a token that is limited to a
    tenant."""
    got: float | None
    """Its share of the run time; null if nothing ran."""
    borrowed: float | None
    """How much more than its due it got."""


class ShareShape(Struct, frozen=True, kw_only=True):
    """What a tenant should get of a fair queue and what it got."""

    queue: str
    runnable: int
    leased: int
    last_minute: PeriodShape
    last_hour: PeriodShape


class TenantDetailsShape(TenantShape, frozen=True, kw_only=True):
    """A tenant, with its shares of the fair queues in which it has tasks or had some recently."""

    shares: list[ShareShape]


class SetWeight(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Set the weight of a tenant."""

    weight: Annotated[int, Meta(ge=1, le=MAX_WEIGHT)] | None
    """null: 1, the default."""
    lasts: Length | None = None
    """null: until it is changed."""
    create: bool = False
    """Accept a tenant that has no tasks and no settings yet."""


class PauseTenant(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Start no tasks of a tenant."""

    lasts: Length | None = None
    """null: until it is resumed."""
    create: bool = False
    """Accept a tenant that has no tasks and no settings yet."""


NOT_LIMITED = PauseTenant()


def tenant_shape(view: TenantView) -> TenantShape:
    """Convert a tenant."""
    weight, paused = view.settings.weight_set_by, view.settings.paused
    return TenantShape(
        name=view.name,
        tasks={state.value: number for state, number in view.tasks.items()},
        queues=view.queues,
        weight=view.settings.weight,
        weight_by=None if weight is None else weight.by,
        weight_why=None if weight is None else weight.why or None,
        weight_until=None if weight is None else as_datetime(weight.until),
        paused=paused is not None,
        paused_by=None if paused is None else paused.by,
        paused_why=None if paused is None else paused.why or None,
        paused_until=None if paused is None else as_datetime(paused.until),
    )


def tenant_details_shape(view: TenantView, shares: Sequence[TenantShare]) -> TenantDetailsShape:
    """Convert a tenant and its shares."""
    return TenantDetailsShape(**asdict(tenant_shape(view)), shares=[_share_shape(share) for share in shares])


def _share_shape(share: TenantShare) -> ShareShape:
    return ShareShape(
        queue=share.queue,
        runnable=share.runnable,
        leased=share.leased,
        last_minute=_period_shape(share.last_minute, share.minute),
        last_hour=_period_shape(share.last_hour, share.hour),
    )


def _period_shape(seconds: float, share: Share | None) -> PeriodShape:
    if share is None:
        return PeriodShape(run_seconds=seconds, due=None, got=None, borrowed=None)
    return PeriodShape(run_seconds=seconds, due=share.due, got=share.got, borrowed=share.borrowed)
