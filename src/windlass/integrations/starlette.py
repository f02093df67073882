"""Windlass in Starlette and FastAPI: a lifespan, background tasks that survive a crash, and the HTTP API under a path.

>>> api = FastAPI(lifespan=lifespan(app, worker={"size": 2}))
>>> api.add_middleware(WindlassMiddleware, app)
>>> api.mount("/windlass", http_api(app))
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, ParamSpec, TypeVar, cast
from weakref import WeakSet

from msgspec.structs import replace
from starlette.requests import HTTPConnection
from starlette.routing import Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass.client.app import App
from windlass.client.handle import Handle
from windlass.client.handlers import Bound, Using
from windlass.clock import SystemClock, entropy
from windlass.core.ids import fresh_id, keyed_id
from windlass.core.task import NewTask, TaskId
from windlass.errors import NotAllowed
from windlass.server.app import create_app
from windlass.server.http.security_middleware import SecurityMiddleware
from windlass.server.settings import ServerSettings
from windlass.stores.protocol import Store
from windlass.worker_node import WorkerNode, WorkerOptions

__all__ = ["Background", "WindlassMiddleware", "background", "get_app", "http_api", "lifespan", "running"]

P = ParamSpec("P")
R = TypeVar("R")

_SCOPE_KEY = "windlass"
_mounted: WeakSet[HttpApi] = WeakSet()
"""The mounted APIs. Their streams end with the lifespan of their app."""


@asynccontextmanager
async def running(app: App, worker: WorkerOptions | None = None) -> AsyncGenerator[WorkerNode | None]:
    """Open the store of the app, and close it at the end of the block. With `worker`, run a node meanwhile.

    The node has its own worker processes, and is drained at the end: `drain_timeout` limits how long that takes.
    """
    await asyncio.to_thread(lambda: app.store)
    node = None if worker is None else app.worker(**worker)
    try:
        if node is not None:
            await asyncio.to_thread(node.start)
        yield node
    finally:
        for api in [each for each in _mounted if each.app is app]:
            api.end_streams()
        if node is not None:
            await asyncio.to_thread(node.stop)
        await asyncio.to_thread(app.close)


def lifespan(app: App, worker: WorkerOptions | None = None) -> Callable[[Any], AbstractAsyncContextManager[None]]:
    """Return a lifespan for `FastAPI(lifespan=…)` or `Starlette(lifespan=…)`. In a lifespan of your own, use `running`.

    Without a store the program does not start, instead of failing at the first request.
    """

    @asynccontextmanager
    async def run(_: Any) -> AsyncGenerator[None]:
        async with running(app, worker):
            yield

    return run


class Background:
    """The calls that one request adds. They are enqueued together, when the response starts and is not an error."""

    def __init__(self, app: App) -> None:
        self.app = app
        self._calls: list[Bound[Any]] = []
        self._is_open = True

    def add(self, handler: Using[P, R], *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Enqueue a call with the response. The arguments are checked now; the handle may be part of the response."""
        if not self._is_open:
            raise NotAllowed("The response has started, so its tasks are enqueued. Use handler.aenqueue() instead.")
        call = handler.bind(*args, **kwargs)
        if call.conn is not None:
            raise NotAllowed("conn= commits with your transaction, not with the response. Use handler.aenqueue().")
        id = _id_of(call.task)
        self._calls.append(call if call.task.key is not None else Bound(replace(call.task, id=id)))
        return Handle(self.app.app_store, id)

    async def enqueue(self) -> None:
        """Enqueue what was added. The middleware calls it."""
        self._is_open = False
        calls, self._calls = self._calls, []
        if calls:
            await self.app.aenqueue_many(calls)


class WindlassMiddleware:
    """Gives every request a `Background`, and enqueues its calls before a response that is not an error is sent.

    So the client that has the response knows that the tasks are stored. If they cannot be stored, or the request fails,
    the client gets the error, and nothing is enqueued.

    >>> api.add_middleware(WindlassMiddleware, app)
    """

    def __init__(self, inner: ASGIApp, app: App) -> None:
        self._inner = inner
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._inner(scope, receive, send)
            return
        added = Background(self._app)

        async def enqueue_first(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                await added.enqueue()
            await send(message)

        await self._inner({**scope, _SCOPE_KEY: added}, receive, enqueue_first)


def background(request: HTTPConnection) -> Background:
    """Return the `Background` of a request: `background(request)` in Starlette, `Depends(background)` in FastAPI."""
    found: object = request.scope.get(_SCOPE_KEY)
    if not isinstance(found, Background):
        raise NotAllowed("This request has no Background. Add the middleware: add_middleware(WindlassMiddleware, app).")
    return found


def get_app(request: HTTPConnection) -> App:
    """Return the app of the middleware: `get_app(request)` in Starlette, `Depends(get_app)` in FastAPI."""
    return background(request).app


class HttpApi:
    """The HTTP API of an app inside another ASGI program. The store is opened with the first request."""

    def __init__(self, app: App, *, read_only: bool = False) -> None:
        # An address that other machines reach, so that no request is accepted without a token. The program around it
        # decides which host names it accepts.
        self._settings = ServerSettings(host="0.0.0.0", any_host=True, read_only=read_only)
        self.app = app
        self._served: tuple[Store, SecurityMiddleware] | None = None
        _mounted.add(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await Router()(scope, receive, send)
            return
        store = await asyncio.to_thread(lambda: self.app.store)
        if self._served is None or self._served[0] is not store:
            self._served = store, create_app(store, self._settings)
        await self._served[1](scope, receive, send)

    def end_streams(self) -> None:
        """End event streams and waiting claims. Call it in the event loop."""
        if self._served is not None:
            self._served[1].end_streams()
            self._served = None


def http_api(app: App, *, read_only: bool = False) -> ASGIApp:
    """Return the HTTP API of an app, to mount under a path. Every request needs a token.

    >>> api.mount("/windlass", http_api(app))
    """
    return cast("ASGIApp", HttpApi(app, read_only=read_only))


def _id_of(task: NewTask) -> TaskId:
    if task.key is not None:
        return keyed_id(task.tenant, task.workflow, task.key)
    return fresh_id(SystemClock().now(), entropy(1)())
