"""Serves the health and the metrics of a node (`windlass worker --health`)."""

from __future__ import annotations

import msgspec

from windlass.events import Events
from windlass.health import Health, Part
from windlass.metrics.calls import StoreCalls
from windlass.metrics.exposition import MEDIA_TYPE, render
from windlass.metrics.listener import Response, listen
from windlass.metrics.node import NodeMetrics
from windlass.metrics.refused_submits import RefusedSubmitMetrics
from windlass.stores.protocol import Store
from windlass.worker.node import Node
from windlass.worker.node_status import NodeHealth

STARTING = Health(ready=False, parts=[Part(name="node", ready=False, text="starting")])
ALIVE = Health(ready=True, parts=[Part(name="node", ready=True, text="starting")])


class NodeListener:
    """Listens from the start, so that probes get a response while the app is still being imported."""

    def __init__(self, address: str, events: Events) -> None:
        self._counted, self._calls = NodeMetrics(), StoreCalls()
        self._health: NodeHealth | None = None
        events.listen(self._counted)
        routes = {"/healthz": self._alive, "/readyz": self._ready, "/metrics": self._metrics}
        self._listener = listen(address, routes)
        self.url = self._listener.url

    def measure(self, store: Store) -> Store:
        """Return a store that forwards to this one and times its calls."""
        return self._calls.measure(store)

    def watch(self, node: Node) -> None:
        """Report the health of this node from now on."""
        self._health = node.health
        self._counted.watch(lambda: node.unwritten)

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def _alive(self) -> Response:
        return _response(ALIVE if self._health is None else self._health.check_alive())

    def _ready(self) -> Response:
        return _response(STARTING if self._health is None else self._health.check_ready())

    def _metrics(self) -> Response:
        return Response(200, MEDIA_TYPE, render(self._counted.registry, self._calls.registry, RefusedSubmitMetrics()))


def _response(health: Health) -> Response:
    return Response(200 if health.ready else 503, "application/json", msgspec.json.encode(health))
