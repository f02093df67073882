"""`windlass up`: run a node and the HTTP server in one process."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import click

from windlass.cli.server import server
from windlass.cli.worker import Companion, worker
from windlass.wiring import open_store

SERVED = [option for option in server.params if option.name != "store_url"]


def up(**options: Any) -> None:
    """Run tasks and serve the HTTP API in one process.

    The options are those of `windlass worker` and `windlass server`. SIGTERM or Ctrl-C drains the node; the API answers
    until the drain ends.
    """
    served = {option.name or "": options.pop(option.name or "") for option in SERVED}
    context = click.get_current_context()
    companion: Companion = lambda url: serve_in_thread(url, served)  # noqa: E731 - the annotation needs a name
    context.obj = companion
    context.invoke(worker, **options)


@contextmanager
def serve_in_thread(url: str, options: dict[str, Any]) -> Generator[None]:
    """Run the server in a thread, with its own store."""
    from windlass.server.http.serving import Serving
    from windlass.server.settings import ServerSettings

    store = open_store(url)
    try:
        plain: Any = {**options, "hosts": tuple(options["hosts"])}
        settings = ServerSettings(**plain)
        running = Serving(store, settings, lambda address: click.echo(f"windlass: listening on {address}", err=True))
        thread = threading.Thread(target=running.run, name="windlass-server", daemon=True)
        thread.start()
        try:
            yield
        finally:
            running.stop()
            thread.join()
    finally:
        store.close()


command = click.Command("up", callback=up, params=[*worker.params, *SERVED], help=up.__doc__)
