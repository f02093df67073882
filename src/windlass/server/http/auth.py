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
        self.keyring, self.settings, self._threads = keyring, settings, threads

    async def admit(self, request: Request, route: Route) -> Caller:
        """Return the caller of a request, or refuse it. Public routes need no token."""
        if route.scope is None:
            return ANYONE
        try:
            await self.refresh()
        except StoreError:
            # A route that shows nothing of the store may use old tokens: it can only say that the store is away.
            if not route.without_store or self.keyring.is_unread:
                raise
        caller = self._authenticate(request)
        self.authorize(caller, route.scope, unrestricted=route.unrestricted)
        return caller

    async def refresh(self) -> None:
        """Read the tokens again if the copy is too old."""
        if not self.keyring.is_fresh:
            await self._threads.run(self.keyring.read)

    def identify(self, secret: str) -> Caller | None:
        """Return the caller who knows a secret: that of a token, or that of a local server while there are no tokens.

        Without a secret, that is anybody on this machine while a local server has neither tokens nor a secret.
        """
        found = self.keyring.find_caller(secret) if secret else None
        if found is None and bool(secret) == bool(self.settings.secret):
            found = self._find_local(secret)
        return found

    def authorize(self, caller: Caller, scope: Scope, *, unrestricted: bool = False) -> None:
        """Refuse a caller without this scope, and one with limits if `unrestricted`. A read-only server only reads."""
        if self.settings.read_only and scope is not Scope.READ:
            raise Refused("read_only", "This server is read-only.")
        if not caller.may(scope):
            raise Refused("forbidden", f"This needs the scope {scope}, which token {caller.name!r} lacks.")
        if unrestricted and caller.limited:
            raise Refused(
                "forbidden", f"This covers all tenants and queues; token {caller.name!r} is limited to one of them."
            )

    def _authenticate(self, request: Request) -> Caller:
        """Identify the caller. Without any token in the store, local requests to a local server act as admin.

        If the server has a secret of its own, they must send it: `windlass up` runs handlers on the same machine.
        """
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and secret.strip():
            caller = self.identify(secret.strip())
        else:
            caller = None if kind else self.identify("")
        if caller is None:
            raise Refused(
                "unauthorized",
                "Send a valid bearer token in the Authorization header. Create one with `windlass token create`.",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return caller

    def _find_local(self, secret: str) -> Caller | None:
        """Return the caller of a request from this machine, while there are no tokens. It must know the secret."""
        known = hmac.compare_digest(secret.encode(errors="replace"), self.settings.secret.encode())
        return LOCAL if known and self.keyring.is_open and self.settings.is_local else None
