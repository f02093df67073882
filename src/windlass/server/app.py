"""The HTTP API as an ASGI app: the route table over a store."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Router
from starlette.routing import Route as PathRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.clock import Clock
from windlass.errors import Refused
from windlass.server.http.endpoint import Endpoint
from windlass.server.http.openapi import document
from windlass.server.http.request_body import JSON
from windlass.server.http.routing import API, Route
from windlass.server.http.security_middleware import SecurityMiddleware
from windlass.server.http.service import Service
from windlass.server.routes.table import TABLE
from windlass.server.settings import ServerSettings
from windlass.stores.protocol import Store

Pages = Callable[[Service], Sequence[BaseRoute]]
"""Returns routes to serve in addition to the API, as the dashboard does. They come last."""


def create_app(
    store: Store, settings: ServerSettings | None = None, clock: Clock | None = None, pages: Pages = lambda _: ()
) -> SecurityMiddleware:
    """Return the server for a store. The caller closes the store."""
    settings = settings or ServerSettings()
    service = Service(store, settings, clock)

    @asynccontextmanager
    async def lifespan(_: ASGIApp) -> AsyncGenerator[None]:
        yield
        await service.close()

    paths: dict[str, dict[str, Route]] = {}
    for route in TABLE:
        paths.setdefault(route.path, {})[route.method] = route
    endpoints: list[BaseRoute] = [PathRoute(path, Endpoint(service, routes)) for path, routes in paths.items()]
    endpoints.append(PathRoute(f"{API}/openapi.json", _openapi))
    endpoints += pages(service)
    router = Router(endpoints, redirect_slashes=False, default=_not_found, lifespan=lifespan)
    return SecurityMiddleware(router, settings, service.end_streams)


_DOCUMENT = msgspec.json.encode(document(TABLE))


async def _openapi(_: Request) -> Response:
    return Response(_DOCUMENT, media_type=JSON)


async def _not_found(scope: Scope, _: Receive, send: Send) -> None:
    if scope["type"] == "http":
        raise Refused("not_found", "No such path. See /api/v1/openapi.json for the paths there are.")
    await send({"type": "websocket.close", "code": 1000})
