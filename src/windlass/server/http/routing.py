"""Routes: one declaration serves the requests and writes the OpenAPI document.

A route is a function with a decorator. Its signature says what it takes: `query` and `body` are structs, the other
parameters come from the path. Its return annotation says what it returns, and its docstring is its description.

    route = Routes("tasks")

    @route("GET", "/tasks/{id}", Scope.READ, errors=["unknown_task"])
    def get_task(call: Call, id: UUID) -> TaskShape:
        "Return one task."

The signature also sets the mode unless the decorator does: a function that takes a `reader` streams lines in and out,
an async function that takes `live` is a long poll, an async generator that takes `live` reports progress, and a
function that returns an `EventStream` starts an event stream.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from msgspec import Struct

from windlass.operations.caller import Scope
from windlass.server.http.event_stream import EventStream

API = "/api/v1"
_RESERVED = ("query", "body", "reader", "live")

Function = TypeVar("Function", bound=Callable[..., Any])


class Mode(StrEnum):
    """How a handler runs, and how its result is sent."""

    JSON = "json"
    """Runs in a thread. The result is sent as JSON."""
    TEXT = "text"
    """Runs in a thread. The result is the bytes of a text, sent with the route's media type."""
    INLINE = "inline"
    """Runs in the event loop and must not use the store. Answers even while every thread waits for the store."""
    LONG_POLL = "long_poll"
    """Asynchronous. May wait before it returns its JSON result; canceled when the client disconnects."""
    PROGRESS = "progress"
    """Asynchronous generator. Sends its items as NDJSON lines if the client accepts them, else the last one as JSON."""
    EVENTS = "events"
    """Runs in a thread and returns an `EventStream`. Sends server-sent events until the client disconnects."""
    LINES = "lines"
    """Asynchronous generator. Reads NDJSON lines and sends NDJSON lines at the same time."""


class Route(Struct, frozen=True, kw_only=True):
    """One method of one path."""

    method: str
    path: str
    tag: str
    name: str
    scope: Scope | None
    """The scope a token needs; None for public routes."""
    handler: Callable[..., Any]
    """Takes a `Call`, and by name the path parameters, `query`, `body`, `reader` and `live`."""
    summary: str
    path_params: Mapping[str, Any]
    """The types of the path parameters."""
    query: Any = None
    body: Any = None
    body_optional: bool = False
    result: Any = None
    """The type of the result, or of each item in the modes that send many."""
    status: int = 200
    also: tuple[int, ...] = ()
    """Other successful statuses."""
    headers: tuple[str, ...] = ()
    """Request headers that the route reads."""
    errors: tuple[str, ...] = ()
    """Codes of the problems that are specific to this route."""
    unrestricted: bool = False
    """True if tokens that are limited to a tenant or a queue are refused."""
    without_store: bool = False
    """True if the route answers while the store is unavailable, and says so."""
    mode: Mode = Mode.JSON
    media_type: str = "application/json"


class Routes:
    """The routes of one module, in the order of their declaration."""

    def __init__(self, tag: str, prefix: str = API) -> None:
        self._tag, self._prefix = tag, prefix
        self._routes: list[Route] = []

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes)

    def __call__(
        self,
        method: str,
        path: str,
        scope: Scope | None,
        *,
        status: int = 200,
        also: Sequence[int] = (),
        headers: Sequence[str] = (),
        errors: Sequence[str] = (),
        unrestricted: bool = False,
        without_store: bool = False,
        mode: Mode | None = None,
        media_type: str = "application/json",
    ) -> Callable[[Function], Function]:
        """Declare a route."""

        def declare(function: Function) -> Function:
            hints = get_type_hints(function, include_extras=True)
            parameters = list(inspect.signature(function).parameters.values())[1:]
            body = next((each for each in parameters if each.name == "body"), None)
            generates = inspect.isasyncgenfunction(function)
            self._routes.append(
                Route(
                    method=method,
                    path=self._prefix + path,
                    tag=self._tag,
                    name=function.__name__,
                    scope=scope,
                    handler=function,
                    summary=inspect.getdoc(function) or "",
                    path_params={each.name: hints[each.name] for each in parameters if each.name not in _RESERVED},
                    query=hints.get("query"),
                    body=get_args(hints["reader"])[0] if "reader" in hints else hints.get("body"),
                    body_optional=body is not None and body.default is not inspect.Parameter.empty,
                    result=_result_type(hints["return"], generates=generates),
                    status=status,
                    also=tuple(also),
                    headers=tuple(headers),
                    errors=tuple(errors),
                    unrestricted=unrestricted,
                    without_store=without_store,
                    mode=mode or _infer_mode(hints, generates=generates),
                    media_type=media_type,
                )
            )
            return function

        return declare


def _infer_mode(hints: Mapping[str, Any], *, generates: bool) -> Mode:
    if "reader" in hints:
        return Mode.LINES
    if "live" in hints:
        return Mode.PROGRESS if generates else Mode.LONG_POLL
    return Mode.EVENTS if get_origin(hints["return"]) is EventStream else Mode.JSON


def _result_type(type: Any, *, generates: bool) -> Any:
    """Return the type of the result: of one item if the handler yields sequences of them, or of one event."""
    if get_origin(type) is EventStream:
        return get_args(type)[0]
    while generates and (found := get_args(type)):
        type = found[0]
    return type
