"""The dashboard of one server: its pages, its sessions, and what all visits share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from msgspec import Struct
from starlette.convertors import Convertor
from starlette.requests import Request
from starlette.routing import compile_path
from starlette.types import Scope as HttpScope

from windlass.clock import entropy
from windlass.dashboard.page import Action, Nav, Page
from windlass.dashboard.pages.table import MODULES
from windlass.dashboard.sessions import Sessions
from windlass.dashboard.static_files import static_files
from windlass.dashboard.visit import THEMES, Looks, Place, Visit
from windlass.errors import Refused
from windlass.operations.access import Access
from windlass.operations.caller import Caller, Scope
from windlass.server.http.parameters import convert_fields, convert_path
from windlass.server.http.service import Service

ZONE, THEME, FLASH = "windlass_zone", "windlass_theme", "windlass_flash"


FindUser = Callable[[Mapping[str, Any]], str | None]
"""Takes the ASGI scope of a request and returns the name of the person, or None to refuse the request."""


class Entry(Struct, frozen=True, kw_only=True):
    """A link in the navigation."""

    nav: Nav
    path: str
    unrestricted: bool


class Found(Struct, frozen=True, kw_only=True):
    """A page with the arguments of its function."""

    page: Page
    arguments: Mapping[str, Any]


class Site:
    """What the pages of one server share."""

    def __init__(self, service: Service, user: FindUser | None = None, stream_seconds: float | None = None) -> None:
        self.service = service
        self.settings = service.settings
        self.user = user
        """Names the person who sends a request, inside a program that logs people in itself."""
        self.stream_seconds = stream_seconds
        """How long an event stream may last; None for as long as the page is open."""
        self.sessions = Sessions(service.auth, service.cursor_key)
        self.pages: Sequence[Page] = [page for module in MODULES for page in module.pages]
        self.actions: Sequence[Action] = [action for module in MODULES for action in module.actions]
        self.csrf_mark = f"csrf-{entropy(1)():016x}"
        """Stands for the CSRF token in what is rendered once for several people. Nobody else can guess it."""
        self.version = static_files().version
        self.sheets = sorted(
            (name for name in static_files().files if name.endswith(".css")), key=lambda name: name != "windlass.css"
        )
        """The style sheets, the common one first."""
        self._entries = [
            Entry(nav=page.nav, path=page.path, unrestricted=page.unrestricted) for page in self.pages if page.nav
        ]
        self._patterns = [(page, *_pattern(page.path)) for page in self.pages]

    @property
    def is_embedded(self) -> bool:
        """Return True inside another program, which listens and may log people in itself."""
        return self.stream_seconds is not None

    @property
    def has_secret(self) -> bool:
        """Return True if `windlass up` printed a secret that opens this server while there are no tokens."""
        return bool(self.settings.secret)

    @property
    def store_name(self) -> str:
        """Return the short name of the store."""
        return self.settings.store_name or "store"

    def navigation(self, visit: Visit) -> list[Entry]:
        """Return the pages that this person may open."""
        return [entry for entry in self._entries if not (entry.unrestricted and visit.caller.limited)]

    def visit(self, caller: Caller, place: Place, looks: Looks) -> Visit:
        """Return a visit. Its CSRF token is the mark, which is replaced when a response is sent."""
        service = self.service
        access = Access(
            service.store, caller, catalog=service.handlers, clock=service.clock, cursor_key=service.cursor_key
        )
        return Visit(
            access,
            place,
            looks,
            service.background,
            read_only=self.settings.read_only,
            csrf=self.csrf_mark,
        )

    def find(self, path: str, query: Sequence[tuple[str, str]]) -> Found:
        """Return the page at a path with its arguments. Query parameters that the page does not know are ignored."""
        for page, pattern, convertors in self._patterns:
            if (match := pattern.match(path)) is not None:
                return Found(page=page, arguments=_arguments(page, match, convertors, query))
        raise Refused("not_found", "No such page.")

    def check_page(self, caller: Caller, page: Page) -> None:
        """Refuse a caller who may not see a page."""
        self.service.auth.authorize(caller, Scope.READ, unrestricted=page.unrestricted)


def _arguments(
    page: Page, match: re.Match[str], convertors: Mapping[str, Convertor[Any]], query: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    given = {name: convertors[name].convert(text) for name, text in match.groupdict().items()}
    arguments = convert_path(page.path_params, given)
    if page.query is not None:
        arguments["query"] = convert_fields(page.query, query, "query")
    return arguments


def _pattern(path: str) -> tuple[re.Pattern[str], Mapping[str, Convertor[Any]]]:
    pattern, _, convertors = compile_path(path)
    return pattern, convertors


def route_path(scope: HttpScope) -> str:
    """Return the path below that of the dashboard, which may be a mount, or cut off by a proxy. Empty at a mount."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path[len(root) :] if root and (path == root or path.startswith(f"{root}/")) else path


def place_of(request: Request) -> Place:
    """Return the address of a request below the dashboard's own."""
    scope = request.scope
    raw = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0].decode("latin-1")
    root = scope.get("root_path", "")
    inside = raw[len(root) :] if root and raw.startswith(root) else raw
    return Place(path=route_path(scope) or "/", query=request.url.query, depth=max(1, inside.count("/")))


def looks_of(cookies: Mapping[str, str]) -> Looks:
    """Return how a person wants pages to look. Values that nobody could choose are ignored."""
    zone, theme = cookies.get(ZONE, ""), cookies.get(THEME, "auto")
    return Looks(zone=zone if is_zone(zone) else "", theme=theme if theme in THEMES else "auto")


def is_zone(name: str) -> bool:
    """Return True if a time zone of this name is known."""
    try:
        ZoneInfo(name)
    except (ValueError, KeyError, OSError):  # Names outside of the database, unknown names, names of folders.
        return False
    return True
