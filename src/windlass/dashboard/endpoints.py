"""Serves the dashboard: sessions, pages, actions, live updates. Errors are pages too, for browsers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.clock import entropy
from windlass.dashboard.live import CLOSED, UNAUTHORIZED, LiveViews
from windlass.dashboard.page import Action, Goto, Shown
from windlass.dashboard.rendering import context_of, render_page
from windlass.dashboard.sessions import LASTS, Session
from windlass.dashboard.site import FLASH, THEME, ZONE, Found, Site, is_zone, looks_of, place_of, route_path
from windlass.dashboard.visit import THEMES, Place, Visit
from windlass.errors import Refused, StoreError, WindlassError
from windlass.operations import undo
from windlass.operations.caller import Scope as TokenScope
from windlass.server.http.error_page import prefers_html
from windlass.server.http.event_stream import EVENT_STREAM
from windlass.server.http.parameters import convert_fields, parse_path
from windlass.server.http.request_body import read_form
from windlass.server.http.streaming import StreamedResponse
from windlass.wire.problems import problem_of

logger = logging.getLogger("windlass.server")

_DEPTHS = [str(depth) for depth in range(1, 10)]
YEAR = 365 * 86_400
AGAIN = "#again"
"""Ends the address of a page to which a person comes back from a form that was refused (`static/again.js`)."""
HEADERS: Mapping[str, str] = {
    # Nothing loads or runs but what this server serves as a file: no inline script, no inline style.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    # Under the server's own no-referrer, browsers send forms with `Origin: null`, which is refused.
    "Referrer-Policy": "same-origin",
    "Vary": "Cookie",
}


class Flash(Struct, frozen=True):
    """A message about an action, shown once on the next page."""

    text: str
    failed: bool = False
    undo: list[int] = []
    """The audit entries of the action that can be undone."""


class LoginPage(Struct, frozen=True, kw_only=True):
    """What the login page shows."""

    next: str
    problem: str = ""
    has_tokens: bool


class Endpoints:
    """The ASGI endpoints of one dashboard."""

    def __init__(self, site: Site) -> None:
        self._site, self._service, self._live = site, site.service, LiveViews(site)

    async def show(self, request: Request) -> Response:
        """Show a page."""
        place = place_of(request)
        session = await self._session(request)
        if session is None:
            return self._ask_to_log_in(request, place)
        found = self._site.find(place.path, request.query_params.multi_items())
        self._site.check_page(session.caller, found.page)
        flash = await self._flash(request)
        with self._service.concurrency.running(session.caller):
            self._service.rate_limiter.take(session.caller)
            html = await self._service.lanes.reads.run(
                lambda: self._render(request, session, place, found, flash), reads=True
            )
        response = self._html(html, session)
        self._set_session(request, response, session)
        if flash is not None:
            self._set_cookie(request, response, FLASH, "", 0)
        return response

    def act(self, action: Action) -> Callable[[Request], Any]:
        """Return the endpoint of an action."""

        async def endpoint(request: Request) -> Response:
            session = await self._session(request)
            if session is None:
                raise Refused("unauthorized", "Your session has ended. Log in again.")
            fields = await self._form(request, session)
            self._service.auth.authorize(session.caller, action.scope, unrestricted=action.unrestricted)
            visit = self._site.visit(session.caller, place_of(request), looks_of(request.cookies))
            arguments = parse_path(action.path_params, request)
            if action.form is not None:
                arguments["form"] = convert_fields(action.form, fields, "form")
            with self._service.concurrency.running(session.caller):
                self._service.rate_limiter.take(session.caller)
                goto, undoable = await self._service.lanes.operators.run(lambda: _act(action, visit, arguments))
            if isinstance(goto, Shown):
                visit.place = replace(visit.place, path=goto.parent, query="")
                # No live updates: a stream that ends may reload the page, and what it shows cannot be shown again.
                shown = {"title": goto.title, "session": session, "flash": None, "live": False}
                context = context_of(visit, goto.page, self._site, **shown)
                return self._html(render_page(goto.template, context), session)
            back = None if goto.back is None else _up(visit.place) + _local(goto.back)
            response = _redirect(visit.url(goto.path, **goto.params) if back is None else back)
            if goto.text:
                text = msgspec.json.encode(Flash(goto.text, goto.failed, undoable)).decode()
                self._set_cookie(request, response, FLASH, quote(self._site.sessions.sign(text)), 60)
            return response

        return endpoint

    async def live(self, request: Request) -> Response:
        """Stream the changes of a page, which the parameter `page` names as the browser sees it."""
        session = await self._session(request)
        if session is None:
            raise Refused("unauthorized", "Your session has ended. Log in again.")
        address = request.query_params.get("page", "")
        path, _, query = address.partition("?")
        found = self._site.find(f"/{path}", parse_qsl(query, keep_blank_values=True))
        self._site.check_page(session.caller, found.page)
        depth = request.query_params.get("depth", "")
        place = Place(path=f"/{path}", query=query, depth=int(depth) if depth in _DEPTHS else 1)

        async def check() -> str:
            try:
                now = await self._session(request, session.cookie)
            except StoreError:
                return ""
            # A stream cannot set a cookie once it has begun, so the browser opens another one.
            return UNAUTHORIZED if now is None else CLOSED if now.renew else ""

        parts = self._live.follow(session.caller, place, looks_of(request.cookies), found, session.csrf, check)
        response = await StreamedResponse.start(request, parts, bytes, EVENT_STREAM)
        self._set_session(request, response, session)
        return _Counted(response, lambda: self._service.concurrency.running(session.caller))

    async def log_in_form(self, request: Request) -> Response:
        """Show the login page."""
        session = await self._session(request)
        next = request.query_params.get("next", "")
        if session is not None:
            return _redirect(_up(place_of(request)) + _local(next))
        return self._login_page(request, next)

    async def log_in(self, request: Request) -> Response:
        """Start a session for who sends a valid token."""
        await self._ready()
        with self._service.bodies.request() as held:
            fields = dict(await read_form(request, self._service.settings.request_seconds, held))
        next, secret = fields.get("next", ""), fields.get("token", "").strip()
        session = self._site.sessions.log_in(secret, self._service.clock.now()) if secret else None
        if session is None:
            return self._login_page(request, next, "This is not a valid token. It may have expired or been revoked.")
        if not session.caller.may(TokenScope.READ):
            return self._login_page(request, next, f"Token {session.caller.name} lacks the scope read.")
        response = _redirect(_up(place_of(request)) + _local(next))
        self._set_session(request, response, session)
        return response

    async def log_out(self, request: Request) -> Response:
        """End the session of this browser."""
        session = await self._session(request)
        if session is not None:
            await self._form(request, session)
        response = _redirect(_up(place_of(request)) + "login")
        self._set_cookie(request, response, self._site.sessions.cookie_name, "", 0)
        return response

    async def prefer(self, request: Request) -> Response:
        """Set the time zone and the theme of this browser."""
        session = await self._session(request)
        if session is None:
            raise Refused("unauthorized", "Your session has ended. Log in again.")
        fields = dict(await self._form(request, session))
        response = _redirect(_up(place_of(request)) + _local(fields.get("back", "")))
        zone, theme = fields.get("zone"), fields.get("theme")
        if zone is not None and (zone == "" or is_zone(zone)):
            self._set_cookie(request, response, ZONE, zone, YEAR)
        if theme in THEMES:
            self._set_cookie(request, response, THEME, theme, YEAR)
        return response

    def _render(self, request: Request, session: Session, place: Place, found: Found, flash: Flash | None) -> str:
        visit = self._site.visit(session.caller, place, looks_of(request.cookies))
        content = found.page.function(visit, **found.arguments)
        shown = {"title": found.page.title, "session": session, "flash": flash, "live": True}
        context = context_of(visit, content, self._site, **shown)
        return render_page(found.page.template, context)

    def _html(self, html: str, session: Session | None = None, status: int = 200) -> HTMLResponse:
        if session is not None:
            html = html.replace(self._site.csrf_mark, session.csrf)
        return HTMLResponse(html, status_code=status, headers=dict(HEADERS))

    def _login_page(self, request: Request, next: str, problem: str = "") -> Response:
        place = place_of(request)
        page = LoginPage(next=_local(next), problem=problem, has_tokens=not self._service.auth.keyring.is_open)
        context = {"page": page, "root": _up(place), "looks": looks_of(request.cookies), "site": self._site}
        return self._html(render_page("login.html", context), status=403 if problem else 200)

    def _ask_to_log_in(self, request: Request, place: Place) -> Response:
        """Send a person to the login page.

        Browsers do not send the cookie when a person follows a link from another site. Such a visit is repeated once
        from here, and then it is sent.
        """
        if request.headers.get("sec-fetch-site") == "cross-site":
            return self._html(render_page("again.html", {}))
        return _redirect(_up(place) + f"login?next={quote(place.back)}")

    def error(self, request: Request, error: Exception) -> Response:
        """Show an error as a page. One that nobody expected is logged under an id, as the API does it."""
        id = ""
        if not isinstance(error, WindlassError) or isinstance(error, StoreError):
            id = f"{entropy(1)():016x}"
            level = logging.WARNING if isinstance(error, StoreError) else logging.ERROR
            logger.log(level, "page failed, id %s", id, exc_info=error)
        problem = problem_of(error, id=id)
        context = {"problem": problem, "root": _up(place_of(request)), "looks": looks_of(request.cookies)}
        context |= {"site": self._site, "back": _came_from(request)}
        response = self._html(render_page("error.html", context), status=problem.status)
        if isinstance(error, Refused):
            response.headers.update(error.headers)
        return response

    async def _ready(self) -> None:
        await self._service.auth.refresh()
        if not self._service.cursor_key.is_read:
            await self._service.lanes.operators.run(self._service.cursor_key.get)

    async def _session(self, request: Request, cookie: str = "") -> Session | None:
        """Return the session of a request: that of its cookie, unless another one is given."""
        await self._ready()
        sessions, now = self._site.sessions, self._service.clock.now()
        cookie = cookie or request.cookies.get(sessions.cookie_name, "")
        if self._site.user is None:
            return sessions.find(cookie, now)
        name = self._site.user(request.scope)
        if not name:
            raise Refused("forbidden", "You may not use this dashboard.")
        return sessions.find_person(name, cookie, now)

    async def _form(self, request: Request, session: Session) -> Sequence[tuple[str, str]]:
        """Read a form and check that it comes from a page of this session."""
        with self._service.bodies.request() as held:
            fields = await read_form(request, self._service.settings.request_seconds, held)
        given = next((value for name, value in fields if name == "csrf"), "")
        if not session.matches(given):
            raise Refused("forbidden", "This form is too old, or not from this page. Reload the page and try again.")
        return [(name, value) for name, value in fields if name != "csrf"]

    async def _flash(self, request: Request) -> Flash | None:
        given = request.cookies.get(FLASH)
        text = None if not given else self._site.sessions.verify(unquote(given))
        return None if text is None else msgspec.json.decode(text, type=Flash)

    def _set_session(self, request: Request, response: Response, session: Session) -> None:
        if session.renew:
            self._set_cookie(request, response, self._site.sessions.cookie_name, session.cookie, LASTS // 1_000_000)

    def _set_cookie(self, request: Request, response: Response, name: str, value: str, seconds: int) -> None:
        secure = self._site.settings.behind_proxy or request.url.scheme == "https"
        path = request.scope.get("root_path", "") or "/"
        response.set_cookie(name, value, max_age=seconds, path=path, secure=secure, httponly=True, samesite="strict")


class NotFound:
    """Refuses a path that nothing serves, whatever the method. The dashboard's own path gets its slash."""

    def __init__(self, root_path: str, hint: str = "") -> None:
        self._root_path, self._hint = root_path, hint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        own = route_path(scope) == "" or (self._root_path and scope["path"] == self._root_path)
        if not own:
            raise Refused("not_found", f"No such page. {self._hint}".strip())
        await _redirect(scope["path"].rpartition("/")[2] + "/")(scope, receive, send)


class ErrorPages:
    """Turns the errors of an ASGI app into pages, for those who prefer HTML. Others get them from the server."""

    def __init__(self, app: ASGIApp, endpoints: Endpoints) -> None:
        self._app, self._endpoints = app, endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watch(message: Any) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except Exception as error:
            request = Request(scope, receive)
            if started or not prefers_html(request.headers.get("accept", "")):
                raise
            await self._endpoints.error(request, error)(scope, receive, send)


class _Counted(Response):
    """A response that counts as a running request of its caller until it ends."""

    def __init__(self, inner: Response, running: Callable[[], Any]) -> None:
        super().__init__()
        self._inner, self._running = inner, running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._running():
            await self._inner(scope, receive, send)


def _act(action: Action, visit: Visit, arguments: Mapping[str, Any]) -> tuple[Goto | Shown, list[int]]:
    """Run an action. Return where it leads, and the numbers of its audit entries that can be undone."""
    goto: Goto | Shown = action.function(visit, **arguments)
    return goto, undo.find_new(visit.access, visit.author().action_id)


def _came_from(request: Request) -> str:
    """Return the address of the page from which a request comes, if it is one of this server; else nothing.

    For a form it ends with a mark, which lets the page fill in again what was typed.
    """
    try:
        found = urlsplit(request.headers.get("referer", ""))
    except ValueError:
        return ""
    is_own = found.netloc == request.headers.get("host", "") and found.path.startswith("/")
    is_form = request.method == "POST"
    if not is_own or found.path.startswith(("//", "/\\")) or (found.path == request.url.path and not is_form):
        return ""
    return found.path + (f"?{found.query}" if found.query else "") + (AGAIN if is_form else "")


def _redirect(address: str) -> Response:
    return Response(status_code=303, headers={**HEADERS, "Location": address or "./"})


def _up(place: Place) -> str:
    """Return the relative address of the dashboard itself."""
    return "../" * (place.depth - 1) or "./"


def _local(address: str) -> str:
    """Return the address of a page below the dashboard's own; nothing for one that leads elsewhere."""
    leads_elsewhere = address.startswith(("/", "\\", ".")) or ":" in address.partition("?")[0].partition("/")[0]
    return "" if leads_elsewhere or any(ord(each) < 33 for each in address) else quote(address, safe="/?&=:@,%+-._~")
