"""Handlers: functions that can be called, or enqueued to run in a worker.

`using(...)` returns a copy with other options and the same typed `enqueue`. Options never mix with the function's own
arguments, so every argument name is free. `enqueue_many` reads calls lazily and submits them in atomic chunks.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, Unpack

import msgspec
from msgspec import Struct

from windlass.client.app_store import AppStore
from windlass.client.arguments import Signature
from windlass.client.context import current_assignment
from windlass.client.handle import Handle
from windlass.client.options import UsingOptions, check_fields, task_fields
from windlass.core.manifest import HandlerInfo
from windlass.core.names import check_type
from windlass.core.task import NewTask
from windlass.errors import InvalidTask
from windlass.stores.protocol import Receipt

CHUNK = 1_000
"""Tasks of `enqueue_many` in one transaction."""

P = ParamSpec("P")
C_co = TypeVar("C_co", covariant=True)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Bound(Struct, Generic[R_co], frozen=True):
    """A call that has not been made yet, for `enqueue_many`."""

    task: NewTask
    conn: Any = None


class Using(Generic[P, R_co]):
    """A handler with task options, as `handler.using(...)` returns it."""

    def __init__(self, app_store: AppStore, signature: Signature, fields: Mapping[str, Any], conn: Any = None) -> None:
        self.signature = signature
        self.fields = fields
        """The fields of each `NewTask`, except its arguments."""
        self._app_store = app_store
        self._conn = conn
        if fields.get("limit") is not None:
            signature.check_key(fields["limit"])
        if (unique := fields.get("unique")) is not None:
            signature.check_key(unique.key, "unique_key")

    def using(self, **options: Unpack[UsingOptions]) -> Using[P, R_co]:
        """Return the same handler with these options on top."""
        given: dict[str, Any] = {**options}
        conn = given.pop("conn", self._conn)
        return Using(self._app_store, self.signature, task_fields(given, self.fields), conn)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R_co]:
        """Enqueue a call, to run in a worker. When this returns, the task is durable."""
        [receipt] = self._app_store.committer.submit((self._new_task(args, kwargs),), self._conn)
        return Handle(self._app_store, receipt.id, created=receipt.created)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R_co]:
        """Async version of `enqueue`."""
        [receipt] = await self._app_store.committer.asubmit((self._new_task(args, kwargs),), self._conn)
        return Handle(self._app_store, receipt.id, created=receipt.created)

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Bound[R_co]:
        """Return the call as a value for `app.enqueue_many`."""
        return Bound(self._new_task(args, kwargs), self._conn)

    def _new_task(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NewTask:
        """Return the task of a call. Inside a handler, it belongs to the tenant of the running task by default."""
        fields, running = self.fields, current_assignment()
        if running is not None and "tenant" not in fields:
            fields = {**fields, "tenant": running.tenant}
        task = NewTask(args=self.signature.encode(args, kwargs), **fields)
        return task if task.limit is None and task.unique is None else self.signature.fill_key(task)


class Handler(Using[P, R_co], Generic[P, C_co, R_co]):
    """A registered function. Calling it runs it here, like any function."""

    def __init__(self, app_store: AppStore, name: str, function: Callable[P, C_co], options: Mapping[str, Any]) -> None:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise InvalidTask(f"{name} is a generator function. A handler must return its result.")
        fields = check_fields(task_fields(options, {"handler": name}))
        super().__init__(app_store, Signature(function), fields)
        self.name = name
        self.function = function
        self.is_async = inspect.iscoroutinefunction(function)
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C_co:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Handler({self.name})"

    def info(self) -> HandlerInfo:
        """Return the description of the handler that the manifest publishes."""
        parameters, returns = self.signature.schemas()
        return HandlerInfo(
            name=self.name,
            is_async=self.is_async,
            queue=self.fields.get("queue", "default"),
            parameters=parameters,
            returns=returns,
            doc=inspect.getdoc(self.function) or "",
            template=msgspec.json.encode(NewTask(**self.fields)).decode(),
        )


def enqueue_many(app_store: AppStore, calls: Iterable[Bound[R]]) -> list[Handle[R]]:
    """Enqueue calls in chunks and return their handles in order."""
    chunks: _Chunks[R] = _Chunks(app_store)
    check_type("calls", calls, Iterable, "pass a list of handler.bind(...)")
    with chunks.noting_progress():
        for call in calls:
            if chunks.is_full_before(call):
                chunks.keep(app_store.committer.submit(chunks.tasks, chunks.conn))
            chunks.add(call)
        if chunks.tasks:
            chunks.keep(app_store.committer.submit(chunks.tasks, chunks.conn))
    return chunks.handles


async def aenqueue_many(app_store: AppStore, calls: Iterable[Bound[R]] | AsyncIterable[Bound[R]]) -> list[Handle[R]]:
    """Async version of `enqueue_many`; the calls may come from an async iterator."""
    chunks: _Chunks[R] = _Chunks(app_store)
    check_type("calls", calls, (Iterable, AsyncIterable), "pass a list of handler.bind(...)")
    with chunks.noting_progress():
        async for call in _iterate(calls):
            if chunks.is_full_before(call):
                chunks.keep(await app_store.committer.asubmit(chunks.tasks, chunks.conn))
            chunks.add(call)
        if chunks.tasks:
            chunks.keep(await app_store.committer.asubmit(chunks.tasks, chunks.conn))
    return chunks.handles


class _Chunks(Generic[R]):
    """The handles of submitted chunks, and the tasks of the next chunk."""

    def __init__(self, app_store: AppStore) -> None:
        self._app_store = app_store
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
        self.handles += [Handle(self._app_store, one.id, created=one.created) for one in receipts]
        self.tasks = []

    @contextmanager
    def noting_progress(self) -> Generator[None]:
        """Add a note to an error that says how many tasks were enqueued before it."""
        try:
            yield
        except Exception as error:
            error.add_note(f"{len(self.handles):,} tasks were enqueued before this error; the rest were not.")
            raise


async def _iterate(calls: Iterable[Bound[R]] | AsyncIterable[Bound[R]]) -> AsyncIterator[Bound[R]]:
    if isinstance(calls, AsyncIterable):
        async for call in calls:
            yield call
    else:
        for call in calls:
            yield call
