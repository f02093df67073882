"""Handlers: functions that can be called, or enqueued to be run elsewhere.

`using(...)` gives an immutable twin with other options and the same typed `enqueue`. Options never mix with the
function's own arguments, so no argument name is taken.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, Unpack

import msgspec
from msgspec import Struct

from windlass.client.app_store import AppStore
from windlass.client.handle import Handle
from windlass.client.options import UsingOptions, checked, fields_of
from windlass.client.signature import Signature
from windlass.core.manifest import HandlerInfo
from windlass.core.task import NewTask
from windlass.errors import InvalidTask

P = ParamSpec("P")
C_co = TypeVar("C_co", covariant=True)
R_co = TypeVar("R_co", covariant=True)


class Bound(Struct, Generic[R_co], frozen=True):
    """A call that was not made yet: for `enqueue_many`."""

    task: NewTask
    conn: Any = None


class Using(Generic[P, R_co]):
    """A handler with options for its tasks."""

    def __init__(self, access: AppStore, signature: Signature, fields: Mapping[str, Any], conn: Any = None) -> None:
        self.signature = signature
        self.fields = fields
        """Of the `NewTask` that each call makes."""
        self._access = access
        self._conn = conn

    def using(self, **options: Unpack[UsingOptions]) -> Using[P, R_co]:
        """The same handler with these options on top."""
        given: dict[str, Any] = {**options}
        conn = given.pop("conn", self._conn)
        return Using(self._access, self.signature, fields_of(given, self.fields), conn)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R_co]:
        """Have it run elsewhere, later. When this returns, the task is durable."""
        task = NewTask(args=self.signature.encode(args, kwargs), **self.fields)
        [receipt] = self._access.submit((task,), self._conn)
        return Handle(self._access, receipt.id)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R_co]:
        """The twin of `enqueue`."""
        task = NewTask(args=self.signature.encode(args, kwargs), **self.fields)
        [receipt] = await self._access.asubmit((task,), self._conn)
        return Handle(self._access, receipt.id)

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Bound[R_co]:
        """The call as a value, for `app.enqueue_many`."""
        return Bound(NewTask(args=self.signature.encode(args, kwargs), **self.fields), self._conn)


class Handler(Using[P, R_co], Generic[P, C_co, R_co]):
    """A registered function. Called, it runs here and now, as any function does."""

    def __init__(self, access: AppStore, name: str, function: Callable[P, C_co], options: Mapping[str, Any]) -> None:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise InvalidTask(f"{name} is a generator; a handler returns its result")
        fields = checked(fields_of(options, {"handler": name}))
        super().__init__(access, Signature(function), fields)
        self.name = name
        self.function = function
        self.is_async = inspect.iscoroutinefunction(function)
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C_co:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Handler({self.name})"

    def info(self) -> HandlerInfo:
        """What others can know about it without importing it."""
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
