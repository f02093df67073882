"""Pools over HTTP: how large they are and why, what they should be, and what people order of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from msgspec import Meta, Struct

from windlass.operations import pool_overrides
from windlass.operations.caller import Scope
from windlass.operations.pools import desired_in, history, look_at, pool, pool_in, pools, pools_in
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.stores.coordination import Look
from windlass.wire.pools import (
    DesiredPool,
    DesiredPools,
    ExplainShape,
    Freeze,
    Overrule,
    PoolShape,
    Tune,
    explain_shape,
    pool_shape,
)
from windlass.wire.schemas import NO_REASON, DesiredShape, EntryPage, Name, Reason
from windlass.wire.shapes import entry_shape

route = Routes("pools")

FROZEN = Freeze()
ORDER_ERRORS = ("unknown_pool", "invalid_task", "changed_meanwhile")


class ReadHistory(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which entries, and how many."""

    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100
    before: Annotated[int, Meta(ge=0, le=2**62)] | None = None


@route("GET", "/pools", Scope.READ, unrestricted=True)
def list_pools(call: Call) -> list[PoolShape]:
    """Every pool that some node has or had, by name."""
    return [pool_shape(view) for view in pools(call.store)]


@route("GET", "/pools:desired", Scope.READ, unrestricted=True)
def list_desired(call: Call) -> DesiredPools:
    """How large every pool should be now, as in `pools.mail.desired_slots`: for whoever starts machines for all."""
    look = look_at(call.store)
    found = [_desired(look, view.name) for view in pools_in(look)]
    shapes = {each.pool: DesiredPool(desired_workers=each.workers, desired_slots=each.slots) for each in found}
    return DesiredPools(pools=shapes)


@route("GET", "/pools/{name}", Scope.READ, unrestricted=True, errors=["unknown_pool"])
def get_pool(call: Call, name: Name) -> PoolShape:
    """One pool over all nodes."""
    return pool_shape(pool(call.store, name))


@route("GET", "/pools/{name}/desired", Scope.READ, unrestricted=True, errors=["unknown_pool"])
def get_desired(call: Call, name: Name) -> DesiredShape:
    """How many workers a pool should have now: already held and damped, and never less than what runs."""
    return _desired(look_at(call.store), name)


@route("GET", "/pools/{name}/explain", Scope.READ, unrestricted=True, errors=["unknown_pool"])
def explain_pool(call: Call, name: Name) -> ExplainShape:
    """Why a pool has the size it has: the chain of reasons, and what people have ordered."""
    return explain_shape(pool(call.store, name))


@route("GET", "/pools/{name}/history", Scope.READ, unrestricted=True, errors=["unknown_pool"])
def read_history(call: Call, name: Name, query: ReadHistory) -> EntryPage:
    """What was decided and ordered about a pool, with the arithmetic, newest first, a page at a time."""
    found = history(call.store, name, limit=query.limit, before=query.before)
    more = found[-1].number if len(found) == query.limit else None
    return EntryPage(entries=[entry_shape(entry) for entry in found], before=more)


@route("PUT", "/pools/{name}/settings", Scope.OPERATE, unrestricted=True, errors=ORDER_ERRORS)
def tune_pool(call: Call, name: Name, body: Tune) -> PoolShape:
    """Change settings of a pool while it runs, such as `wait`, `floor` and `ceiling`; what is not named stays."""
    return _ordered(
        call, name, lambda by: pool_overrides.tune(call.store, name, body.settings, by=by, why=body.why), body
    )


@route("POST", "/pools/{name}/override", Scope.OPERATE, unrestricted=True, errors=ORDER_ERRORS)
def override_pool(call: Call, name: Name, body: Overrule) -> PoolShape:
    """Overrule the controller: so many workers, or a range, for an hour unless you say otherwise."""
    return _ordered(
        call,
        name,
        lambda by: pool_overrides.pin(call.store, name, body.workers, body.most, by=by, why=body.why, lasts=body.lasts),
        body,
    )


@route("POST", "/pools/{name}/freeze", Scope.OPERATE, unrestricted=True, errors=ORDER_ERRORS)
def freeze_pool(call: Call, name: Name, body: Freeze = FROZEN) -> PoolShape:
    """Keep the size that a pool has now."""
    return _ordered(
        call, name, lambda by: pool_overrides.freeze(call.store, name, by=by, why=body.why, lasts=body.lasts), body
    )


@route("POST", "/pools/{name}/pause", Scope.OPERATE, unrestricted=True, errors=ORDER_ERRORS)
def pause_pool(call: Call, name: Name, body: Reason = NO_REASON) -> PoolShape:
    """Size 0: what runs ends, nothing new starts, the queue fills, until it is resumed."""
    return _ordered(call, name, lambda by: pool_overrides.pause(call.store, name, by=by, why=body.why), body)


@route("POST", "/pools/{name}/resume", Scope.OPERATE, unrestricted=True, errors=ORDER_ERRORS)
def resume_pool(call: Call, name: Name, body: Reason = NO_REASON) -> PoolShape:
    """Let a pool size itself again: no pause, no override."""
    return _ordered(call, name, lambda by: pool_overrides.resume(call.store, name, by=by, why=body.why), body)


def _ordered(call: Call, name: str, order: Callable[[str], object], reason: Reason) -> PoolShape:
    """Give an order, which writes its own entry in the audit log, and see what it came to."""
    order(by_whom(call, reason))
    return pool_shape(pool(call.store, name))


def by_whom(call: Call, reason: Reason) -> str:
    """Who answers for it: the token's name always stands there, also when it acts for somebody."""
    return f"{reason.by} ({call.caller.name})"[:128] if reason.by else call.caller.name


def _desired(look: Look, name: str) -> DesiredShape:
    threads = pool_in(look, name).threads
    workers = desired_in(look, name)
    return DesiredShape(pool=name, workers=workers, slots=workers * threads)
