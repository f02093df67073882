"""Callers and what they may do."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from windlass.core.task import Task


class Scope(StrEnum):
    """What a token allows. OPERATE includes READ; ADMIN includes everything."""

    SUBMIT = "submit"
    READ = "read"
    OPERATE = "operate"
    WORK = "work"
    """Run tasks: open sessions, claim, settle attempts, publish handlers."""
    ADMIN = "admin"


_INCLUDED = {
    Scope.SUBMIT: {Scope.SUBMIT},
    Scope.READ: {Scope.READ},
    Scope.OPERATE: {Scope.OPERATE, Scope.READ},
    Scope.WORK: {Scope.WORK},
    Scope.ADMIN: set(Scope),
}


class Caller(Struct, frozen=True, kw_only=True):
    """A token's owner, or anybody on this machine while there are no tokens."""

    name: str
    scopes: frozenset[Scope]
    tenant: str | None = None
    """The only tenant whose tasks the caller may see; None for all."""
    queue: str | None = None
    """The only queue whose tasks the caller may see; None for all."""
    rate: float | None = None
    """Requests per second; None for the server's own limit."""

    def may(self, scope: Scope) -> bool:
        """Return True if one of the scopes allows this."""
        return any(scope in _INCLUDED[held] for held in self.scopes)

    @property
    def limited(self) -> bool:
        """Return True if the caller may see only one tenant or queue."""
        return self.tenant is not None or self.queue is not None

    def can_see(self, task: Task) -> bool:
        """Return True if the caller may see this task."""
        return self.tenant in (None, task.tenant) and self.queue in (None, task.queue)


LOCAL = Caller(name="local", scopes=frozenset({Scope.ADMIN}))
"""The command line, and anybody on this machine while a local server has no tokens."""

ANYONE = Caller(name="anyone", scopes=frozenset())
"""The caller of a route that needs no token."""
