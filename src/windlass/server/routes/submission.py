"""From what came over HTTP to a task that a store takes: the handler's own options, and the caller's on top."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from msgspec import UnsetType
from msgspec.structs import asdict, replace

from windlass.client.options import task_fields
from windlass.core.ids import keyed_id
from windlass.core.payload import encode_args
from windlass.core.references import referenced_ids
from windlass.core.task import NewTask
from windlass.core.times import duration
from windlass.errors import InvalidPayload, InvalidTask, Refused
from windlass.operations.caller import Caller
from windlass.operations.handler_catalog import HandlerCatalog, unchecked
from windlass.wire.schemas import SubmitTask


def new_task(offers: HandlerCatalog, who: Caller, given: SubmitTask, *, trusted: bool = False) -> NewTask:
    """The task that is asked for. With `trusted` its handler may be one that no node has published yet."""
    if not trusted:
        offers.check(offers.info(given.handler).name, given.args)
    info = unchecked(given.handler) if trusted else offers.info(given.handler)
    new = info.new_task(given.args, _fields(given))
    if who.tenant is not None and isinstance(given.tenant, UnsetType):
        new = replace(new, tenant=who.tenant)
    _check_may(who, new)
    _check_references(new)
    return new


def when(value: object, field: str) -> datetime | timedelta | None:
    """A moment as JSON has it: ISO 8601 with a zone, or a time from now."""
    if value is None or not isinstance(value, str):
        return None if value is None else duration(value, field)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return duration(value, field)
    if moment.tzinfo is None:
        raise InvalidTask(f"{field}={value!r} has no time zone; end it with Z or an offset such as +01:00")
    return moment


def _fields(given: SubmitTask) -> dict[str, Any]:
    options = {name: value for name, value in asdict(given).items() if not isinstance(value, UnsetType)}
    for name in ("handler", "args"):
        del options[name]
    trace = options.pop("trace")
    for name in ("deadline", "at", "expires"):
        options[name] = when(options[name], name)
    options["after"] = [_prerequisite(name) for name in given.after]
    given_ones = {name: value for name, value in options.items() if value not in (None, [])}
    fields = task_fields(given_ones, {})
    return fields if trace is None else {**fields, "trace": trace}


def _prerequisite(text: str) -> UUID | str:
    """A task by its id, or by its key in the same workflow."""
    try:
        return UUID(text)
    except ValueError:
        return text


def _check_may(who: Caller, new: NewTask) -> None:
    if who.tenant not in (None, new.tenant):
        raise Refused("forbidden", f"tenant={new.tenant!r}: this token submits for {who.tenant} only", field="tenant")
    if who.queue not in (None, new.queue):
        raise Refused("forbidden", f"queue={new.queue!r}: this token submits to {who.queue} only", field="queue")


def _check_references(new: NewTask) -> None:
    """A reference to a result must name a prerequisite: the store has looked that it is of the same tenant."""
    named = {name if isinstance(name, UUID) else keyed_id(new.tenant, new.workflow, name) for name in new.prerequisites}
    foreign = [task for task in referenced_ids(encode_args(new.args)) if task not in named]
    if foreign:
        raise InvalidPayload(f"args: {foreign[0]} is referred to and not waited for; name it in after")
