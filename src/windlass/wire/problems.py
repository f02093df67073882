"""Errors as problem details (RFC 9457): one table maps each error code to its HTTP status.

Codes are stable and for programs; `detail` is for people. An unexpected error becomes a 500 with an id, which the
server's log also has, with the traceback. A problem never contains a traceback.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from msgspec import Struct

from windlass.errors import (
    CycleFound,
    DeadlineUnreachable,
    DuplicateTask,
    InvalidTask,
    KeyBusy,
    KeyConflict,
    QueueFull,
    Refused,
    StoreError,
    UnknownPrerequisite,
    WindlassError,
)
from windlass.redaction import redact_text

STATUSES: Mapping[str, int] = {
    "invalid_json": 400,
    "invalid_request": 400,
    "invalid_payload": 400,
    "invalid_filter": 400,
    "invalid_cursor": 400,
    "unstorable_value": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "read_only": 403,
    "host_not_allowed": 403,
    "origin_not_allowed": 403,
    "not_found": 404,
    "unknown_task": 404,
    "unknown_cron": 404,
    "cron_exists": 409,
    "unknown_queue": 404,
    "unknown_tenant": 404,
    "unknown_limit": 404,
    "unknown_token": 404,
    "unknown_breaker": 404,
    "unknown_node": 404,
    "unknown_worker": 404,
    "unknown_pool": 404,
    "unknown_entry": 404,
    "unknown_group": 404,
    "unknown_workflow": 404,
    "method_not_allowed": 405,
    "request_too_slow": 408,
    "key_conflict": 409,
    "key_busy": 409,
    "event_conflict": 409,
    "not_allowed": 409,
    "deadline_unreachable": 409,
    "stale_fence": 409,
    "ended_badly": 409,
    "task_failed": 409,
    "task_cancelled": 409,
    "task_expired": 409,
    "session_lost": 410,
    "changed_meanwhile": 412,
    "version_conflict": 412,
    "body_too_large": 413,
    "too_many_tasks": 413,
    "unsupported_media_type": 415,
    "invalid_task": 422,
    "duplicate_task": 422,
    "unknown_prerequisite": 422,
    "unknown_handler": 422,
    "invalid_load": 422,
    "cycle": 422,
    "queue_full": 429,
    "rate_limited": 429,
    "too_many_requests": 429,
    "headers_too_large": 431,
    "internal_error": 500,
    "store_error": 500,
    "error": 500,
    "store_unavailable": 503,
    "commit_unknown": 503,
    "schema_too_new": 503,
    "unsafe_store": 503,
    "timed_out": 503,
    "overloaded": 503,
}
"""HTTP statuses by error code; 500 for all others."""

STORE_ERRORS: Mapping[str, str] = {
    "store_unavailable": "The store cannot be reached. Nothing is known to be written. Retry later.",
    "commit_unknown": "The connection to the store broke during a write, which may have succeeded. "
    "Requests with a key are safe to retry.",
    "schema_too_new": "The store has a schema that this version of Windlass cannot use. Upgrade this server.",
    "unstorable_value": "A value cannot be stored: text with a NUL character, or a number out of range.",
    "unsafe_store": "The store's settings do not guarantee durability. See the server's log.",
}
"""What clients see of store errors. Details go to the server's log."""

_FIELD = re.compile(r"([a-z_]+(?:[.\[][\w.\[\]']*)?)(?:=|: )")


class FieldProblem(Struct, frozen=True, kw_only=True):
    """One invalid field."""

    field: str
    message: str


class Problem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error (RFC 9457). `code` is stable and for programs, `detail` is for people."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    errors: list[FieldProblem] = []
    id: str | None = None
    """The server's log has more under this id."""
    index: int | None = None
    """The position of the task in a batch, from 0."""
    line: int | None = None
    """The line of a stream, from 1."""
    keys: list[str] = []
    tasks: list[str] = []
    cycle: list[str] = []
    queue: str | None = None


def status_of(code: str) -> int:
    """Return the HTTP status of an error code."""
    return STATUSES.get(code, 500)


def problem_of(error: Exception, *, id: str = "") -> Problem:
    """Return the problem for an error. An unexpected error shows only the id of its log line."""
    if not isinstance(error, WindlassError):
        return problem("internal_error", f"Internal server error. See the server's log, id {id}.", id=id)
    code, detail = error.code, redact_text(str(error))
    if isinstance(error, StoreError):
        # Messages of database drivers name servers, users and files, which belong in the log only.
        detail = STORE_ERRORS.get(code, "The store failed to complete the operation. See the server's log.")
    more: dict[str, Any] = dict(error.more) if isinstance(error, Refused) else {}
    match error:
        case CycleFound():
            more["cycle"] = [str(member) for member in error.cycle[:20]]
        case KeyConflict() | KeyBusy():
            more["keys"] = list(error.keys[:20])
        case UnknownPrerequisite() | DuplicateTask():
            more["tasks"] = [str(task) for task in error.ids[:20]]
        case QueueFull() | DeadlineUnreachable():
            more["queue"] = error.queue
        case _:
            pass
    if isinstance(error, InvalidTask) and error.index is not None:
        more["index"] = error.index
    return problem(code, detail, errors=_fields(error), id=id, **more)


def problem(code: str, detail: str, *, errors: list[FieldProblem] | None = None, id: str = "", **more: Any) -> Problem:
    """Return a problem with the title and status of its code."""
    status = status_of(code)
    return Problem(
        type=f"urn:windlass:problem:{code}",
        title=HTTPStatus(status).phrase,
        status=status,
        code=code,
        detail=detail,
        errors=errors or [],
        id=id or None,
        **more,
    )


def _fields(error: WindlassError) -> list[FieldProblem]:
    field: str | None = None
    if isinstance(error, Refused):
        field = error.field
    elif isinstance(error, UnknownPrerequisite | CycleFound):
        field = "after"
    elif isinstance(error, InvalidTask) and (match := _FIELD.match(str(error))) is not None:
        field = match[1]
    return [] if field is None else [FieldProblem(field=field, message=redact_text(str(error)))]
