"""The dashboard as routes next to the API of a server, and as an ASGI app of its own inside another program."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.types import Receive, Scope, Send

from windlass.client.app import App
from windlass.clock import Clock
from windlass.dashboard.endpoints import Endpoints, ErrorPages, NotFound
from windlass.dashboard.site import FindUser, Site
from windlass.dashboard.static_files import serve_file
from windlass.server.http.security_middleware import SecurityMiddleware
from windlass.server.http.service import Service
from windlass.server.settings import ServerSettings
from windlass.store_choice import short_name
from windlass.stores.protocol import Store

ANYWHERE = "0.0.0.0"
"""The program around the dashboard may listen anywhere, so nobody is let in for being on this machine."""
STREAM_SECONDS = 30.0
API_HINT = "The paths of the HTTP API are in /api/v1/openapi.json."


def dashboard_routes(service: Service) -> Sequence[BaseRoute]:
    """Return the routes of the dashboard of a server. They take every path that nothing else serves."""
    return _routes(Site(service))


def _routes(site: Site) -> Sequence[BaseRoute]:
    endpoints = Endpoints(site)
    routes = [
        Route("/static/{version}/{name}", serve_file, methods=["GET"]),
        Route("/login", endpoints.log_in_form, methods=["GET"]),
        Route("/login", endpoints.log_in, methods=["POST"]),
        Route("/logout", endpoints.log_out, methods=["POST"]),
        Route("/preferences", endpoints.prefer, methods=["POST"]),
        Route("/live", endpoints.live, methods=["GET"]),
        *(Route(action.path, endpoints.act(action), methods=["POST"]) for action in site.actions),
        *(Route(page.path, endpoints.show, methods=["GET"]) for page in site.pages),
        Route("/{path:path}", NotFound(site.settings.root_path, "" if site.is_embedded else API_HINT)),
    ]
    return [Mount("/", ErrorPages(Router(routes, redirect_slashes=False), endpoints))]


class EmbeddedDashboard:
    """The dashboard of an app as an ASGI app inside another program. It opens the store with the first request."""

    def __init__(self, app: App, *, user: FindUser | None, read_only: bool, clock: Clock | None = None) -> None:
        self._app, self._user, self._clock = app, user, clock
        self._settings = ServerSettings(host=ANYWHERE, any_host=True, read_only=read_only)
        self._served: tuple[Store, SecurityMiddleware] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "lifespan":
            await Router()(scope, receive, send)
            return
        store = await asyncio.to_thread(lambda: self._app.store)
        if self._served is None or self._served[0] is not store:
            self._served = store, self._create(store)
        await self._served[1](scope, receive, send)

    def _create(self, store: Store) -> SecurityMiddleware:
        settings = replace(self._settings, store_name=_store_name(self._app))
        service = Service(store, settings, self._clock)
        # The program around it cannot end streams when it stops, so they end by themselves and are opened again.
        site = Site(service, self._user, STREAM_SECONDS)
        router = Router(_routes(site), redirect_slashes=False, default=NotFound(""))
        return SecurityMiddleware(router, settings, service.end_streams)


def _store_name(app: App) -> str:
    url = app.app_store.own_url
    return "store" if url is None else short_name(url)
