"""An app's way to its store: opened when first used, shared by its handlers and handles, safe over threads and forks.

Inside a worker every app of the process is bound to the node instead (`bind_all`), and where the app is only imported
(the nursery) stores are forbidden, so that a task never writes to a stray file of its own.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, cast
from weakref import WeakSet

from windlass.client.committer import Committer
from windlass.client.context import current_lease
from windlass.client.result_waiter import ResultWaiter
from windlass.client.tracing import sending
from windlass.core.task import Lease, NewTask, Task, TaskId
from windlass.errors import NotAllowed, WindlassError
from windlass.refusals import refusals
from windlass.stores.protocol import Receipt, Store
from windlass.wiring import DEFAULT_URL, asubmit_in, open_store


class _Process:
    """What holds for every app of this process."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.forbidden: str | None = None
        self.factory: Callable[[], Store] | None = None
        self.bound: Store | None = None

    def store(self) -> Store | None:
        """The store to which all apps are bound, if they are."""
        if self.forbidden is not None:
            raise NotAllowed(self.forbidden)
        if self.bound is None and self.factory is not None:
            with self.lock:
                self.bound = self.bound or self.factory()
        return self.bound


_process = _Process()
_all: WeakSet[AppStore] = WeakSet()


def bind_all(factory: Callable[[], Store]) -> None:
    """From now on every app of this process, also those made later, uses the store that this makes, and no URL."""
    _process.forbidden, _process.factory, _process.bound = None, factory, None


def forbid_stores(reason: str) -> None:
    """From now on every use of a store by an app of this process is refused, until `bind_all`."""
    _process.forbidden = reason


def is_importing() -> bool:
    """Return whether this process only imports apps to fork workers from; a node must not start here."""
    return _process.forbidden is not None


def is_worker() -> bool:
    """Return whether this process runs the tasks of a node."""
    return _process.factory is not None


class AppStore:
    """One app's store, and what all its handlers and handles share."""

    def __init__(self, url: str | None, store: Store | None, decode: Callable[[Task], Any]) -> None:
        self._url = url
        self._given = store
        self._is_direct = False
        self.decode = decode
        """A finished task's result, by the annotation of its handler."""
        self._opened: Store | None = None
        self.start_afresh()
        _all.add(self)

    def start_afresh(self) -> None:
        """Begin without callers and waiters, as a forked child does; stores see to their own connections there."""
        self._opening = Lock()
        self._committer = Committer(self._write)
        self.waiting = ResultWaiter(self._get)

    @property
    def store(self) -> Store:
        """The store; opened now if it was not."""
        store = _process.store() or self._given or self._opened
        if store is None:
            with self._opening:
                store = self._opened = self._opened or open_store(self._url)
        return store

    def opener(self) -> tuple[Callable[[], Store], str]:
        """Return how a node in this program opens stores, and their URL.

        A store that the app was given, or that lives in this process only, is shared with the node and outlives it.
        """
        url = self._url or os.environ.get("WINDLASS_URL") or DEFAULT_URL
        if self._given is not None or url.startswith("memory:"):
            shared = cast("Store", SharedStore(self.store))
            return lambda: shared, ""
        return lambda: open_store(url), url

    def use(self, store: Store | None) -> None:
        """Use this store from now on; with None, again the one of the URL."""
        self._given = store

    @contextmanager
    def instead(self, store: Store, *, direct: bool = False) -> Generator[None]:
        """In this block, use this store.

        With `direct` every submit is a call of its own, made by its caller: for tests that run tasks inside of it.
        """
        before = self._given, self._is_direct
        self._given, self._is_direct = store, direct
        try:
            yield
        finally:
            self._given, self._is_direct = before

    def close(self) -> None:
        """Close the store if it was opened here."""
        with self._opening:
            store, self._opened = self._opened, None
        if store is not None:
            store.close()

    def submit(self, tasks: Sequence[NewTask], conn: Any = None) -> list[Receipt]:
        """Submit, in one commit with others who do so now, or in the caller's own transaction."""
        span = sending(tasks)
        try:
            if span is None:
                return self._submit(tasks, conn)
            with span:
                return span.sent(self._submit(span.tasks, conn))
        except WindlassError as error:
            refusals.count(error)
            raise

    async def asubmit(self, tasks: Sequence[NewTask], conn: Any = None) -> list[Receipt]:
        """The same for coroutines. A synchronous `conn` is used right here: it may belong to this thread."""
        span = sending(tasks)
        try:
            if span is None:
                return await self._asubmit(tasks, conn)
            with span:
                return span.sent(await self._asubmit(span.tasks, conn))
        except WindlassError as error:
            refusals.count(error)
            raise

    def _submit(self, tasks: Sequence[NewTask], conn: Any) -> list[Receipt]:
        lease = current_lease()
        if conn is None and not self._is_direct:
            return self._committer.submit(tasks, lease)
        return self._write(tasks, lease, conn)

    async def _asubmit(self, tasks: Sequence[NewTask], conn: Any) -> list[Receipt]:
        lease = current_lease()
        if conn is None and not self._is_direct:
            return await self._committer.asubmit(tasks, lease)
        if conn is not None and _is_async(conn):
            return await asubmit_in(conn, tasks, lease)
        return self._write(tasks, lease, conn)

    def _get(self, ids: Sequence[TaskId]) -> list[Task | None]:
        return self.store.get(ids)

    def get(self, id: TaskId) -> Task | None:
        """One task as it stands."""
        [task] = self.store.get([id])
        return task

    def _write(self, tasks: Sequence[NewTask], lease: Lease | None, conn: Any = None) -> list[Receipt]:
        if lease is None:
            return self.store.submit(tasks, conn=conn)
        return self.store.submit(tasks, conn=conn, lease=lease)


class SharedStore:
    """A store that its user must not close."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def close(self) -> None:
        """Leave it open: whoever opened it closes it."""


def _is_async(conn: Any) -> bool:
    return (
        hasattr(conn, "sync_session")
        or hasattr(conn, "sync_connection")
        or inspect.iscoroutinefunction(getattr(conn, "execute", None))
    )


def _after_fork() -> None:
    _process.lock = Lock()
    for access in list(_all):
        access.start_afresh()


os.register_at_fork(after_in_child=_after_fork)
