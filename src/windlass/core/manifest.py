"""What an app has to offer, as its nodes publish it: its handlers, and the times at which it wants them run.

Server, CLI and `why` read it from the store, so none of them imports the app. Schemas and arguments are JSON text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from windlass.core.names import check_name, check_text
from windlass.core.retry import storable
from windlass.core.task import NewTask
from windlass.core.times import Micros


class HandlerInfo(Struct, frozen=True, kw_only=True):
    """One handler."""

    name: str
    is_async: bool = False
    queue: str = "default"
    """Where its tasks go unless their caller says otherwise."""
    parameters: str = ""
    """The JSON schema of its arguments."""
    returns: str = ""
    """The JSON schema of its result."""
    doc: str = ""
    template: str = "{}"
    """The `NewTask` from which its tasks are made, as JSON: the handler's own options, without arguments."""

    def new_task(self, args: Mapping[str, Any], fields: Mapping[str, Any] | None = None) -> NewTask:
        """A task of this handler, with its options, and `fields` of the caller's on top."""
        template = msgspec.json.decode(self.template, type=NewTask)
        return replace(template, **{"handler": self.name, "args": args, "queue": self.queue, **(fields or {})})


class HandlerSeen(HandlerInfo, frozen=True, kw_only=True):
    """A handler, and when somebody published it last. One that no node has any more stays, and grows old."""

    seen: Micros


class CronInfo(Struct, frozen=True, kw_only=True):
    """One schedule."""

    name: str
    handler: str
    schedule: str
    timezone: str = "UTC"
    misfire: str = "last"
    """What becomes of the times that passed while no node was there."""
    args: str = "{}"


class CronState(Struct, frozen=True, kw_only=True):
    """A schedule as the store knows it."""

    info: CronInfo
    fired: Micros | None = None
    """The latest nominal time for which it has been fired, or passed over."""
    paused: bool = False
    paused_by: str | None = None
    paused_why: str | None = None


class Manifest(Struct, frozen=True, kw_only=True):
    """All of it."""

    handlers: tuple[HandlerInfo, ...] = ()
    crons: tuple[CronInfo, ...] = ()

    def checked(self) -> Manifest:
        """The same as a store keeps it: in the order of the names, each once, in text that any database can hold."""
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
    """Of two with one name the later one counts."""
    last = {one.name: one for one in named}
    return tuple(_storable(last[name]) for name in sorted(last))


def _storable(one: Named) -> Named:
    texts = {field: storable(value) for field, value in asdict(one).items() if isinstance(value, str)}
    return replace(one, **texts)
