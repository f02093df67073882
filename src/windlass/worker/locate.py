"""Finds out how a worker process can import an app that this program already has.

Workers are forked from a process that imports the app afresh, so the app must be a variable of a module that can be
imported by name. A program's main module can, unless it is a prompt, a notebook or `python -c`.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

from windlass.client.app import App, main_name
from windlass.errors import WindlassError

MAIN = "__main__"


class AppNotFound(WindlassError, ImportError):
    """Worker processes could not import the app."""

    code = "app_not_found"


def locate(app: App) -> str:
    """Return where the app can be imported from, as in `shop:app`."""
    homes = list(_homes(app))
    found = [(module, name) for module, name in homes if module != MAIN and importable(module)]
    if found:
        return "{}:{}".format(*found[0])
    mains = [name for module, name in homes if module == MAIN]
    if mains and main_importable():
        return f"{main_name()}:{mains[0]}"
    if mains:
        raise AppNotFound(
            "The app is defined in __main__, which worker processes cannot import: this is a prompt, `python -c`, "
            "or a file that is not on the import path. Move the app into a module and import it from there."
        )
    raise AppNotFound(
        "The app is not a variable of any module that can be imported, so worker processes cannot import it. "
        "Assign it at the top level of a module, or say where it is with app_path='module:name'."
    )


def modules_of(app: App) -> tuple[str, ...]:
    """Return the modules that define the app's handlers, hooks and signals, so that workers import them all."""
    functions = [handler.function for handler in app.handlers.values()]
    used = [*functions, *app.start_hooks, *app.stop_hooks, *app.signals.values(), *app.deciders.values()]
    names = dict.fromkeys(str(getattr(each, "__module__", "")) for each in used)
    resolved = (main_name() if name == MAIN else name for name in names)
    return tuple(name for name in resolved if importable(name))


def importable(module: str) -> bool:
    """Return whether a fresh process with this one's import path finds the module."""
    try:
        return bool(module) and module != MAIN and importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def main_importable() -> bool:
    """Return whether the main module can be imported by its own name, and that name leads to the same file."""
    file = getattr(sys.modules[MAIN], "__file__", None)
    if file is None:
        return False
    try:
        spec = importlib.util.find_spec(main_name())
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() == Path(file).resolve()


def _homes(app: App) -> Iterator[tuple[str, str]]:
    """Yield the modules that have the app as a variable, in the order in which they were imported."""
    for module, found in list(sys.modules.items()):
        for name, value in list(getattr(found, "__dict__", {}).items()):
            if value is app:
                yield module, name
