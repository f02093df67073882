"""Serves one path: authenticate, rate-limit, parse, run the handler in its mode, respond.

Handlers know nothing of HTTP, and nothing here knows what a handler does.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, assert_never

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from windlass.errors import Refused
from windlass.operations.access import Access
from windlass.operations.caller import Caller
from windlass.operations.caller import Scope as TokenScope
from windlass.refused_submits import refused_submits
from windlass.server.http.body_budget import HeldBytes
from windlass.server.http.call import Call
from windlass.server.http.event_stream import EVENT_STREAM, send_events
from windlass.server.http.parameters import parse_path, parse_query
from windlass.server.http.request_body import NDJSON, read_json
from windlass.server.http.routing import Mode, Route
from windlass.server.http.service import Service
from windlass.server.http.streaming import LineReader, Live, StreamedResponse, last_item, run_until_disconnect

_encode_lines = msgspec.json.Encoder().encode_lines


class Endpoint:
    """One path with all of its methods, as an ASGI app."""

    def __init__(self, service: Service, routes: Mapping[str, Route]) -> None:
        self._service, self._routes = service, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        route = self._routes.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            allowed = ", ".join(sorted(self._routes))
            text = f"{request.method} is not supported here. Use {allowed}."
            raise Refused("method_not_allowed", text, headers={"Allow": allowed})
        caller = await self._service.auth.admit(request, route)
        # Routes without a token are health checks: a flood of other requests must not make them fail.
        with nullcontext() if route.scope is None else self._service.concurrency.running(caller):
            if route.scope is not None:
                self._service.rate_limiter.take(caller)
            with self._service.bodies.request() as held:
                with refused_submits.counting() if route.scope is TokenScope.SUBMIT else nullcontext():
                    response = await _respond(self._service, route, request, caller, held)
                await response(scope, receive, send)


async def _respond(service: Service, route: Route, request: Request, caller: Caller, held: HeldBytes) -> Response:
    access = Access(service.store, caller, catalog=service.handlers, clock=service.clock, cursor_key=service.cursor_key)
    call = Call(access, request.headers, service.workers, service.readiness)
    arguments = await _arguments(service, route, request, held)
    match route.mode:
        case Mode.JSON | Mode.TEXT:
            reads = route.method == "GET"
            return await service.threads(route).run(
                lambda: _response(route, call, route.handler(call, **arguments)),
                reads=reads,
                always=route.without_store,
            )
        case Mode.INLINE:
            return _response(route, call, route.handler(call, **arguments))
        case Mode.LINES:
            return await StreamedResponse.start_duplex(route.handler(call, **arguments), _encode_lines, NDJSON)
        case Mode.LONG_POLL:
            result = await run_until_disconnect(request, route.handler(call, **arguments))
            return _response(route, call, result)
        case Mode.PROGRESS:
            parts = route.handler(call, **arguments)
            if NDJSON in request.headers.get("accept", ""):
                return await StreamedResponse.start(request, parts, _encode_lines, NDJSON)
            return _response(route, call, await run_until_disconnect(request, last_item(parts)))
        case Mode.EVENTS:
            stream = await service.threads(route).run(lambda: route.handler(call, **arguments), reads=True)
            parts = send_events(_live(service, route, request), stream, request.headers.get("last-event-id"))
            return await StreamedResponse.start(request, parts, bytes, EVENT_STREAM)
        case _:
            assert_never(route.mode)


async def _arguments(service: Service, route: Route, request: Request, held: HeldBytes) -> dict[str, Any]:
    """Parse everything the handler takes, each part of the request once."""
    arguments = parse_path(route.path_params, request)
    if route.query is not None:
        arguments["query"] = parse_query(route.query, request)
    if route.mode is Mode.LINES:
        reader: LineReader[Any] = LineReader(request, service.threads(route), service.settings.request_seconds, held)
        arguments["reader"] = reader
    elif route.body is not None:
        seconds = service.settings.request_seconds
        body = await read_json(request, route.body, seconds, held, optional=route.body_optional)
        if body is not None:
            arguments["body"] = body
    if route.mode in (Mode.LONG_POLL, Mode.PROGRESS):
        arguments["live"] = _live(service, route, request)
    return arguments


def _live(service: Service, route: Route, request: Request) -> Live:
    return Live(service.threads(route), service.broadcaster, lambda: service.auth.admit(request, route))


def _response(route: Route, call: Call, result: Any) -> Response:
    status = route.status if call.status is None else call.status
    body = result if route.mode is Mode.TEXT else msgspec.json.encode(result)
    return Response(body, status_code=status, headers=call.response_headers, media_type=route.media_type)
