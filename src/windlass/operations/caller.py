"""Who asks, and what they may do. Pure."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from windlass.core.task import Task


class Scope(StrEnum):
    """What a token allows. Whoever may operate may read; an admin may do all of it."""

    SUBMIT = "submit"
    READ = "read"
    OPERATE = "operate"
    WORK = "work"
    """Running tasks: sessions, claims, and the ends of attempts."""
    ADMIN = "admin"


_INCLUDED = {
    Scope.SUBMIT: {Scope.SUBMIT},
    Scope.READ: {Scope.READ},
    Scope.OPERATE: {Scope.OPERATE, Scope.READ},
    Scope.WORK: {Scope.WORK},
    Scope.ADMIN: set(Scope),
}


class Caller(Struct, frozen=True, kw_only=True):
    """Somebody who asks: by a token, or from this machine while there is none."""

    name: str
    scopes: frozenset[Scope]
    tenant: str | None = None
    """The only tenant whose tasks they see; None for all."""
    queue: str | None = None
    """The only queue whose tasks they see; None for all."""
    rate: float | None = None
    """How many requests a second they may make; None for the server's own limit."""

    def may(self, scope: Scope) -> bool:
        """Whether they may do this at all."""
        return any(scope in _INCLUDED[held] for held in self.scopes)

    @property
    def limited(self) -> bool:
        """Whether they see a part of the tasks only."""
        return self.tenant is not None or self.queue is not None

    def can_see(self, task: Task) -> bool:
        """Whether this task exists for them."""
        return self.tenant in (None, task.tenant) and self.queue in (None, task.queue)


LOCAL = Caller(name="local", scopes=frozenset({Scope.ADMIN}))
"""Whoever can reach a server that listens on this machine only, while there are no tokens."""

ANYONE = Caller(name="anyone", scopes=frozenset())
"""Whoever asks for what is open to all."""
