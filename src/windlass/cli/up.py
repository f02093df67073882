"""`windlass up`: run a node and the HTTP server in one process."""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.server import server
from windlass.cli.worker import Companion, worker
from windlass.events import Listening
from windlass.operations.tokens import new_secret, read_tokens
from windlass.store_choice import short_name
from windlass.wiring import open_store
from windlass.worker.logs import log_event, logger

if TYPE_CHECKING:
    from windlass.server.settings import ServerSettings

SERVED = [option for option in server.params if option.name != "store_url"]


def up(**options: Any) -> None:
    """Run tasks and serve the dashboard and the HTTP API in one process.

    The options are those of `windlass worker` and `windlass server`. SIGTERM or Ctrl-C drains the node; the API answers
    until the drain ends.

    While there are no tokens, requests need a secret that is printed at the start, if there is a terminal: handlers run
    on the same machine, and must not act as an operator.
    """
    served = {option.name or "": options.pop(option.name or "") for option in SERVED}
    context = click.get_current_context()
    companion: Companion = lambda url: serve_in_thread(url, served)  # noqa: E731 - the annotation needs a name
    context.obj = companion
    context.invoke(worker, **options)


@contextmanager
def serve_in_thread(url: str, options: dict[str, Any]) -> Generator[None]:
    """Run the server in a thread, with its own store."""
    from windlass.dashboard.app import dashboard_routes
    from windlass.server.http.serving import Serving
    from windlass.server.settings import ServerSettings

    store = open_store(url)
    try:
        plain: Any = {
            **options,
            "hosts": tuple(options["hosts"]),
            "secret": new_secret(),
            "store_name": short_name(url),
        }
        settings = ServerSettings(**plain)
        has_tokens = bool(read_tokens(store))
        running = Serving(store, settings, lambda address: _announce(address, settings, has_tokens), dashboard_routes)
        thread = threading.Thread(target=running.run, name="windlass-server", daemon=True)
        thread.start()
        try:
            yield
        finally:
            running.stop()
            thread.join()
    finally:
        store.close()


def _announce(address: str, settings: ServerSettings, has_tokens: bool) -> None:
    """Say where the server listens. Print the secret of this start on a terminal only: handlers may read a log."""
    log_event(Listening(address=address, serves="dashboard and HTTP API"))
    if has_tokens:
        return
    if sys.stderr.isatty():
        click.echo(f"windlass: dashboard {address}/login#{settings.secret}", err=True)
        click.echo(
            f"windlass: no tokens exist, so requests need this one until the next start: {settings.secret}", err=True
        )
    else:
        text = "No tokens exist, so the HTTP API refuses requests. Create one: windlass token create NAME --scope read"
        logger.warning("%s", text, extra={"fields": {"event": "TokensMissing"}})


command = click.Command("up", callback=up, params=[*worker.params, *SERVED], help=up.__doc__)
