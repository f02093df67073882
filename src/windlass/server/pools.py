"""Pools over HTTP: so far what whoever starts machines needs to know."""

from __future__ import annotations

from windlass.pools import desired_in, look_at, pool_in
from windlass.server.calls import Call
from windlass.server.routes import Routes
from windlass.server.schemas import DesiredShape, Name
from windlass.server.scopes import Scope

route = Routes("pools")


@route("GET", "/pools/{name}/desired", Scope.READ, whole=True, errors=["unknown_pool"])
def get_desired(call: Call, name: Name) -> DesiredShape:
    """How many workers a pool should have now: already held and damped, and never less than what runs."""
    look = look_at(call.store)
    threads = pool_in(look, name).threads
    workers = desired_in(look, name)
    return DesiredShape(pool=name, workers=workers, slots=workers * threads)
