"""The dashboard of the demo, in a thread of its own: for everybody on this machine, without login."""

from __future__ import annotations

import threading
from collections.abc import Callable

from windlass.config import InvalidSettings
from windlass.stores.protocol import Store

PORT = 7878
"""The usual port. If it is taken, any free one."""
START_SECONDS = 10.0


class ServedDashboard:
    """Serves the dashboard while the demo runs."""

    def __init__(self, open_store: Callable[[], Store], name: str) -> None:
        self._open_store, self._name = open_store, name
        self._stop: Callable[[], None] = lambda: None
        self._thread: threading.Thread | None = None

    def start(self) -> str:
        """Start it and return its address."""
        from windlass.dashboard.app import dashboard_routes
        from windlass.server.http.serving import Serving
        from windlass.server.settings import ServerSettings

        store, started = self._open_store(), threading.Event()

        def serve(port: int) -> Serving:
            settings = ServerSettings(port=port, store_name=self._name)
            return Serving(store, settings, lambda _: started.set(), dashboard_routes)

        try:
            serving = serve(PORT)
        except InvalidSettings:  # Another program has the port.
            serving = serve(0)

        def run() -> None:
            serving.run()
            store.close()

        self._stop, self._thread = serving.stop, threading.Thread(target=run, name="windlass-server", daemon=True)
        self._thread.start()
        started.wait(START_SECONDS)
        return serving.address

    def stop(self) -> None:
        """Stop it."""
        self._stop()
        if self._thread is not None:
            self._thread.join(START_SECONDS)
