"""A visit: who looks at which page, and how they want times to be shown. Pages and templates get it as `visit`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo

from msgspec import Struct

from windlass.core.fairness import SetBy
from windlass.core.times import Micros
from windlass.operations import queues, tenants
from windlass.operations.access import Access
from windlass.operations.author import Author, make_action_id
from windlass.operations.caller import Caller, Scope
from windlass.operations.presentation import Times
from windlass.operations.queues import PausedQueue
from windlass.server.background import BackgroundThreads

THEMES = ("auto", "light", "dark")


class Looks(Struct, frozen=True, kw_only=True):
    """How a person wants pages to look."""

    zone: str = ""
    """The name of a time zone; empty for that of the server."""
    theme: str = "auto"


class Place(Struct, frozen=True, kw_only=True):
    """The address of a page below the dashboard's own."""

    path: str
    """As in `/tasks`."""
    query: str = ""
    depth: int = 1
    """How many slashes the path has, as the browser sees it."""

    @property
    def back(self) -> str:
        """Return the address to come back to, without the first slash."""
        return self.path.removeprefix("/") + (f"?{self.query}" if self.query else "")


class Visit:
    """One look at one page."""

    def __init__(
        self,
        access: Access,
        place: Place,
        looks: Looks,
        background: BackgroundThreads,
        *,
        read_only: bool,
        csrf: str = "",
    ) -> None:
        self.access, self.place, self.looks = access, place, looks
        self.background = background
        """Threads for what takes longer than a request."""
        self.csrf = csrf
        """Stands for the token that forms send back."""
        self.now: Micros = access.now
        self._read_only = read_only
        self._action_id = make_action_id()

    @property
    def caller(self) -> Caller:
        """Return who looks."""
        return self.access.caller

    @property
    def can_operate(self) -> bool:
        """Return True if this person may change things. Without it, pages have no buttons."""
        return self.may(Scope.OPERATE)

    def may(self, scope: Scope) -> bool:
        """Return True if this person has a scope, and the server is not read-only."""
        return self.caller.may(scope) and (scope is Scope.READ or not self._read_only)

    @cached_property
    def times(self) -> Times:
        """Return how to format times."""
        return Times(now=self.now, zone=ZoneInfo(self.looks.zone) if self.looks.zone else None)

    @cached_property
    def paused_queues(self) -> Sequence[PausedQueue]:
        """Return the paused queues, for the banner of every page."""
        return queues.get_paused(self.access)

    @cached_property
    def paused_tenants(self) -> Mapping[str, SetBy]:
        """Return the paused tenants, for the banner of every page. Callers with limits do not see them."""
        return {} if self.caller.limited else tenants.get_paused(self.access)

    def author(self, why: str = "") -> Author:
        """Return the author of a change that this person makes."""
        return Author(self.caller.name, why.strip(), action_id=self._action_id)

    def url(self, path: str = "", /, **params: Any) -> str:
        """Return the relative address of a page. It is right under any prefix, known or unknown.

        >>> visit.url("tasks", q="state:failed")
        'tasks?q=state%3Afailed'
        """
        given = [(name, value) for name, value in params.items() if value not in (None, "")]
        address = "../" * (self.place.depth - 1) + quote(path, safe="/:@,")
        return (address or "./") + (f"?{urlencode(given, doseq=True)}" if given else "")
