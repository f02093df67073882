"""The dashboard as routes next to the API of a server, and as an ASGI app of its own inside another program."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.routing import BaseRoute, Mount, Route, Router

from windlass.clock import Clock
from windlass.dashboard.endpoints import Endpoints, ErrorPages, NotFound
from windlass.dashboard.site import Site
from windlass.dashboard.static_files import serve_file
from windlass.server.http.security_middleware import SecurityMiddleware
from windlass.server.http.service import Service
from windlass.server.settings import ServerSettings
from windlass.stores.protocol import Store


def dashboard_routes(service: Service) -> Sequence[BaseRoute]:
    """Return the routes of the dashboard of a server. They take every path that nothing else serves."""
    site = Site(service)
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
        Route("/{path:path}", NotFound(service.settings.root_path)),
    ]
    return [Mount("/", ErrorPages(Router(routes, redirect_slashes=False), endpoints))]


def create_dashboard(store: Store, settings: ServerSettings, clock: Clock | None = None) -> SecurityMiddleware:
    """Return the dashboard of a store as an ASGI app, without the HTTP API. It can be mounted under any path."""
    service = Service(store, settings, clock)
    router = Router(dashboard_routes(service), redirect_slashes=False, default=NotFound(""))
    return SecurityMiddleware(router, settings, service.end_streams)
