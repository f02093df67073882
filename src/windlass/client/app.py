"""App: registers functions as handlers and enqueues their tasks.

Registration is here; enqueuing is in `handlers`, waiting in `handle`, the store in `app_store`. Creating an app opens
nothing, so a module with an app can be imported anywhere.
"""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, Unpack, cast, overload
from uuid import UUID

import msgspec

from windlass.client.app_store import AppStore, bind_all, forbid_stores, is_importing
from windlass.client.events import Events
from windlass.client.handle import Handle
from windlass.client.handlers import Bound, Handler, aenqueue_many, enqueue_many
from windlass.client.options import Misfire, TaskOptions
from windlass.client.schedules import Schedules
from windlass.client.task_hooks import TaskHooks
from windlass.client.workflow import Workflow
from windlass.core.manifest import CronInfo, Manifest
from windlass.core.names import check_text, check_type, shorten
from windlass.core.payload import MAX_BYTES, encode_args
from windlass.core.task import Task
from windlass.errors import InvalidTask
from windlass.stores.protocol import Store

if TYPE_CHECKING:
    from windlass.client.inspection import DeadLetters, Nodes, Pools, Queues, Tasks
    from windlass.custom_decider import PoolSituation
    from windlass.worker_node import WorkerNode, WorkerOptions

__all__ = ["App", "bind_all", "forbid_stores"]

P = ParamSpec("P")
R = TypeVar("R")
Hook = TypeVar("Hook", bound=Callable[[], object])
Around = TypeVar("Around", bound=Callable[[], AbstractContextManager[object]])
Signal = TypeVar("Signal", bound=Callable[[], float])
OwnDecider = TypeVar("OwnDecider", bound="Callable[[PoolSituation], float]")


class Decorator(Protocol):
    """The decorator that `@app.task(...)` returns: it turns a `def` or `async def` into a handler."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Handler[P, Coroutine[Any, Any, R], R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Handler[P, R, R]: ...


class App:
    """A set of handlers and the store for their tasks.

    >>> app = App("memory:")
    >>> @app.task(queue="mail", retries=5, timeout="30s")
    ... def send(to: str, subject: str = "") -> int: ...
    >>> handle = send.enqueue("a@b.c")

    Without a URL, the store is `$WINDLASS_URL`, then that of `windlass.yaml`, then `sqlite:///windlass.db`, all in the
    current directory. A node with another explicit store than that of its app does not start. `url` may be a function
    that returns the URL or None, for settings that are not known yet when the module is imported.
    """

    def __init__(
        self,
        url: str | Callable[[], str | None] | None = None,
        *,
        store: Store | None = None,
        max_result_bytes: int = MAX_BYTES,
    ) -> None:
        self.max_result_bytes = max_result_bytes
        self.start_hooks: list[Callable[[], object]] = []
        self.stop_hooks: list[Callable[[], object]] = []
        self.hooks = TaskHooks()
        """The functions that run with every attempt."""
        self.signals: dict[str, Callable[[], float]] = {}
        """The registered signals by name."""
        self.deciders: dict[str, Callable[[PoolSituation], float]] = {}
        """The registered deciders by name."""
        self._handlers: dict[str, Handler[..., Any, Any]] = {}
        self.handlers: Mapping[str, Handler[..., Any, Any]] = MappingProxyType(self._handlers)
        """The registered handlers by name."""
        self._crons: dict[str, CronInfo] = {}
        self.schedules = Schedules(lambda: self.store, self.manifest)
        """Crons that are created, changed and removed at run time."""
        self.app_store = AppStore(url, store, self._result_of)
        self.events = Events(self.app_store)
        """Sets events that workflows wait for."""

    @property
    def store(self) -> Store:
        """The store, opened on first use."""
        return self.app_store.store

    def use_store(self, store: Store | None) -> None:
        """Use this store from now on; None returns to the store of the URL."""
        self.app_store.use(store)

    def close(self) -> None:
        """Close the store if this app opened it. Using the app again reopens it."""
        self.app_store.close()

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Handler[P, Coroutine[Any, Any, R], R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Handler[P, R, R]: ...
    @overload
    def task(self, /, *, name: str | None = None, **options: Unpack[TaskOptions]) -> Decorator: ...
    def task(
        self, function: Callable[..., Any] | None = None, /, *, name: str | None = None, **options: Unpack[TaskOptions]
    ) -> Any:
        """Register a function as a handler, with options for all of its tasks.

        Without `name`, tasks refer to it by its module and function name.
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
        """Run a function on a schedule: a cron expression in a time zone, "@daily", or an interval as "every 90s".

        A plain function becomes a handler with these options. A handler gets one more schedule.
        """
        from windlass.core.schedule import check_schedule  # It imports cronsim, which few programs need.

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
                raise InvalidTask(f"Cron {cron.name!r} already has another schedule. Pass a different name=.")
            return handler

        return register

    def on_worker_start(self, hook: Hook) -> Hook:
        """Call a function in every worker process before its first task, to load a model or open a connection."""
        self.start_hooks.append(hook)
        return hook

    def on_worker_stop(self, hook: Hook) -> Hook:
        """Call a function in every worker process after its last task if it stops normally; it has 30 seconds."""
        self.stop_hooks.append(hook)
        return hook

    def before_task(self, hook: Hook) -> Hook:
        """Call a function before every attempt, in its process. If it raises, the attempt fails with that error."""
        self.hooks.before.append(hook)
        return hook

    def after_task(self, hook: Hook) -> Hook:
        """Call a function after every attempt, however it ended. What it raises is logged and changes nothing."""
        self.hooks.after.append(hook)
        return hook

    def around_task(self, hook: Around) -> Around:
        """Run every attempt inside a context manager, which `hook()` returns.

        >>> @app.around_task
        ... @contextmanager
        ... def session():
        ...     with open_session():
        ...         yield
        """
        self.hooks.around.append(hook)
        return hook

    def signal(self, measure: Signal) -> Signal:
        """Register a number that pools scale by when `windlass.yaml` names it: `signals: [{name: free_connections}]`.

        It is called every few seconds in a worker while tasks run there, so it should be fast.
        """
        self.signals[measure.__name__] = measure
        return measure

    def decider(self, decide: OwnDecider) -> OwnDecider:
        """Register a function that sizes pools whose settings name it: `scale: {deciders: ["app:by_orders"]}`.

        It takes a `PoolSituation` and returns a number of workers. It is called every second in a worker while tasks
        run there, so it should be fast. The usual vetoes, bounds and cooldowns apply to its answer.
        """
        self.deciders[decide.__name__] = decide
        return decide

    def enqueue_many(self, calls: Iterable[Bound[R]]) -> list[Handle[R]]:
        """Enqueue many calls, as `send.bind(x) for x in addresses`: read lazily, in atomic chunks of 1,000.

        An error carries a note that says how many tasks were enqueued before the failing chunk.
        """
        return enqueue_many(self.app_store, calls)

    async def aenqueue_many(self, calls: Iterable[Bound[R]] | AsyncIterable[Bound[R]]) -> list[Handle[R]]:
        """Async version of `enqueue_many`."""
        return await aenqueue_many(self.app_store, calls)

    def workflow(self, name: str, *, tenant: str | None = None, conn: Any = None, append: bool = False) -> Workflow:
        """Build a named group of tasks that depend on each other; it is submitted when the block ends.

        With `conn`, the caller's connection to the store's PostgreSQL, it commits with the caller's transaction.
        Without `tenant`, it belongs to the tenant of the running task, or outside of one to `default`. A name that
        exists is refused with `NotAllowed`, unless every task has a key, so that a repeated submit creates nothing, or
        `append` adds tasks to the workflow on purpose. Two submits of the same new name in the same instant are not
        noticed; keys exclude that.

        >>> with app.workflow("nightly") as wf:
        ...     a = wf.add(extract, "2026-11-15")
        ...     wf.add(report, a)
        """
        return Workflow(self.app_store, name, tenant, conn, append=append)

    @overload
    def handle(self, id: UUID | str) -> Handle[Any]: ...
    @overload
    def handle(self, id: UUID | str, handler: Handler[..., Any, R]) -> Handle[R]: ...
    def handle(self, id: UUID | str, handler: Handler[..., Any, Any] | None = None) -> Handle[Any]:
        """Return a handle for a task id, whether the task exists or not.

        With its handler, as in `app.handle(id, send)`, the result has the type of that handler; a task of another one
        is refused when it is read.
        """
        check_type("handler", handler, (Handler, type(None)), "pass a function decorated with @app.task")
        try:
            found: object = UUID(id) if isinstance(id, str) else id
        except ValueError:
            found = None
        if not isinstance(found, UUID):
            raise InvalidTask(f"id={shorten(id)} is not a task id. Pass a UUID or its text form.")
        return Handle(self.app_store, found, None if handler is None else handler.name)

    @property
    def tasks(self) -> Tasks:
        """The tasks of the store: search, count, cancel, retry."""
        return import_module("windlass.client.inspection").Tasks(self.app_store)

    @property
    def dead(self) -> DeadLetters:
        """The failed tasks, grouped by error: list, retry, try with a canary."""
        return import_module("windlass.client.inspection").DeadLetters(self.app_store)

    @property
    def queues(self) -> Queues:
        """The queues of the store: list, pause, resume, change."""
        return import_module("windlass.client.inspection").Queues(self.app_store)

    @property
    def pools(self) -> Pools:
        """The pools of all nodes: list, set, freeze, pause, resume."""
        return import_module("windlass.client.inspection").Pools(self.app_store)

    @property
    def nodes(self) -> Nodes:
        """The nodes and their worker processes: list, drain, stop."""
        return import_module("windlass.client.inspection").Nodes(self.app_store)

    def worker(self, **options: Unpack[WorkerOptions]) -> WorkerNode:
        """Return a node that runs inside this program. Handlers run in worker processes.

        >>> with app.worker(queues=["mail"], size=2):
        ...     send.enqueue("a@b.c").result()
        """
        embedded = import_module("windlass.worker.embedded")
        return cast("WorkerNode", embedded.EmbeddedNode(self, options))

    def run_worker(self, **options: Unpack[WorkerOptions]) -> None:
        """Run a node inside this program until SIGTERM or Ctrl-C drains it.

        Does nothing while a worker process imports this module, so a script may call it without a guard.
        """
        if not is_importing():
            self.worker(**options).run()

    def dashboard(
        self, *, user: Callable[[Mapping[str, Any]], str | None] | None = None, read_only: bool = False
    ) -> Callable[..., Coroutine[Any, Any, None]]:
        """Return the dashboard as an ASGI app, to mount under any path in FastAPI, Starlette or Django.

        >>> api.mount("/windlass", app.dashboard())

        People log in with a token. With `user`, they do not: it takes the ASGI scope of a request and returns the name
        of the person whom the program has logged in, who may then do everything that the scope `operate` allows; None
        refuses the request.
        """
        dashboard = import_module("windlass.dashboard.app")
        return cast(
            "Callable[..., Coroutine[Any, Any, None]]",
            dashboard.EmbeddedDashboard(self, user=user, read_only=read_only),
        )

    def manifest(self) -> Manifest:
        """Return the app's handlers and crons, for processes that do not import the app."""
        handlers = tuple(handler.info() for handler in self._handlers.values())
        return Manifest(handlers=handlers, crons=tuple(self._crons.values()))

    def _register(
        self, function: Callable[..., Any], name: str | None, options: Mapping[str, Any]
    ) -> Handler[..., Any, Any]:
        if isinstance(function, Handler):  # A handler of another app, or of this one under another name.
            function = cast("Handler[..., Any, Any]", function).function
        check_type("function", function, Callable, "to name a handler, write @app.task(name=...)")  # pyright: ignore[reportArgumentType]
        if not hasattr(function, "__qualname__") and name is None:
            raise InvalidTask(f"{function!r} has no name. Pass name=.")
        handler: Handler[..., Any, Any] = Handler(
            self.app_store, handler_name(function) if name is None else name, function, options
        )
        known = self._handlers.get(handler.name)
        # In a prompt or a notebook a function is often redefined; in a file, a second definition is a mistake.
        if known is not None and hasattr(sys.modules.get(_module_of(function)), "__file__"):
            raise InvalidTask(f"Handler name {handler.name!r} is taken by {known.function!r}. Pass a different name=.")
        self._handlers[handler.name] = handler
        return handler

    def _result_of(self, task: Task) -> Any:
        handler = self._handlers.get(task.handler)
        if handler is not None:
            return handler.signature.decode_result(task.result)
        return None if task.result is None else msgspec.json.decode(task.result)


def handler_name(function: Callable[..., Any]) -> str:
    """Return the name by which tasks refer to a function; the same whether its module is imported or run."""
    module = _module_of(function)
    if module == "__main__":
        module = main_name()
    whole = f"{module}.{function.__qualname__}".replace(".<locals>", "")
    return re.sub(r"[^A-Za-z0-9_.:-]", "_", whole)[-128:]


def main_name() -> str:
    """Return the name by which the main module could be imported."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    path = str(getattr(main, "__file__", None) or "__main__")
    return spec.name if spec is not None else re.split(r"[\\/]", path)[-1].removesuffix(".py")


def _module_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__module__", "")
