"""Runs a server on a real socket in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from windlass.dashboard.app import dashboard_routes
from windlass.server.http.serving import Serving
from windlass.server.settings import ServerSettings
from windlass.stores.protocol import Store


@contextmanager
def running(store: Store, *, dashboard: bool = False, **settings: Any) -> Iterator[str]:
    """Run a server over this store, with or without the dashboard; yields its address."""
    started = threading.Event()
    pages = dashboard_routes if dashboard else lambda _: ()
    serving = Serving(store, ServerSettings(port=0, **settings), lambda _: started.set(), pages)
    thread = threading.Thread(target=serving.run, name="server")
    thread.start()
    try:
        assert started.wait(20), "the server did not start"
        yield serving.address
    finally:
        serving.stop()
        thread.join(30)
        assert not thread.is_alive(), "the server did not stop"
