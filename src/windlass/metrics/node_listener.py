"""Serves the health and the metrics of a node: `windlass worker --health`."""

from __future__ import annotations

import msgspec

from windlass.events import Events
from windlass.health import Health, Part
from windlass.metrics.calls import StoreCalls
from windlass.metrics.exposition import MEDIA_TYPE, text
from windlass.metrics.listener import Answer, listen
from windlass.metrics.node import NodeMetrics
from windlass.metrics.refused_submits import RefusedSubmitMetrics
from windlass.stores.protocol import Store
from windlass.worker.node import Node
from windlass.worker.node_status import NodeHealth

STARTING = Health(ready=False, parts=[Part(name="node", ready=False, text="it is being started")])
ALIVE = Health(ready=True, parts=[Part(name="node", ready=True, text="it is being started")])


class NodeListener:
    """Listens from the beginning, so that probes get an answer while the app is still being imported."""

    def __init__(self, address: str, events: Events) -> None:
        self._counted, self._calls = NodeMetrics(), StoreCalls()
        self._health: NodeHealth | None = None
        events.listen(self._counted)
        routes = {"/healthz": self._alive, "/readyz": self._ready, "/metrics": self._metrics}
        self._listener = listen(address, routes)
        self.url = self._listener.url

    def measured(self, store: Store) -> Store:
        """Return the same store, whose calls are counted."""
        return self._calls.measured(store)

    def watch(self, node: Node) -> None:
        """Answer for this node from now on."""
        self._health = node.health
        self._counted.watch(lambda: node.unwritten)

    def close(self) -> None:
        """Listen no more."""
        self._listener.close()

    def _alive(self) -> Answer:
        return _answer(ALIVE if self._health is None else self._health.alive())

    def _ready(self) -> Answer:
        return _answer(STARTING if self._health is None else self._health.readiness())

    def _metrics(self) -> Answer:
        return Answer(200, MEDIA_TYPE, text(self._counted.registry, self._calls.registry, RefusedSubmitMetrics()))


def _answer(health: Health) -> Answer:
    return Answer(200 if health.ready else 503, "application/json", msgspec.json.encode(health))
