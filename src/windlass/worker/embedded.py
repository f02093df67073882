"""A node inside a program: `app.worker()` and `app.run_worker()`.

Its threads run in this process. Its workers are separate processes, forked from one that imports the app again, so
handlers run exactly as with `windlass worker`, and no handler runs in this process.
"""

from __future__ import annotations

import atexit
import importlib.util
import logging
import os
import signal
import sys
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from windlass.client.app import App, main_name
from windlass.client.app_store import is_importing, is_worker
from windlass.config import InvalidSettings, NodeSettings, PoolSettings, read_settings
from windlass.core.times import duration
from windlass.errors import NotAllowed, WindlassError
from windlass.events import Events
from windlass.stores.protocol import SESSION_TTL
from windlass.worker.app_import import AppBroken
from windlass.worker.logs import log_event, logger
from windlass.worker.node import STOP_SIGNALS, Node, NodeFailed, StopOnSignal
from windlass.worker_node import WorkerNode, WorkerOptions

POLL_SECONDS = 0.2
"""How often the main thread wakes up while a node runs, so that Python runs signal handlers."""


class EmbeddedNode(WorkerNode):
    """Runs a `Node` in this process."""

    def __init__(self, app: App, options: WorkerOptions) -> None:
        self.settings = make_settings(app, options)
        self.events = Events()
        self.events.listen(log_event, attempts="all" if logger.isEnabledFor(logging.INFO) else "failed")
        if "on_event" in options:
            self.events.listen(options["on_event"])
        self._app = app
        self._node: Node | None = None
        self._process = 0
        self._lock = threading.RLock()
        self._stopped = False

    @property
    def running(self) -> bool:
        return self._node is not None and not self._stopped and not self._node.ended.is_set()

    @property
    def failure(self) -> str | None:
        return None if self._node is None else self._node.failure

    def start(self) -> None:
        if is_importing():
            raise NotAllowed(
                "A worker process is importing this module, so no node is started. "
                'Put the code that starts one under `if __name__ == "__main__":`, or into a function.'
            )
        if is_worker():
            raise NotAllowed("A handler cannot start a node: it runs in a worker of one. Enqueue tasks instead.")
        with self._lock:
            if self._node is not None:
                raise NotAllowed("This node was started before. Make another one with app.worker().")
            open_store, url = self._app.app_store.opener(self.settings.retention)
            self._node, self._process = Node(self.settings, open_store, url, self.events), os.getpid()
            try:
                self._node.start()
            except BaseException:
                self._stopped = True
                self._node.close()
                raise
            missing = sorted(self._app.handlers.keys() - self._node.handlers)
            if missing:
                self.stop(wait=False)
                raise AppBroken(
                    f"Importing {self.settings.app} does not register the handlers {', '.join(missing)}. "
                    "Define handlers at the top level of modules, not inside functions."
                )
            atexit.register(self.stop, wait=False)
            threading.Thread(target=self._close_when_ended, args=(self._node,), daemon=True).start()

    def stop(self, wait: bool = True, timeout: float | None = None) -> None:
        if os.getpid() != self._process:
            return  # Not started, or inherited by a fork, which does not have the node's threads.
        with self._lock:
            node = self._node
            if node is None or self._stopped:
                return
        # Not under the lock: another thread, or the exit of the program, may want to stop it faster.
        node.drain()
        if not wait or (timeout is not None and not node.ended.wait(timeout)):
            node.kill()
        node.ended.wait()
        with self._lock:
            if not self._stopped:
                self._stopped = True
                node.close()
                atexit.unregister(self.stop)

    def _close_when_ended(self, node: Node) -> None:
        """Close a node that ended without `stop`: it has failed, or a person drained it."""
        node.ended.wait()
        self.stop()

    def join(self, timeout: float | None = None) -> bool:
        return self._node is None or self._node.ended.wait(timeout)

    def run(self) -> None:
        self.start()
        assert self._node is not None
        try:
            with _signals_to(self._node):
                while not self.join(POLL_SECONDS):
                    pass
        finally:
            self.stop(wait=self.join(0))
        if self.failure is not None:
            raise NodeFailed(f"The node has ended: {self.failure}")


def make_settings(app: App, options: WorkerOptions) -> NodeSettings:
    """Return the settings of a node with these options. Raise an error that lists everything that is wrong."""
    _check_options(options)
    ttl, limit = options.get("session_ttl"), options.get("drain_timeout", timedelta(seconds=30))
    kept = options.get("retention")
    settings = NodeSettings(
        app=options.get("app_path") or find_app_path(app),
        pools=_pools(options),
        tags=tuple(options.get("tags", ())),
        drain_timeout=None if limit is None else duration(limit, "drain_timeout"),
        path=tuple(sys.path),
        imports=find_modules(app),
        name=options.get("name", ""),
        session_ttl=SESSION_TTL if ttl is None else duration(ttl, "session_ttl"),
        retention=read_settings().retention if kept is None else duration(kept, "retention"),
        hide_store_url=options.get("hide_store_url", False),
    )
    settings.check()
    return settings


def _check_options(options: Mapping[str, object]) -> None:
    """Reject unknown options and values of the wrong type. Their meaning is checked later."""
    unknown = options.keys() - WorkerOptions.__annotations__.keys()
    if unknown:
        known = ", ".join(sorted(WorkerOptions.__annotations__))
        raise TypeError(f"Unknown option {min(unknown)!r}. The options are {known}.")
    for field, value in options.items():
        if field == "on_event" and not callable(value):
            raise InvalidSettings(f"Invalid settings: on_event={value!r} is not callable. Pass a function.")
        if field in ("queues", "tags", "pools") and not _is_list(value):
            hint = f"Use {field}=[{value!r}]." if isinstance(value, str) else "Pass a list."
            raise InvalidSettings(f"Invalid settings: {field}={value!r} is not a list. {hint}")
        if field in ("size", "threads", "async_tasks") and value is not None and type(value) is not int:
            raise InvalidSettings(f"Invalid settings: {field}={value!r} is not an integer.")
        if field in ("name", "app_path") and not isinstance(value, str):
            raise InvalidSettings(f"Invalid settings: {field}={value!r} is not a str.")


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple | set | frozenset)


def _pools(options: WorkerOptions) -> tuple[PoolSettings, ...]:
    single = [field for field in ("queues", "size", "threads", "async_tasks") if field in options]
    if "pools" in options:
        if single:
            raise InvalidSettings(f"Invalid settings: pools and {', '.join(single)} exclude each other. Use one.")
        return tuple(options["pools"])
    queues = options.get("queues", ("default",))
    given: dict[str, Any] = {field: options.get(field) for field in single if field != "queues"}
    return (PoolSettings(queues=tuple(queues), **given),)


@contextmanager
def _signals_to(node: Node) -> Generator[None]:
    """Let SIGTERM and SIGINT drain the node, if this is the main thread. Restore their handlers afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stop = StopOnSignal(node)
    before = {number: signal.signal(number, stop) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)


MAIN = "__main__"


class AppNotFound(WindlassError, ImportError):
    """Worker processes could not import the app."""

    code = "app_not_found"


def find_app_path(app: App) -> str:
    """Return the import path of the app, as in `shop:app`."""
    variables = list(_find_variables(app))
    found = [(module, name) for module, name in variables if module != MAIN and is_importable(module)]
    if found:
        return "{}:{}".format(*found[0])
    mains = [name for module, name in variables if module == MAIN]
    if mains and is_main_importable():
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


def find_modules(app: App) -> tuple[str, ...]:
    """Return the modules that define the app's handlers, hooks and signals, so that workers import them all."""
    functions = [handler.function for handler in app.handlers.values()]
    used = [
        *functions,
        *app.hooks.before,
        *app.hooks.after,
        *app.hooks.around,
        *app.start_hooks,
        *app.stop_hooks,
        *app.signals.values(),
        *app.deciders.values(),
    ]
    names = dict.fromkeys(str(getattr(each, "__module__", "")) for each in used)
    resolved = (main_name() if name == MAIN else name for name in names)
    return tuple(name for name in resolved if is_importable(name))


def is_importable(module: str) -> bool:
    """Return True if a new process with the same import path finds the module."""
    try:
        return bool(module) and module != MAIN and importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def is_main_importable() -> bool:
    """Return True if the main module can be imported by its own name, from the same file."""
    file = getattr(sys.modules[MAIN], "__file__", None)
    if file is None:
        return False
    try:
        spec = importlib.util.find_spec(main_name())
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() == Path(file).resolve()


def _find_variables(app: App) -> Iterator[tuple[str, str]]:
    """Yield the modules and variables that hold the app, in import order."""
    for module, found in list(sys.modules.items()):
        for name, value in list(getattr(found, "__dict__", {}).items()):
            if value is app:
                yield module, name
