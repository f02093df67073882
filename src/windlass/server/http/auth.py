"""Authentication and authorization: which caller sends a request, and whether a route admits that caller."""

from __future__ import annotations

import hmac

from starlette.requests import Request

from windlass.errors import Refused, StoreError
from windlass.operations.caller import ANYONE, LOCAL, Caller, Scope
from windlass.operations.tokens import Keyring
from windlass.server.http.routing import Route
from windlass.server.http.store_executor import StoreExecutor
from windlass.server.settings import ServerSettings


class Authenticator:
    """Identifies callers by their bearer token."""

    def __init__(self, keyring: Keyring, settings: ServerSettings, threads: StoreExecutor) -> None:
        self._keyring, self._settings, self._threads = keyring, settings, threads

    async def admit(self, request: Request, route: Route) -> Caller:
        """Return the caller of a request, or refuse it. Public routes need no token."""
        if route.scope is None:
            return ANYONE
        try:
            await self._refresh()
        except StoreError:
            # A route that shows nothing of the store may use old tokens: it can only say that the store is away.
            if not route.without_store or self._keyring.is_unread:
                raise
        caller = self._authenticate(request)
        self._authorize(caller, route, route.scope)
        return caller

    async def _refresh(self) -> None:
        if not self._keyring.is_fresh:
            await self._threads.run(self._keyring.read)

    def _authenticate(self, request: Request) -> Caller:
        """Identify the caller. Without any token in the store, local requests to a local server act as admin.

        If the server has a secret of its own, they must send it: `windlass up` runs handlers on the same machine.
        """
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and secret:
            given = secret.strip()
            caller = self._keyring.find_caller(given) or (self._find_local(given) if self._settings.secret else None)
        else:
            caller = None if kind else self._find_local("")
        if caller is None:
            raise Refused(
                "unauthorized",
                "Send a valid bearer token in the Authorization header. Create one with `windlass token create`.",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return caller

    def _find_local(self, secret: str) -> Caller | None:
        """Return the caller of a request from this machine, while there are no tokens. It must know the secret."""
        known = hmac.compare_digest(secret.encode(errors="replace"), self._settings.secret.encode())
        return LOCAL if known and self._keyring.is_open and self._settings.is_local else None

    def _authorize(self, caller: Caller, route: Route, scope: Scope) -> None:
        if self._settings.read_only and scope is not Scope.READ:
            raise Refused("read_only", "This server is read-only.")
        if not caller.may(scope):
            raise Refused("forbidden", f"This route needs the scope {scope}, which token {caller.name!r} lacks.")
        if route.unrestricted and caller.limited:
            raise Refused(
                "forbidden",
                f"This route covers all tenants and queues; token {caller.name!r} is limited to one of them.",
            )
