"""Imports the app in a worker parent before there is a node, to learn from it which store the node serves."""

from __future__ import annotations

import selectors
from collections.abc import Callable
from typing import NamedTuple

from windlass.clock import Clock
from windlass.config import NodeSettings
from windlass.errors import WindlassError
from windlass.worker.parent_client import ParentClient, describe_hidden, make_imports, parent_environment
from windlass.worker.wire import ParentFailed, ParentReady

START_PATIENCE = 120.0
"""How many seconds the import of an app may take."""
_POLL_SECONDS = 0.1


class AppBroken(WindlassError, ImportError):
    """The app could not be imported. The message contains the traceback."""

    code = "app_broken"


class ImportedApp(NamedTuple):
    """A worker parent that has imported the app. Its node takes it over."""

    parent: ParentClient
    ready: ParentReady


def import_app(
    settings: NodeSettings, store_url: str | None, clock: Clock, stopped: Callable[[], bool]
) -> ImportedApp | None:
    """Import the app in a new worker parent. Return None if `stopped` is true first. Raise `AppBroken` if it fails."""
    environment = parent_environment(store_url, hide=settings.hide_store_url)
    parent = ParentClient(make_imports(settings), environment, clock)
    try:
        ready = _await(parent, settings.app, clock, stopped)
    except AppBroken as error:
        parent.close()
        raise AppBroken(f"{error}{describe_hidden(environment)}") from None
    except BaseException:
        parent.close()
        raise
    if ready is None:
        parent.close()
        return None
    return ImportedApp(parent, ready)


def _await(parent: ParentClient, app: str, clock: Clock, stopped: Callable[[], bool]) -> ParentReady | None:
    """Return the report of the worker parent; None if `stopped` is true first."""
    give_up_at = clock.monotonic() + START_PATIENCE
    with selectors.DefaultSelector() as selector:
        selector.register(parent.connection.socket, selectors.EVENT_READ)
        while not stopped():
            if clock.monotonic() > give_up_at:
                raise AppBroken(f"{app} was not imported within {START_PATIENCE:.0f} s")
            if not selector.select(_POLL_SECONDS):
                continue
            messages, still_open = parent.connection.receive()
            for message in messages:
                match message:
                    case ParentReady():
                        return message
                    case ParentFailed(text):
                        raise AppBroken(text)
                    case _:
                        raise AppBroken(f"{app}: the worker parent sent {message!r} before it had imported the app")
            if not still_open:
                raise AppBroken(f"{app} could not be imported: that ended the process with status {parent.close()}")
    return None
