"""Many calls at once: read lazily, submitted in chunks, each of which happens whole or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Generator, Iterable
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from windlass.client.app_store import AppStore
from windlass.client.handle import Handle
from windlass.client.handlers import Bound
from windlass.core.names import check_type
from windlass.core.task import NewTask
from windlass.stores.protocol import Receipt

CHUNK = 1_000

R = TypeVar("R")


def enqueue_all(access: AppStore, calls: Iterable[Bound[R]]) -> list[Handle[R]]:
    """Enqueue all of them; their handles in order."""
    chunks: _Chunks[R] = _Chunks(access)
    check_type("calls", calls, Iterable, "pass a list of handler.bind(...)")
    with chunks.noting():
        for call in calls:
            if chunks.is_full_before(call):
                chunks.keep(access.submit(chunks.tasks, chunks.conn))
            chunks.add(call)
        if chunks.tasks:
            chunks.keep(access.submit(chunks.tasks, chunks.conn))
    return chunks.handles


async def aenqueue_all(access: AppStore, calls: Iterable[Bound[R]] | AsyncIterable[Bound[R]]) -> list[Handle[R]]:
    """The same for coroutines; the calls may come from an asynchronous source."""
    chunks: _Chunks[R] = _Chunks(access)
    check_type("calls", calls, (Iterable, AsyncIterable), "pass a list of handler.bind(...)")
    with chunks.noting():
        async for call in _each(calls):
            if chunks.is_full_before(call):
                chunks.keep(await access.asubmit(chunks.tasks, chunks.conn))
            chunks.add(call)
        if chunks.tasks:
            chunks.keep(await access.asubmit(chunks.tasks, chunks.conn))
    return chunks.handles


class _Chunks(Generic[R]):
    """What has been enqueued, and what is being gathered for the next submit."""

    def __init__(self, access: AppStore) -> None:
        self._access = access
        self.handles: list[Handle[R]] = []
        self.tasks: list[NewTask] = []
        self.conn: Any = None

    def is_full_before(self, call: Bound[R]) -> bool:
        check_type("call", call, Bound, "pass handler.bind(...)")
        return bool(self.tasks) and (len(self.tasks) >= CHUNK or call.conn is not self.conn)

    def add(self, call: Bound[R]) -> None:
        self.tasks.append(call.task)
        self.conn = call.conn

    def keep(self, receipts: list[Receipt]) -> None:
        self.handles += [Handle(self._access, receipt.id) for receipt in receipts]
        self.tasks = []

    @contextmanager
    def noting(self) -> Generator[None]:
        try:
            yield
        except Exception as error:
            error.add_note(f"{len(self.handles):,} tasks had been enqueued before; of the rest none was")
            raise


async def _each(calls: Iterable[Bound[R]] | AsyncIterable[Bound[R]]) -> AsyncIterator[Bound[R]]:
    if isinstance(calls, AsyncIterable):
        async for call in calls:
            yield call
    else:
        for call in calls:
            yield call
