"""What went wrong, as RFC 9457 has it: one table from the code of an error to its HTTP status.

Codes are stable and for programs, `detail` is for people. An error that nobody foresaw is answered with 500 and an id
that stands in the server's log beside the traceback; the answer itself never has one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from windlass.errors import (
    CycleFound,
    DuplicateTask,
    InvalidTask,
    KeyConflict,
    QueueFull,
    Refused,
    StoreError,
    UnknownPrerequisite,
    WindlassError,
)
from windlass.redaction import redact_text
from windlass.wire.schemas import FieldProblem, Problem

STATUSES: Mapping[str, int] = {
    "invalid_json": 400,
    "invalid_request": 400,
    "invalid_payload": 400,
    "invalid_filter": 400,
    "invalid_cursor": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "read_only": 403,
    "host_not_allowed": 403,
    "origin_not_allowed": 403,
    "not_found": 404,
    "unknown_task": 404,
    "unknown_cron": 404,
    "unknown_queue": 404,
    "unknown_node": 404,
    "unknown_pool": 404,
    "unknown_group": 404,
    "unknown_workflow": 404,
    "method_not_allowed": 405,
    "request_too_slow": 408,
    "key_conflict": 409,
    "not_allowed": 409,
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
"""HTTP statuses by the code of the error; 500 for the others."""

RETRY_AFTER: Mapping[str, int] = {
    "queue_full": 5,
    "store_unavailable": 2,
    "commit_unknown": 2,
    "timed_out": 5,
    "overloaded": 1,
}
"""After how many seconds it is worth trying again."""

STORE_TROUBLE: Mapping[str, str] = {
    "store_unavailable": "the store cannot be reached now, and nothing is known to be written; try again",
    "commit_unknown": "the store went away while it was writing; it may have happened: with a key, ask again",
    "schema_too_new": "the store was migrated by a newer Windlass than this server; upgrade the server",
    "unsafe_store": "the store's settings would break a promise; the server's log says which",
}
"""What callers are told of the store; the server's log has the rest."""

_FIELD = re.compile(r"([a-z_]+(?:[.\[][\w.\[\]']*)?)(?:=|: )")


def status_of(code: str) -> int:
    """The HTTP status of an error's code."""
    return STATUSES.get(code, 500)


def problem_of(error: Exception, *, id: str = "") -> Problem:
    """The answer to this error. What is no error of ours is told nothing about: only the id of its log line."""
    if not isinstance(error, WindlassError):
        return problem("internal_error", f"something broke here; the server's log has it under {id}", id=id)
    code, detail = error.code, redact_text(str(error))
    if isinstance(error, StoreError):
        # What a driver says names servers, users and files; that is for the log.
        detail = STORE_TROUBLE.get(code, "the store could not do its part")
    more: dict[str, Any] = dict(error.more) if isinstance(error, Refused) else {}
    match error:
        case CycleFound():
            more["cycle"] = [str(member) for member in error.cycle[:20]]
        case KeyConflict():
            more["keys"] = list(error.keys[:20])
        case UnknownPrerequisite() | DuplicateTask():
            more["tasks"] = [str(task) for task in error.ids[:20]]
        case QueueFull():
            more["queue"] = error.queue
        case _:
            pass
    if isinstance(error, InvalidTask) and error.index is not None:
        more["index"] = error.index
    return problem(code, detail, errors=_fields(error), id=id, **more)


def problem(code: str, detail: str, *, errors: list[FieldProblem] | None = None, id: str = "", **more: Any) -> Problem:
    """A problem by its code."""
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


def headers_of(error: Exception) -> dict[str, str]:
    """What the answer's headers say of this error."""
    found = dict(error.headers) if isinstance(error, Refused) else {}
    if isinstance(error, WindlassError) and error.code in RETRY_AFTER:
        found.setdefault("Retry-After", str(RETRY_AFTER[error.code]))
    return found


def _fields(error: WindlassError) -> list[FieldProblem]:
    field: str | None = None
    if isinstance(error, Refused):
        field = error.field
    elif isinstance(error, UnknownPrerequisite | CycleFound):
        field = "after"
    elif isinstance(error, InvalidTask) and (match := _FIELD.match(str(error))) is not None:
        field = match[1]
    return [] if field is None else [FieldProblem(field=field, message=redact_text(str(error)))]
