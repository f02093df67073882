"""Health checks: is the process alive, and can it serve requests?"""

from __future__ import annotations

from windlass.health import Health, Part
from windlass.server.http.call import Call
from windlass.server.http.routing import Mode, Routes

route = Routes("health", prefix="")


@route("GET", "/healthz", None, mode=Mode.INLINE)
def get_health(_: Call) -> Health:
    """Check that the process responds. Does not check the store, because a restart would not repair it."""
    return Health(ready=True, parts=[Part(name="server", ready=True, text="ok")])


@route("GET", "/readyz", None, without_store=True, also=[503])
def get_readiness(call: Call) -> Health:
    """Check that requests can be served. Returns 503 and the part that is not ready otherwise."""
    part = call.readiness.check(call.store)
    if not part.ready:
        call.status = 503
    return Health(ready=part.ready, parts=[Part(name="server", ready=True, text="ok"), part])
