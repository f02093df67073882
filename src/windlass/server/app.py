"""The server as an ASGI app: the table of routes over a store.

Each request goes the same way: who asks, may they, how often; what do they give; do it in a thread; answer. Nothing in
a handler knows HTTP, and nothing here knows what a handler does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import Any, get_origin

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Place
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.clock import Clock, SystemClock
from windlass.errors import Refused
from windlass.operations.caller import ANYONE, LOCAL, Caller
from windlass.operations.caller import Scope as Allowed
from windlass.operations.handler_catalog import HandlerCatalog
from windlass.operations.tokens import Keyring
from windlass.refused_submits import refused_submits
from windlass.server.broadcaster import Broadcaster
from windlass.server.http.call import Call
from windlass.server.http.feeds import Feed, Lines
from windlass.server.http.json_body import decoded
from windlass.server.http.live import Flow, Live, last_of, unless_gone
from windlass.server.http.openapi import document
from windlass.server.http.problems import wrong_shape
from windlass.server.http.rate_limit import Rates
from windlass.server.http.request_body import JSON, NDJSON, check_media, read_body
from windlass.server.http.routing import API, Route
from windlass.server.http.security_middleware import SecurityMiddleware
from windlass.server.http.store_executor import StoreExecutor
from windlass.server.http_workers import HttpWorkers
from windlass.server.routes.table import TABLE
from windlass.server.settings import ServerSettings
from windlass.stores.protocol import Store


class Service:
    """What all requests share."""

    def __init__(self, store: Store, settings: ServerSettings, clock: Clock | None = None) -> None:
        self.store, self.settings = store, settings
        self.offers = HandlerCatalog(store)
        self.keyring = Keyring(store, clock)
        self.rates = Rates(settings.rate)
        self.threads = StoreExecutor(settings.threads, settings.backlog, settings.request_seconds)
        self.workforce = HttpWorkers(store)
        self.news = Broadcaster(store, self.threads)
        self.clock = clock or SystemClock()

    def leave(self) -> None:
        """Answer those who wait, and let those who listen go: the server is about to stop. Called in the loop."""
        self.workforce.close()
        self.news.close()

    async def who(self, request: Request) -> Caller:
        """Who asks: by their token; without any token in the store, whoever reaches a server of this machine only."""
        if not self.keyring.is_fresh:
            await self.threads.run(self.keyring.read)
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and secret:
            found = self.keyring.who(secret.strip())
        else:
            found = LOCAL if self.keyring.is_empty and self.settings.is_local and not kind else None
        if found is None:
            raise Refused(
                "unauthorized",
                "a valid token is needed: Authorization: Bearer wdl_…; windlass token create makes one",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return found

    def check_may(self, who: Caller, route: Route) -> None:
        """Refuse what this caller's token does not allow."""
        scope = route.scope
        if scope is None:
            return
        if self.settings.read_only and scope is not Allowed.READ:
            raise Refused("read_only", "this server is read-only")
        if not who.may(scope):
            raise Refused("forbidden", f"this needs the scope {scope}; the token {who.name} does not have it")
        if route.whole and who.limited:
            raise Refused("forbidden", f"this is about all tenants and queues; the token {who.name} is limited to one")


def create_app(store: Store, settings: ServerSettings | None = None, clock: Clock | None = None) -> SecurityMiddleware:
    """The server for a store, which stays the caller's to close."""
    settings = settings or ServerSettings()
    service = Service(store, settings, clock)

    @asynccontextmanager
    async def lifespan(_: ASGIApp) -> AsyncGenerator[None]:
        yield
        service.leave()
        await asyncio.to_thread(service.workforce.join)
        service.threads.close()

    paths: dict[str, dict[str, Route]] = {}
    for route in TABLE:
        paths.setdefault(route.path, {})[route.method] = route
    places = [Place(path, _Endpoint(service, routes)) for path, routes in paths.items()]
    places.append(Place(f"{API}/openapi.json", _openapi))
    router = Router(places, redirect_slashes=False, default=_not_served, lifespan=lifespan)
    return SecurityMiddleware(router, settings, service.leave)


class _Endpoint:
    """One path, with all of its methods."""

    def __init__(self, service: Service, routes: Mapping[str, Route]) -> None:
        self._service, self._routes = service, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        route = self._routes.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            allowed = ", ".join(sorted(self._routes))
            text = f"{request.method} is not served here; {allowed} would be"
            raise Refused("method_not_allowed", text, headers={"Allow": allowed})
        with refused_submits.counting() if route.scope is Allowed.SUBMIT else nullcontext():
            response = await _answer(self._service, route, request)
        await response(scope, receive, send)


async def _answer(service: Service, route: Route, request: Request) -> Response:
    who = ANYONE if route.scope is None else await service.who(request)
    service.check_may(who, route)
    if not route.inline:
        service.rates.take(who)
    given = _places(route, request)
    if route.query is not None:
        given["query"] = _query(route.query, request)
    call = Call(service.store, service.offers, service.workforce, who, request.headers, service.clock)
    if route.inline:
        return _response(route, call, route.handler(call, **given))
    if route.streams:
        feed: Feed[Any] = Feed(request, service.threads, service.settings.request_seconds)
        return await Lines.begin(route.handler(call, feed=feed, **given))
    if route.body is not None:
        await _take_body(service, route, request, given)
    if route.lasts:
        return await _lasting(service, route, request, call, given)
    return await service.threads.run(lambda: _response(route, call, route.handler(call, **given)))


async def _lasting(service: Service, route: Route, request: Request, call: Call, given: dict[str, Any]) -> Response:
    async def check() -> None:
        service.check_may(await service.who(request), route)

    found = route.handler(call, live=Live(service.threads, service.news, check), **given)
    if not route.tells:
        return _response(route, call, await unless_gone(request, found))
    if route.text:
        return await Flow.begin(request, found, bytes, route.text)
    if NDJSON in request.headers.get("accept", ""):
        return await Flow.begin(request, found, msgspec.json.Encoder().encode_lines, NDJSON)
    return _response(route, call, await unless_gone(request, last_of(found)))


async def _take_body(service: Service, route: Route, request: Request, given: dict[str, Any]) -> None:
    text = await read_body(request, service.settings.request_seconds)
    if text or not route.body_optional:
        check_media(request, JSON)
        given["body"] = decoded(text, route.body)


def _places(route: Route, request: Request) -> dict[str, Any]:
    """What stands in the path. What is not of its form names nothing."""
    try:
        return {
            name: msgspec.convert(request.path_params[name], kind, strict=False) for name, kind in route.places.items()
        }
    except msgspec.ValidationError:
        raise Refused("not_found", "there is nothing of this name") from None


def _query(kind: Any, request: Request) -> Any:
    """The parameters behind the question mark, each once unless it is a list."""
    lists = {field.name for field in msgspec.structs.fields(kind) if get_origin(field.type) is list}
    found: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if name in lists:
            found.setdefault(name, []).append(value)
        elif name in found:
            raise Refused("invalid_request", f"{name}: given twice", field=name)
        else:
            found[name] = value
    try:
        return msgspec.convert(found, kind, strict=False)
    except msgspec.ValidationError as error:
        raise wrong_shape(error, "query") from None


def _response(route: Route, call: Call, answer: Any) -> Response:
    status = route.status if call.status is None else call.status
    body = answer if route.text else msgspec.json.encode(answer)
    return Response(body, status_code=status, headers=call.said, media_type=route.text or JSON)


_DOCUMENT = msgspec.json.encode(document(TABLE))


async def _openapi(_: Request) -> Response:
    return Response(_DOCUMENT, media_type=JSON)


async def _not_served(scope: Scope, _: Receive, send: Send) -> None:
    if scope["type"] == "http":
        raise Refused("not_found", "there is nothing here; /api/v1/openapi.json says what there is")
    await send({"type": "websocket.close", "code": 1000})
