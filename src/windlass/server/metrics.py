"""What Prometheus reads: how things stand in the store."""

from __future__ import annotations

from windlass.metrics.exposition import MEDIA_TYPE, exposition
from windlass.server.calls import Call
from windlass.server.routes import Routes
from windlass.server.scopes import Scope

route = Routes("metrics", prefix="")


@route("GET", "/metrics", Scope.READ, whole=True, text=MEDIA_TYPE)
def get_metrics(call: Call) -> bytes:
    """Gauges and counters in the text format of Prometheus; `windlass_up 0` alone while the store is away."""
    return exposition(call.store)
