"""Metrics of the store for Prometheus."""

from __future__ import annotations

from windlass.metrics.exposition import MEDIA_TYPE, store_metrics
from windlass.operations.caller import Scope
from windlass.server.http.call import Call
from windlass.server.http.routing import Mode, Routes

route = Routes("metrics", prefix="")


@route("GET", "/metrics", Scope.READ, unrestricted=True, without_store=True, mode=Mode.TEXT, media_type=MEDIA_TYPE)
def get_metrics(call: Call) -> bytes:
    """Return metrics in the Prometheus text format. While the store is unavailable, only `windlass_up 0`."""
    return store_metrics(call.store)
