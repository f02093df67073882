"""Cursors as opaque text: where a page ended, for the request for the next one."""

from __future__ import annotations

import base64
from typing import TypeVar
from uuid import UUID

import msgspec

from windlass.core.task import TaskId
from windlass.core.times import LATEST
from windlass.errors import Refused
from windlass.stores.protocol import Cursor
from windlass.stores.workflow_reads import EdgeCursor, WorkflowCursor

AnyCursor = TypeVar("AnyCursor", WorkflowCursor, EdgeCursor)


def cursor_text(cursor: Cursor) -> str:
    """Encode a cursor for a URL."""
    return base64.urlsafe_b64encode(f"{cursor.submitted}.{cursor.id}".encode()).decode().rstrip("=")


def parse_cursor(text: str | None) -> Cursor | None:
    """Decode what `cursor_text` encoded; None stays None."""
    if text is None:
        return None
    try:
        submitted, _, id = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode().partition(".")
        found = Cursor(int(submitted), TaskId(UUID(id)))
    except ValueError:
        found = None
    if found is None or abs(found.submitted) > LATEST:
        raise _invalid(text)
    return found


def next_text(cursor: WorkflowCursor | EdgeCursor | None) -> str | None:
    """Encode where a page of workflows or edges ended; None stays None."""
    return None if cursor is None else base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode().rstrip("=")


def decode_next(text: str | None, kind: type[AnyCursor]) -> AnyCursor | None:
    """Decode what `next_text` encoded."""
    if text is None:
        return None
    try:
        found = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=kind)
    except ValueError:
        found = None
    if found is None or abs(found.submitted) > LATEST:
        raise _invalid(text)
    return found


def _invalid(text: str) -> Refused:
    text = f"after={text!r} is not a cursor. Use the value that the previous page returned."
    return Refused("invalid_cursor", text, field="after")
