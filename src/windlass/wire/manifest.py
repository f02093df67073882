"""The JSON shapes of handlers, and of manifests that workers in other languages publish."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from windlass.client.options import check_fields, task_fields
from windlass.core.limit_keys import check_template
from windlass.core.manifest import HandlerInfo, HandlerSeen, Manifest
from windlass.core.payload import json_object
from windlass.core.task import NewTask
from windlass.core.times import to_datetime
from windlass.core.validation import MAX_LABELS
from windlass.wire.fields import (
    Bytes,
    Length,
    LimitKey,
    MaxRunning,
    Moment,
    Name,
    Priority,
    RateText,
    Reason,
    Retries,
    Slots,
)


class HandlerShape(Struct, frozen=True, kw_only=True):
    """A handler that a node has published, and when one did so last."""

    name: str
    queue: str
    doc: str
    is_async: bool
    parameters: dict[str, Any]
    """The JSON schema of its arguments; empty if it is unknown."""
    returns: dict[str, Any]
    seen: Moment


class HandlerOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Defaults for all tasks of a handler. A submit may override them."""

    priority: Priority | UnsetType = UNSET
    retries: Retries | UnsetType = UNSET
    max_crashes: Retries | UnsetType = UNSET
    """How many crashes of its worker process a task survives."""
    at_most_once: bool | UnsetType = UNSET
    """Fail instead of running again once an attempt may have started. Without retries."""
    timeout: Length | UnsetType = UNSET
    soft_timeout: Length | UnsetType = UNSET
    heartbeat_timeout: Length | UnsetType = UNSET
    slots: Slots | UnsetType = UNSET
    requires: Annotated[list[Name], Meta(max_length=MAX_LABELS)] | UnsetType = UNSET
    downstream: Name | UnsetType = UNSET
    memory: Bytes | UnsetType = UNSET
    """The bytes of memory that it needs, of those that its pool has."""
    limit: LimitKey | UnsetType = UNSET
    """Of the tasks with the same key, at most `max_running` run at once, and start at most at `rate`."""
    max_running: MaxRunning | UnsetType = UNSET
    rate: RateText | UnsetType = UNSET
    raise_prerequisites: bool | UnsetType = UNSET
    """False: prerequisites do not inherit its priority and deadline."""
    admit: Literal["strict"] | UnsetType = UNSET


class GiveHandler(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A handler that workers in some language have."""

    name: Name
    queue: Name = "default"
    doc: Annotated[str, Meta(max_length=4_000)] = ""
    parameters: dict[str, Any] = {}
    """The JSON schema of its arguments: of an object whose property names a submit may use."""
    returns: dict[str, Any] = {}
    options: HandlerOptions = HandlerOptions()


class GiveManifest(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The handlers that workers have."""

    handlers: Annotated[list[GiveHandler], Meta(min_length=1, max_length=1_000)]


class Published(Struct, frozen=True, kw_only=True):
    """The handlers that were new or had changed."""

    changed: list[str]


def handler_shape(handler: HandlerSeen) -> HandlerShape:
    """Convert a handler."""
    return HandlerShape(
        name=handler.name,
        queue=handler.queue,
        doc=handler.doc,
        is_async=handler.is_async,
        parameters=json_object(handler.parameters),
        returns=json_object(handler.returns),
        seen=to_datetime(handler.seen),
    )


def manifest_of(given: GiveManifest) -> Manifest:
    """Return the manifest that a worker has sent."""
    return Manifest(handlers=tuple(map(_handler_info, given.handlers)))


def _handler_info(given: GiveHandler) -> HandlerInfo:
    options = {name: value for name, value in asdict(given.options).items() if not isinstance(value, UnsetType)}
    fields = check_fields({**task_fields(options, {}), "handler": given.name, "queue": given.queue})
    is_open = given.parameters.get("additionalProperties", True) is not False
    check_template(fields.get("limit"), given.parameters.get("required", []), is_open=is_open)
    return HandlerInfo(
        name=given.name,
        queue=given.queue,
        doc=given.doc,
        parameters=_schema_text(given.parameters),
        returns=_schema_text(given.returns),
        template=_template(NewTask(**fields)),
    )


def _template(new: NewTask) -> str:
    """Return the options that differ from the defaults, in the form in which a handler's own are stored."""
    given, default = msgspec.to_builtins(new), msgspec.to_builtins(NewTask())
    own = {name: value for name, value in given.items() if value != default[name] and name not in ("handler", "queue")}
    return msgspec.json.encode(own).decode()


def _schema_text(schema: dict[str, object]) -> str:
    return msgspec.json.encode(schema, order="deterministic").decode() if schema else ""
