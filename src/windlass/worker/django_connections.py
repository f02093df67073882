"""Closes Django's old and broken database connections around every task, as Django itself does around a request.

Otherwise a connection that the server has closed would fail every later task of the worker that uses it.
"""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from typing import Any

from windlass.client.app import App


def close_around_tasks(app: App) -> None:
    """Close them before and after every `def` task, if the app uses Django."""
    if "django.db" not in sys.modules or not _is_configured():
        return
    app.hooks.before.insert(0, close_old_connections)
    app.hooks.after.insert(0, close_old_connections)


def close_old_connections() -> None:
    """Close the connections of this thread that are broken or older than `CONN_MAX_AGE`, unless an event loop runs.

    On an event loop Django keeps its connections in a thread of its own, and refuses this call.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        database: Any = import_module("django.db")
        database.close_old_connections()


def _is_configured() -> bool:
    conf: Any = import_module("django.conf")
    return bool(conf.settings.configured)
