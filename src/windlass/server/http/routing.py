"""What a route is: one declaration, from which both the server and the OpenAPI document are made.

A route is a function with a decorator. Its signature says what it takes (`query` and `body` are structs, the other
parameters stand in the path), its return annotation what it answers, its docstring what it is for. One that takes a
`feed` is an asynchronous generator of parts of its answer, each a sequence of lines. One that takes `live` is
asynchronous, may last, and ends when its caller goes away: it returns its answer, or yields parts of it.

    route = Routes("tasks")

    @route("GET", "/tasks/{id}", Scope.READ, errors=["unknown_task"])
    def get_task(call: Call, id: UUID) -> TaskShape:
        "One task as it stands now."
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, get_args, get_type_hints

from msgspec import Struct

from windlass.operations.caller import Scope

API = "/api/v1"
_RESERVED = ("query", "body", "feed", "live")

Function = TypeVar("Function", bound=Callable[..., Any])


class Route(Struct, frozen=True, kw_only=True):
    """One method of one path."""

    method: str
    path: str
    tag: str
    name: str
    scope: Scope | None
    """What the caller's token must allow; None for everybody."""
    handler: Callable[..., Any]
    """Takes a `Call`, and by name what stands in the path, `query` and `body` or `feed`. Runs in a thread."""
    summary: str
    places: Mapping[str, Any]
    """The parameters of the path, and their types."""
    query: Any = None
    body: Any = None
    body_optional: bool = False
    answer: Any = None
    status: int = 200
    also: tuple[int, ...] = ()
    """Other good statuses that it may answer with."""
    headers: tuple[str, ...] = ()
    """Headers that it heeds."""
    errors: tuple[str, ...] = ()
    """Codes of the problems that are its own."""
    whole: bool = False
    """Whether a token that is limited to a tenant or a queue does not suffice."""
    streams: bool = False
    """Whether lines go in and out, without an end to the body's length."""
    lasts: bool = False
    """Whether it is asynchronous, and goes on for as long as its caller is there."""
    tells: bool = False
    """Whether its answer comes in parts: lines for those who accept them, for others the last one alone."""
    inline: bool = False
    """Whether it asks no store, and is answered even while all threads wait for one."""
    text: str = ""
    """What kind of text it answers with, where that is not JSON; the handler then makes the bytes itself."""


class Routes:
    """The routes of one module, in the order in which they stand there."""

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
        whole: bool = False,
        inline: bool = False,
        text: str = "",
    ) -> Callable[[Function], Function]:
        """Declare a route."""

        def declare(function: Function) -> Function:
            hints = get_type_hints(function, include_extras=True)
            parameters = list(inspect.signature(function).parameters.values())[1:]
            streams, tells = "feed" in hints, inspect.isasyncgenfunction(function)
            body = next((each for each in parameters if each.name == "body"), None)
            self._routes.append(
                Route(
                    method=method,
                    path=self._prefix + path,
                    tag=self._tag,
                    name=function.__name__,
                    scope=scope,
                    handler=function,
                    summary=inspect.getdoc(function) or "",
                    places={each.name: hints[each.name] for each in parameters if each.name not in _RESERVED},
                    query=hints.get("query"),
                    body=get_args(hints["feed"])[0] if streams else hints.get("body"),
                    body_optional=body is not None and body.default is not inspect.Parameter.empty,
                    answer=_innermost(hints["return"]) if tells else hints["return"],
                    status=status,
                    also=tuple(also),
                    headers=tuple(headers),
                    errors=tuple(errors),
                    whole=whole,
                    streams=streams,
                    lasts="live" in hints,
                    tells=tells and not streams,
                    inline=inline,
                    text=text,
                )
            )
            return function

        return declare


def _innermost(kind: Any) -> Any:
    """What each line of a streamed answer is: the last of nested type arguments."""
    while found := get_args(kind):
        kind = found[0]
    return kind
