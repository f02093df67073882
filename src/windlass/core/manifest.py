"""The manifest of an app, as its nodes publish it: its handlers and its crons.

Server, CLI and `why` read it from the store, so they do not import the app. Schemas and arguments are JSON text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from windlass.core.limit_keys import fill_key
from windlass.core.names import check_name, check_text
from windlass.core.retry import storable
from windlass.core.task import NewTask
from windlass.core.times import Micros, to_datetime


class HandlerInfo(Struct, frozen=True, kw_only=True):
    """A handler."""

    name: str
    is_async: bool = False
    queue: str = "default"
    """The default queue of its tasks."""
    parameters: str = ""
    """The JSON schema of its arguments."""
    returns: str = ""
    """The JSON schema of its result."""
    doc: str = ""
    template: str = "{}"
    """The handler's options as the JSON of a `NewTask` without arguments."""

    def new_task(self, args: Mapping[str, Any], fields: Mapping[str, Any] | None = None) -> NewTask:
        """Return a task of this handler with the handler's options, overridden by `fields`.

        The arguments are filled into the key of its limit.
        """
        new = replace(
            self.new_task_template(), **{"handler": self.name, "args": args, "queue": self.queue, **(fields or {})}
        )
        return fill_key(new)

    def new_task_template(self) -> NewTask:
        """Return the handler's options as a task without arguments."""
        return msgspec.json.decode(self.template, type=NewTask)


class HandlerSeen(HandlerInfo, frozen=True, kw_only=True):
    """A handler and when it was last published. Handlers that no node has any more are kept."""

    seen: Micros


class CronInfo(Struct, frozen=True, kw_only=True):
    """A cron: a handler that is run on a schedule."""

    name: str
    handler: str
    schedule: str
    timezone: str = "UTC"
    misfire: str = "last"
    """What to do about times that passed while no node was running."""
    args: str = "{}"
    queue: str | None = None
    """The queue of its tasks; None for that of the handler. This and what follows are only set at run time."""
    tenant: str | None = None
    priority: int | None = None
    start: Micros | None = None
    """Its first possible time, and the anchor of an interval."""
    end: Micros | None = None
    """Its last possible time."""

    def task_fields(self) -> dict[str, Any]:
        """Return the fields of its tasks that differ from those of the handler."""
        fields = {"queue": self.queue, "tenant": self.tenant, "priority": self.priority}
        return {name: value for name, value in fields.items() if value is not None}


class CronState(Struct, frozen=True, kw_only=True):
    """A stored cron."""

    info: CronInfo
    fired: Micros | None = None
    """The latest nominal time for which it has fired or was skipped."""
    paused: bool = False
    paused_by: str | None = None
    paused_why: str | None = None
    at_run_time: bool = False
    """Whether it was created at run time, not in the code of an app."""
    version: int = 0
    """Grows with every change. A cron that is created again never has a version that it had before."""
    due: Micros | None = None
    """Of a cron created at run time: when it fires next, unless it is paused; None if never."""


class DueCrons(Struct, frozen=True, kw_only=True):
    """The crons that may have to fire, and when that is."""

    now: Micros
    """By the store's clock: the clocks of nodes may be wrong, and would fire crons early or late."""
    crons: list[CronState]


def cron_key(name: str, nominal: Micros) -> str:
    """Return the key of the task that a cron submits for one of its times."""
    return f"cron:{name}:{to_datetime(nominal).isoformat()}"


class Manifest(Struct, frozen=True, kw_only=True):
    """The handlers and crons of an app."""

    handlers: tuple[HandlerInfo, ...] = ()
    crons: tuple[CronInfo, ...] = ()

    def checked(self) -> Manifest:
        """Return the manifest as a store keeps it: sorted by name, without duplicates, in text that can be stored."""
        for handler in self.handlers:
            check_name("handler", handler.name)
            check_name("queue", handler.queue)
        for cron in self.crons:
            check_text("cron", cron.name)
            check_name("handler", cron.handler)
            check_text("schedule", cron.schedule)
            check_text("timezone", cron.timezone)
            check_name("misfire", cron.misfire)
        return Manifest(handlers=_by_name(self.handlers), crons=_by_name(self.crons))


Named = TypeVar("Named", HandlerInfo, CronInfo)


def _by_name(named: Iterable[Named]) -> tuple[Named, ...]:
    """Sort by name. Of two with the same name, keep the later one."""
    last = {one.name: one for one in named}
    return tuple(_storable(last[name]) for name in sorted(last))


def _storable(one: Named) -> Named:
    texts = {field: storable(value) for field, value in asdict(one).items() if isinstance(value, str)}
    return replace(one, **texts)
