"""Pages and actions: one declaration routes the request, checks access and names the template.

    pages = Pages()

    @pages.show("/queues/{name}", "queue.html", title="Queue")
    def show_queue(visit: Visit, name: str) -> QueuePage:
        "Show one queue."

    @pages.act("/queues/{name}/pause")
    def pause(visit: Visit, form: PauseForm, name: str) -> Goto:
        "Pause a queue."

The function of a page reads the store and returns what its template shows as `page`. It feeds the whole page and its
live updates alike. The function of an action changes the store and says where to go (`Goto`), or what to show once
(`Shown`). Both run in a thread. `query` and `form` are structs; other parameters come from the path.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, get_type_hints

from msgspec import Struct

from windlass.dashboard.visit import Visit
from windlass.operations.caller import Scope
from windlass.server.events.topics import Overview, Topic

Function = TypeVar("Function", bound=Callable[..., Any])


class Nav(Struct, frozen=True):
    """An entry of the navigation: its name, and the key after `g` that goes there."""

    name: str
    key: str


class Goto(Struct, frozen=True, kw_only=True):
    """Where an action leads: a page, and a message to show there."""

    path: str = ""
    params: Mapping[str, Any] = {}
    back: str | None = None
    """Goes back to this page instead: what a form sent as `back`, from `visit.place.back`."""
    text: str = ""
    failed: bool = False


class Shown(Struct, frozen=True, kw_only=True):
    """A page that an action shows at once, for what must not be stored anywhere, such as a new token."""

    template: str
    title: str
    page: Any
    parent: str
    """The page to which it belongs, as in `/settings`: the navigation shows it. It has no live updates."""


class Route(Struct, frozen=True, kw_only=True):
    """What pages and actions have in common."""

    path: str
    function: Callable[..., Any]
    path_params: Mapping[str, Any]
    unrestricted: bool = False
    """True if tokens that are limited to a tenant or a queue are refused."""


class Page(Route, frozen=True, kw_only=True):
    """A page, or a part of one."""

    template: str
    title: str
    query: Any = None
    nav: Nav | None = None
    follows: Callable[..., Topic]
    """Returns what to follow: the page is drawn again when that changes."""
    every: float = 10.0
    """After how many seconds it is drawn again at the latest."""
    personal: bool = False
    """True if it shows whose session it is. Then its live updates are shared by tabs of one caller only."""


class Action(Route, frozen=True, kw_only=True):
    """Something a person can do with a form."""

    form: Any = None
    scope: Scope = Scope.OPERATE


def follow_overview(visit: Visit, **_: Any) -> Topic:
    """Follow the numbers of tasks, the pools and the audit log, as far as the caller may see them."""
    caller = visit.caller
    return Overview(tenant=caller.tenant, queue=caller.queue, unrestricted=not caller.limited)


class Pages:
    """The pages and actions of one module."""

    def __init__(self) -> None:
        self.pages: list[Page] = []
        self.actions: list[Action] = []

    def show(
        self,
        path: str,
        template: str,
        *,
        title: str,
        nav: Nav | None = None,
        unrestricted: bool = False,
        follows: Callable[..., Topic] = follow_overview,
        every: float = 10.0,
        personal: bool = False,
    ) -> Callable[[Function], Function]:
        """Declare a page."""

        def declare(function: Function) -> Function:
            hints = get_type_hints(function)
            page = Page(
                path=path,
                function=function,
                path_params=dict(_path_params(function, hints)),
                unrestricted=unrestricted,
                template=template,
                title=title,
                query=hints.get("query"),
                nav=nav,
                follows=follows,
                every=every,
                personal=personal,
            )
            self.pages.append(page)
            return function

        return declare

    def act(
        self, path: str, *, scope: Scope = Scope.OPERATE, unrestricted: bool = False
    ) -> Callable[[Function], Function]:
        """Declare an action, which needs a scope."""

        def declare(function: Function) -> Function:
            hints = get_type_hints(function)
            action = Action(
                path=path,
                function=function,
                path_params=dict(_path_params(function, hints)),
                unrestricted=unrestricted,
                form=hints.get("form"),
                scope=scope,
            )
            self.actions.append(action)
            return function

        return declare


def _path_params(function: Callable[..., Any], hints: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name in list(inspect.signature(function).parameters)[1:]:
        if name not in ("query", "form"):
            yield name, hints[name]
