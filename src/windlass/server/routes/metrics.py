"""What Prometheus reads: how things stand in the store."""

from __future__ import annotations

from windlass.metrics.exposition import MEDIA_TYPE, store_metrics
from windlass.operations.caller import Scope
from windlass.server.http.call import Call
from windlass.server.http.routing import Mode, Routes

route = Routes("metrics", prefix="")


@route("GET", "/metrics", Scope.READ, unrestricted=True, mode=Mode.TEXT, media_type=MEDIA_TYPE)
def get_metrics(call: Call) -> bytes:
    """Gauges and counters in the text format of Prometheus; `windlass_up 0` alone while the store is away."""
    return store_metrics(call.store)
