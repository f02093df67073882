"""An app: where functions become handlers, and from where tasks are enqueued.

Thin on purpose: registering is here, enqueuing is in `handlers`, waiting in `handle`, the way to the store in `access`.
Nothing is opened when an app is made, so that a module with one can be imported anywhere.
"""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, Unpack, cast, overload
from uuid import UUID

import msgspec

from windlass.client.app_store import AppStore, bind_all, forbid_stores, is_importing
from windlass.client.enqueue_many import aenqueue_all, enqueue_all
from windlass.client.handle import Handle
from windlass.client.handlers import Bound, Handler
from windlass.client.options import TaskOptions
from windlass.client.schedules import Misfire, check_schedule
from windlass.client.workflow import Workflow
from windlass.core.manifest import CronInfo, Manifest
from windlass.core.names import check_text, check_type, shorten
from windlass.core.payload import MAX_BYTES, encode_args
from windlass.core.task import Task
from windlass.errors import InvalidTask
from windlass.stores.protocol import Store

if TYPE_CHECKING:
    from windlass.situation import PoolSituation
    from windlass.worker_node import WorkerNode, WorkerOptions

__all__ = ["App", "bind_all", "forbid_stores"]

P = ParamSpec("P")
R = TypeVar("R")
Hook = TypeVar("Hook", bound=Callable[[], object])
Signal = TypeVar("Signal", bound=Callable[[], float])
OwnDecider = TypeVar("OwnDecider", bound="Callable[[PoolSituation], float]")


class Decorator(Protocol):
    """What `@app.task(...)` is: it makes a handler of a `def` or an `async def`."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Handler[P, Coroutine[Any, Any, R], R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Handler[P, R, R]: ...


class App:
    """Handlers, and a store for their tasks.

    >>> app = App("memory:")
    >>> @app.task(queue="mail", retries=5, timeout="30s")
    ... def send(to: str, subject: str = "") -> int: ...
    >>> handle = send.enqueue("a@b.c")

    Without a URL the store is that of `$WINDLASS_URL`, else a SQLite file in the current folder.
    """

    def __init__(
        self, url: str | None = None, *, store: Store | None = None, max_result_bytes: int = MAX_BYTES
    ) -> None:
        self.max_result_bytes = max_result_bytes
        self.start_hooks: list[Callable[[], object]] = []
        self.stop_hooks: list[Callable[[], object]] = []
        self.signals: dict[str, Callable[[], float]] = {}
        """The registered signals by name."""
        self.deciders: dict[str, Callable[[PoolSituation], float]] = {}
        """The registered deciders by name."""
        self._handlers: dict[str, Handler[..., Any, Any]] = {}
        self.handlers: Mapping[str, Handler[..., Any, Any]] = MappingProxyType(self._handlers)
        """The registered handlers by name."""
        self._crons: dict[str, CronInfo] = {}
        self._access = AppStore(url, store, self._result_of)

    @property
    def store(self) -> Store:
        """The store; opened when this is first asked."""
        return self._access.store

    @property
    def access(self) -> AppStore:
        """The way to the store, for those who run or test this app."""
        return self._access

    def use_store(self, store: Store | None) -> None:
        """Use this store from now on; with None, again the one of the URL."""
        self._access.use(store)

    def close(self) -> None:
        """Close the store if this app opened it. The app can be used on, and then opens it again."""
        self._access.close()

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Handler[P, Coroutine[Any, Any, R], R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Handler[P, R, R]: ...
    @overload
    def task(self, /, *, name: str | None = None, **options: Unpack[TaskOptions]) -> Decorator: ...
    def task(
        self, function: Callable[..., Any] | None = None, /, *, name: str | None = None, **options: Unpack[TaskOptions]
    ) -> Any:
        """Register a function as a handler, with what holds for all of its tasks.

        Its name, under which tasks know it, is that of its module and itself unless one is given.
        """

        def register(function: Callable[..., Any]) -> Handler[..., Any, Any]:
            return self._register(function, name, options)

        return register if function is None else register(function)

    def cron(
        self,
        schedule: str,
        *,
        tz: str = "UTC",
        misfire: Misfire = "last",
        name: str | None = None,
        args: Mapping[str, Any] | None = None,
        **options: Unpack[TaskOptions],
    ) -> Decorator:
        """Run a function by the clock: a cron expression of five fields, in a time zone.

        A plain function becomes a handler with these options; one that is a handler already gets one more schedule.
        """
        check_schedule(schedule, tz, misfire)
        if name is not None:
            check_text("name", name)
        check_type("args", args, (Mapping, type(None)), "pass a dict of arguments by name")

        def register(function: Callable[..., Any]) -> Handler[..., Any, Any]:
            handler = self._handlers.get(getattr(function, "name", ""))
            if handler is None or handler is not function:
                handler = self._register(function, None, options)
            cron = CronInfo(
                name=handler.name if name is None else name,
                handler=handler.name,
                schedule=schedule,
                timezone=tz,
                misfire=misfire,
                args=encode_args(handler.signature.encode((), args or {})),
            )
            if self._crons.setdefault(cron.name, cron) != cron:
                raise InvalidTask(f"the cron {cron.name!r} is there already with another schedule; give name=")
            return handler

        return register

    def on_worker_start(self, hook: Hook) -> Hook:
        """Call this once in every worker process before its first task: for a model, a connection, a cache."""
        self.start_hooks.append(hook)
        return hook

    def on_worker_stop(self, hook: Hook) -> Hook:
        """Call this once in every worker process after its last task, if it ends in peace; it has half a minute."""
        self.stop_hooks.append(hook)
        return hook

    def signal(self, measure: Signal) -> Signal:
        """Let pools be sized by this number too, once `windlass.yaml` names it: `signals: [{name: free_connections}]`.

        Called every few seconds in some worker, beside what that runs; it should be quick.
        """
        self.signals[measure.__name__] = measure
        return measure

    def decider(self, decide: OwnDecider) -> OwnDecider:
        """Let pools be sized by this function, once their settings name it: `scale: {deciders: ["app:by_orders"]}`.

        It gets a `PoolSituation` and returns a number of workers. Called every second in some worker, beside what that
        runs; it should be quick. The same vetoes, bounds and cooldowns hold as for every other decider.
        """
        self.deciders[decide.__name__] = decide
        return decide

    def enqueue_many(self, calls: Iterable[Bound[R]]) -> list[Handle[R]]:
        """Enqueue many calls, as `send.bind(x) for x in addresses`: read lazily, in atomic chunks of 1,000.

        An error carries a note that says how many had been enqueued before the chunk in which it happened.
        """
        return enqueue_all(self._access, calls)

    async def aenqueue_many(self, calls: Iterable[Bound[R]] | AsyncIterable[Bound[R]]) -> list[Handle[R]]:
        """The twin of `enqueue_many`."""
        return await aenqueue_all(self._access, calls)

    def workflow(self, name: str, *, tenant: str = "default", conn: Any = None) -> Workflow:
        """Build a named group of tasks that depend on each other; it is submitted on leaving the block.

        With `conn`, the caller's own connection to the store's PostgreSQL, it commits with the caller's transaction.

        >>> with app.workflow("nightly") as wf:
        ...     a = wf.add(extract, "2026-11-15")
        ...     wf.add(report, a)
        """
        return Workflow(self._access, name, tenant, conn)

    def handle(self, id: UUID | str) -> Handle[Any]:
        """A handle of the task with this id, whether it exists or not."""
        try:
            found: object = UUID(id) if isinstance(id, str) else id
        except ValueError:
            found = None
        if not isinstance(found, UUID):
            raise InvalidTask(f"id={shorten(id)} is not a task id; pass a UUID, or its text")
        return Handle(self._access, found)

    def worker(self, **options: Unpack[WorkerOptions]) -> WorkerNode:
        """A node inside this program, to be started and stopped as you like. Handlers run in processes of their own.

        >>> with app.worker(queues=["mail"], size=2):
        ...     send.enqueue("a@b.c").result()
        """
        embedded = import_module("windlass.worker.embedded")
        return cast("WorkerNode", embedded.EmbeddedNode(self, options))

    def run_worker(self, **options: Unpack[WorkerOptions]) -> None:
        """Run a node inside this program until SIGTERM or Ctrl-C drains it.

        Does nothing while a worker process imports this module, so a script may end with it unguarded.
        """
        if not is_importing():
            self.worker(**options).run()

    def manifest(self) -> Manifest:
        """What this app has to offer, for those who do not import it."""
        handlers = tuple(handler.info() for handler in self._handlers.values())
        return Manifest(handlers=handlers, crons=tuple(self._crons.values()))

    def _register(
        self, function: Callable[..., Any], name: str | None, options: Mapping[str, Any]
    ) -> Handler[..., Any, Any]:
        if isinstance(function, Handler):  # of another app, or of this one under a further name
            function = cast("Handler[..., Any, Any]", function).function
        check_type("function", function, Callable, "to name a handler, write @app.task(name=...)")  # pyright: ignore[reportArgumentType]
        if not hasattr(function, "__qualname__") and name is None:
            raise InvalidTask(f"{function!r} has no name of its own; give it one with name=")
        handler: Handler[..., Any, Any] = Handler(
            self._access, name_of(function) if name is None else name, function, options
        )
        known = self._handlers.get(handler.name)
        # At a prompt or in a notebook a definition is often sent again; in a file, a second one is a mistake.
        if known is not None and hasattr(sys.modules.get(_module_of(function)), "__file__"):
            raise InvalidTask(
                f"the handler name {handler.name!r} is taken by {known.function!r}; give the other one a name="
            )
        self._handlers[handler.name] = handler
        return handler

    def _result_of(self, task: Task) -> Any:
        handler = self._handlers.get(task.handler)
        if handler is not None:
            return handler.signature.decode_result(task.result)
        return None if task.result is None else msgspec.json.decode(task.result)


def name_of(function: Callable[..., Any]) -> str:
    """A function's name as tasks carry it: the same whether its module was imported or run as a program."""
    module = _module_of(function)
    if module == "__main__":
        module = main_name()
    whole = f"{module}.{function.__qualname__}".replace(".<locals>", "")
    return re.sub(r"[^A-Za-z0-9_.:-]", "_", whole)[-128:]


def main_name() -> str:
    """Return the name under which the main module could be imported."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    path = str(getattr(main, "__file__", None) or "__main__")
    return spec.name if spec is not None else re.split(r"[\\/]", path)[-1].removesuffix(".py")


def _module_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__module__", "")
