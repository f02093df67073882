"""Crons that are created, changed and removed at run time: `app.schedules`.

`operations` does the work, as for HTTP and the command line. Each method has an async version with the prefix `a`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from windlass.client.async_bridge import in_thread
from windlass.client.handlers import Using
from windlass.client.options import Misfire, When
from windlass.core.manifest import HandlerSeen, Manifest
from windlass.core.names import check_type
from windlass.core.payload import json_object
from windlass.core.task import NewTask
from windlass.core.times import Micros, moment, to_datetime
from windlass.stores.protocol import Store

if TYPE_CHECKING:
    from windlass.operations.access import Access
    from windlass.operations.author import Author
    from windlass.operations.crons import CronView


class Schedule(Struct, frozen=True, kw_only=True):
    """A cron as `app.schedules` returns it: of an app's code, or created at run time."""

    name: str
    handler: str
    schedule: str
    tz: str
    args: Mapping[str, Any]
    """Without secrets."""
    misfire: str
    queue: str | None
    """None for that of the handler."""
    tenant: str | None
    priority: int | None
    start: datetime | None
    end: datetime | None
    paused: bool
    next: datetime | None
    """When it runs next; None while it is paused, or if no node fires it."""
    last: datetime | None
    """The latest time for which it fired or was skipped, or its creation."""
    problem: str | None
    """Why no node fires it, if it is not paused."""
    at_run_time: bool
    """Whether it was created at run time."""
    version: int
    """Grows with every change."""


ScheduleList: TypeAlias = list[Schedule]
"""What `list` returns; inside the class, that name is the method."""


class Schedules:
    """Create, change and remove crons at run time. Every live node that has the handler fires them.

    >>> app.schedules.create("report-42", "every 2h", report, args={"customer": 42})
    >>> app.schedules.update("report-42", schedule="@daily", tz="Europe/Berlin")
    >>> app.schedules.delete("report-42")

    A cron in the code of an app is listed too. It can be paused here, and is changed in the code.
    """

    def __init__(self, store: Callable[[], Store], manifest: Callable[[], Manifest]) -> None:
        self._store = store
        self._manifest = manifest

    def create(
        self,
        name: str,
        schedule: str,
        handler: Using[..., Any] | str,
        *,
        args: Mapping[str, Any] | None = None,
        tz: str = "UTC",
        misfire: Misfire = "last",
        queue: str | None = None,
        tenant: str | None = None,
        priority: int | None = None,
        start: When | None = None,
        end: When | None = None,
        paused: bool = False,
        replace: bool = False,
        by: str | None = None,
        why: str = "",
    ) -> Schedule:
        """Create a cron. Raise `CronExists` unless `replace` allows to change the one of this name.

        `schedule` is a cron expression in the zone `tz`, an alias such as "@daily", or an interval such as "every 90s",
        which counts from `start`, or else from 1970. `handler` is a handler of this app, or the name of a published
        one. `by` and `why` go to the audit log.
        """
        from windlass.operations.crons import NewCron, create

        new = NewCron(
            name=name,
            schedule=schedule,
            handler=_name_of(handler),
            args={} if args is None else self._encode(handler, args),
            timezone=tz,
            misfire=misfire,
            queue=queue,
            tenant=tenant,
            priority=priority,
            start=None if start is None else moment(start, "start"),
            end=None if end is None else moment(end, "end"),
            paused=paused,
        )
        return _schedule(create(self._access(), new, _author(by, why), replace=replace))

    def list(self) -> ScheduleList:
        """Return all crons by name: those of apps, and those created at run time."""
        from windlass.operations.crons import get_all

        return [_schedule(view) for view in get_all(self._access())]

    def get(self, name: str) -> Schedule:
        """Return one cron. Raise `UnknownCron` if there is none of this name."""
        from windlass.operations.crons import get

        return _schedule(get(self._access(), name))

    def update(
        self,
        name: str,
        *,
        schedule: str | UnsetType = UNSET,
        handler: Using[..., Any] | str | UnsetType = UNSET,
        args: Mapping[str, Any] | UnsetType = UNSET,
        tz: str | UnsetType = UNSET,
        misfire: Misfire | UnsetType = UNSET,
        queue: str | UnsetType | None = UNSET,
        tenant: str | UnsetType | None = UNSET,
        priority: int | UnsetType | None = UNSET,
        start: When | UnsetType | None = UNSET,
        end: When | UnsetType | None = UNSET,
        version: int | None = None,
        by: str | None = None,
        why: str = "",
    ) -> Schedule:
        """Change a cron that was created at run time. Omitted fields stay; `None` removes an optional one.

        `args` replaces all arguments. With `version`, raise `Conflict` if it has changed since it was read.
        """
        from windlass.operations.crons import change

        given = {
            "schedule": schedule,
            "handler": handler if isinstance(handler, UnsetType) else _name_of(handler),
            "args": args if isinstance(args, UnsetType) else self._encode(handler, args),
            "timezone": tz,
            "misfire": misfire,
            "queue": queue,
            "tenant": tenant,
            "priority": priority,
            "start": start if start is None or isinstance(start, UnsetType) else moment(start, "start"),
            "end": end if end is None or isinstance(end, UnsetType) else moment(end, "end"),
        }
        changes = {field: value for field, value in given.items() if not isinstance(value, UnsetType)}
        return _schedule(change(self._access(), name, changes, _author(by, why), expect=version))

    def delete(self, name: str, *, version: int | None = None, by: str | None = None, why: str = "") -> Schedule:
        """Remove a cron, and return what it was. When this returns, it does not fire any more."""
        from windlass.operations.crons import remove

        return _schedule(remove(self._access(), name, _author(by, why), expect=version))

    def pause(self, name: str, *, version: int | None = None, by: str | None = None, why: str = "") -> Schedule:
        """Stop firing a cron until it is resumed."""
        from windlass.operations.crons import pause

        return _schedule(pause(self._access(), name, _author(by, why), expect=version))

    def resume(self, name: str, *, version: int | None = None, by: str | None = None, why: str = "") -> Schedule:
        """Fire a cron again. Its misfire policy decides about the times that it missed."""
        from windlass.operations.crons import resume

        return _schedule(resume(self._access(), name, _author(by, why), expect=version))

    async def acreate(self, name: str, schedule: str, handler: Using[..., Any] | str, **options: Any) -> Schedule:
        """Async version of `create`."""
        return await in_thread(self.create, name, schedule, handler, **options)

    async def alist(self) -> ScheduleList:
        """Async version of `list`."""
        return await in_thread(self.list)

    async def aget(self, name: str) -> Schedule:
        """Async version of `get`."""
        return await in_thread(self.get, name)

    async def aupdate(self, name: str, **changes: Any) -> Schedule:
        """Async version of `update`."""
        return await in_thread(self.update, name, **changes)

    async def adelete(self, name: str, **options: Any) -> Schedule:
        """Async version of `delete`."""
        return await in_thread(self.delete, name, **options)

    async def apause(self, name: str, **options: Any) -> Schedule:
        """Async version of `pause`."""
        return await in_thread(self.pause, name, **options)

    async def aresume(self, name: str, **options: Any) -> Schedule:
        """Async version of `resume`."""
        return await in_thread(self.resume, name, **options)

    def _access(self) -> Access:
        from windlass.operations.access import Access  # A large import that most programs do not need.
        from windlass.operations.handler_catalog import HandlerCatalog

        store = self._store()
        return Access(store, catalog=HandlerCatalog(_Handlers(store, self._manifest())))  # pyright: ignore[reportArgumentType]

    def _encode(self, handler: Using[..., Any] | str | UnsetType, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return arguments as plain JSON values. Those for a handler of this app are checked by its signature."""
        check_type("args", args, Mapping, "pass a dict of arguments by name")
        return handler.signature.encode((), args) if isinstance(handler, Using) else args


class _Handlers:
    """The handlers of this app and those that nodes have published: an app may create crons before its first node."""

    def __init__(self, store: Store, manifest: Manifest) -> None:
        self._store = store
        self._manifest = manifest

    def handlers(self) -> list[HandlerSeen]:
        own = {
            info.name: HandlerSeen(**{name: getattr(info, name) for name in info.__struct_fields__}, seen=0)
            for info in self._manifest.handlers
        }
        return list(({info.name: info for info in self._store.handlers()} | own).values())


def _name_of(handler: Using[..., Any] | str) -> str:
    if isinstance(handler, Using):
        return NewTask(**handler.fields).handler
    check_type("handler", handler, str, "pass a handler, or the name of one")
    return handler


def _author(by: str | None, why: str) -> Author:
    from windlass.operations.author import Author, user_name

    return Author(by or user_name(), why)


def _schedule(view: CronView) -> Schedule:
    state, info = view.state, view.state.info
    return Schedule(
        name=info.name,
        handler=info.handler,
        schedule=info.schedule,
        tz=info.timezone,
        args=json_object(info.args),
        misfire=info.misfire,
        queue=info.queue,
        tenant=info.tenant,
        priority=info.priority,
        start=_datetime(info.start),
        end=_datetime(info.end),
        paused=state.paused,
        next=view.next,
        last=_datetime(state.fired),
        problem=view.problem,
        at_run_time=state.at_run_time,
        version=state.version,
    )


def _datetime(instant: Micros | None) -> datetime | None:
    return None if instant is None else to_datetime(instant)
