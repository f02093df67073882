"""The store of an app: opened on first use, shared by its handlers and handles, safe across threads and forks.

In a worker process every app is bound to the node (`bind_all`) and never opens a URL. In the worker parent, which only
imports the app, stores are forbidden. So a task never writes to a stray SQLite file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from threading import Lock
from typing import Any, cast
from weakref import WeakSet

from windlass.client.committer import Committer
from windlass.client.result_waiter import ResultWaiter
from windlass.core.task import Task
from windlass.errors import NotAllowed
from windlass.store_choice import choose_store
from windlass.stores.protocol import RETENTION, Store
from windlass.wiring import open_store


class _ProcessBinding:
    """The store that all apps of this process must use, if there is one."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.forbidden: str | None = None
        self.factory: Callable[[], Store] | None = None
        self.bound: Store | None = None

    def store(self) -> Store | None:
        if self.forbidden is not None:
            raise NotAllowed(self.forbidden)
        if self.bound is None and self.factory is not None:
            with self.lock:
                self.bound = self.bound or self.factory()
        return self.bound


_process = _ProcessBinding()
_all: WeakSet[AppStore] = WeakSet()


def bind_all(factory: Callable[[], Store]) -> None:
    """Make every app of this process, existing or new, use the store that the factory returns."""
    _process.forbidden, _process.factory, _process.bound = None, factory, None


def forbid_stores(reason: str) -> None:
    """Raise `NotAllowed` whenever an app of this process uses a store, until `bind_all`."""
    _process.forbidden = reason


def is_importing() -> bool:
    """Return whether this process only imports apps to fork workers from; a node must not start here."""
    return _process.forbidden is not None


def is_worker() -> bool:
    """Return whether this process runs the tasks of a node."""
    return _process.factory is not None


class AppStore:
    """The store of one app, with the group commit and the result waiter that its handlers and handles share."""

    def __init__(
        self, url: str | Callable[[], str | None] | None, store: Store | None, decode: Callable[[Task], Any]
    ) -> None:
        self._named = url
        self._given = store
        self.decode = decode
        """Decodes a finished task's result by its handler's return annotation."""
        self._opened: Store | None = None
        self.committer = Committer(lambda: self.store)
        self.reset()
        _all.add(self)

    def reset(self) -> None:
        """Forget all callers and waiters, as a forked child must. Stores reset their own connections."""
        self._opening = Lock()
        self.committer.reset()
        self.waiter = ResultWaiter(lambda: self.store)

    @property
    def store(self) -> Store:
        """The store, opened on first use."""
        store = _process.store() or self._given or self._opened
        if store is None:
            with self._opening:
                store = self._opened = self._opened or open_store(self._url)
        return store

    @property
    def _url(self) -> str | None:
        return self._named() if callable(self._named) else self._named

    @property
    def own_url(self) -> str | None:
        """The URL that the app itself names; None if it follows the environment and the settings file.

        If the app has a function for it, the function is called every time: settings may change until the first use.
        """
        return self._url if self._given is None else None

    def opener(self, retention: timedelta = RETENTION) -> tuple[Callable[[], Store], str]:
        """Return a function with which a node in this program opens stores, and the store's URL.

        A store that the app was given, or that lives in this process only, is shared with the node and outlives it.
        """
        url = self._url or choose_store().url
        if self._given is not None or url.startswith("memory:"):
            shared = cast("Store", SharedStore(self.store))
            return lambda: shared, ""
        return lambda: open_store(url, retention=retention), url

    def use(self, store: Store | None) -> None:
        """Use this store from now on; None returns to the store of the URL."""
        self._given = store

    @contextmanager
    def replaced_by(self, store: Store, *, direct: bool = False) -> Generator[None]:
        """Use this store inside the block.

        With `direct`, submits skip the group commit (`Committer.is_direct`).
        """
        before = self._given, self.committer.is_direct
        self._given, self.committer.is_direct = store, direct
        try:
            yield
        finally:
            self._given, self.committer.is_direct = before

    def close(self) -> None:
        """Close the store if it was opened here."""
        with self._opening:
            store, self._opened = self._opened, None
        if store is not None:
            store.close()


class SharedStore:
    """A store whose `close` does nothing, because its owner closes it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def close(self) -> None:
        """Do nothing."""


def _after_fork() -> None:
    _process.lock = Lock()
    for app_store in list(_all):
        app_store.reset()


os.register_at_fork(after_in_child=_after_fork)
