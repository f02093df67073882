"""Whether the server lives, and whether it can do its work."""

from __future__ import annotations

from windlass.errors import WindlassError
from windlass.health import Health, Part
from windlass.server.http.call import Call
from windlass.server.http.routing import Mode, Routes

route = Routes("health", prefix="")


@route("GET", "/healthz", None, mode=Mode.INLINE)
def get_health(_: Call) -> Health:
    """The process answers. It says nothing about the store: restarting this server would not mend that."""
    return Health(ready=True, parts=[Part(name="server", ready=True, text="it answers")])


@route("GET", "/readyz", None, also=[503])
def get_readiness(call: Call) -> Health:
    """Whether requests can be served; if not, 503, and the part that is not ready."""
    part = _store(call)
    if not part.ready:
        call.status = 503
    return Health(ready=part.ready, parts=[Part(name="server", ready=True, text="it answers"), part])


def _store(call: Call) -> Part:
    try:
        call.store.queues()
    except WindlassError as error:
        return Part(name="store", ready=False, text=error.code)
    return Part(name="store", ready=True, text="it answers")
