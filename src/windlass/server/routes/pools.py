"""Pools over HTTP: how large they are and why, how large they should be, and changes to them."""

from __future__ import annotations

from windlass.operations import pool_simulation, pools
from windlass.operations.caller import Scope
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.server.routes.audit import ReadHistory
from windlass.wire.audit import EntryPage, entry_page
from windlass.wire.fields import NO_REASON, Name, Reason
from windlass.wire.pools import (
    DesiredPools,
    DesiredShape,
    ExplainShape,
    Freeze,
    Overrule,
    PoolShape,
    Simulate,
    Simulated,
    Tune,
    desired_pools,
    desired_shape,
    explain_shape,
    pool_shape,
)

route = Routes("pools")

FROZEN = Freeze()
CHANGE_ERRORS = ("unknown_pool", "invalid_task", "changed_meanwhile")


@route("GET", "/pools", Scope.READ, unrestricted=True)
def list_pools(call: Call) -> list[PoolShape]:
    """List the pools that a node has or had."""
    return [pool_shape(view) for view in pools.get_all(call.access)]


@route("GET", "/pools:desired", Scope.READ, unrestricted=True)
def list_desired(call: Call) -> DesiredPools:
    """Get the size that every pool should have now, as in `pools.mail.desired_slots`, to start machines for all."""
    return desired_pools(pools.desired_all(call.access))


@route("GET", "/pools/{name}", Scope.READ, unrestricted=True, errors=["unknown_pool"])
def get_pool(call: Call, name: Name) -> PoolShape:
    """Get one pool over all nodes."""
    return pool_shape(pools.get(call.access, name))


@route("GET", "/pools/{name}/desired", Scope.READ, unrestricted=True, errors=["unknown_pool"])
def get_desired(call: Call, name: Name) -> DesiredShape:
    """Get the size that a pool should have now: already damped, and never below the number of busy workers."""
    return desired_shape(pools.desired(call.access, name))


@route("GET", "/pools/{name}/explain", Scope.READ, unrestricted=True, errors=["unknown_pool"])
def explain_pool(call: Call, name: Name) -> ExplainShape:
    """Explain the size of a pool: the reasons for the latest decision, and what people have set."""
    return explain_shape(pools.get(call.access, name))


@route("GET", "/pools/{name}/history", Scope.READ, unrestricted=True, errors=["unknown_pool"])
def read_history(call: Call, name: Name, query: ReadHistory) -> EntryPage:
    """List the decisions about a pool and the changes to it, newest first."""
    return entry_page(pools.history(call.access, name, limit=query.limit, before=query.before))


@route("PUT", "/pools/{name}/settings", Scope.OPERATE, unrestricted=True, errors=CHANGE_ERRORS)
def tune_pool(call: Call, name: Name, body: Tune) -> PoolShape:
    """Change settings of a pool while it runs, such as `wait`, `min` and `max`. Other settings stay."""
    return pool_shape(pools.tune(call.access, name, body.settings, author=call.author(body)))


@route("POST", "/pools/{name}/override", Scope.OPERATE, unrestricted=True, errors=CHANGE_ERRORS)
def override_pool(call: Call, name: Name, body: Overrule) -> PoolShape:
    """Set the size of a pool, or a range, for an hour or another time."""
    author = call.author(body)
    return pool_shape(pools.set_size(call.access, name, body.workers, body.max, author=author, lasts=body.lasts))


@route("POST", "/pools/{name}/freeze", Scope.OPERATE, unrestricted=True, errors=CHANGE_ERRORS)
def freeze_pool(call: Call, name: Name, body: Freeze = FROZEN) -> PoolShape:
    """Keep the size that a pool has now."""
    return pool_shape(pools.freeze(call.access, name, author=call.author(body), lasts=body.lasts))


@route("POST", "/pools/{name}/pause", Scope.OPERATE, unrestricted=True, errors=CHANGE_ERRORS)
def pause_pool(call: Call, name: Name, body: Reason = NO_REASON) -> PoolShape:
    """Set a pool to 0 workers: running tasks end, nothing new starts, until it is resumed."""
    return pool_shape(pools.pause(call.access, name, author=call.author(body)))


@route("POST", "/pools/{name}/resume", Scope.OPERATE, unrestricted=True, errors=CHANGE_ERRORS)
def resume_pool(call: Call, name: Name, body: Reason = NO_REASON) -> PoolShape:
    """Let a pool size itself again: remove a pause and a set size."""
    return pool_shape(pools.resume(call.access, name, author=call.author(body)))


@route(
    "POST",
    "/pools/{name}/simulate",
    Scope.READ,
    unrestricted=True,
    errors=["unknown_pool", "invalid_load", "invalid_task", "overloaded"],
)
def simulate_pool(call: Call, name: Name, body: Simulate) -> Simulated:
    """Replay the last hour of a pool's queues with another goal, other bounds, or another policy."""
    found = pool_simulation.simulate(
        call.access,
        name,
        since=body.since,
        wait=body.wait,
        min=body.min,
        max=body.max,
        start_delay=body.start_delay,
        policies=body.policies,
    )
    return Simulated(pool=found.pool, tasks=found.tasks, seconds=found.seconds, results=found.results)
