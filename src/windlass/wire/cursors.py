"""Cursors as opaque text: where a page ended, for the request for the next one."""

from __future__ import annotations

from typing import TypeVar
from uuid import UUID

import msgspec

from windlass.core.task import TaskId
from windlass.errors import Refused
from windlass.operations.cursor_seal import CursorSeal
from windlass.stores.protocol import Cursor
from windlass.stores.workflow_reads import EdgeCursor, WorkflowCursor

AnyCursor = TypeVar("AnyCursor", WorkflowCursor, EdgeCursor)

_TASKS = "tasks"


def cursor_text(cursor: Cursor, seal: CursorSeal) -> str:
    """Encode a cursor for a URL."""
    return seal.seal(_TASKS, msgspec.json.encode((cursor.submitted, cursor.id)))


def parse_cursor(text: str | None, seal: CursorSeal) -> Cursor | None:
    """Decode what `cursor_text` encoded for a caller with the same limits; None stays None."""
    if text is None:
        return None
    data = seal.unseal(_TASKS, text)
    if data is None:
        raise _invalid(text)
    submitted, id = msgspec.json.decode(data, type=tuple[int, UUID])
    return Cursor(submitted, TaskId(id))


def next_text(cursor: WorkflowCursor | EdgeCursor | None, seal: CursorSeal) -> str | None:
    """Encode where a page of workflows or edges ended; None stays None."""
    return None if cursor is None else seal.seal(type(cursor).__name__, msgspec.json.encode(cursor))


def decode_next(text: str | None, kind: type[AnyCursor], seal: CursorSeal) -> AnyCursor | None:
    """Decode what `next_text` encoded for a caller with the same limits."""
    if text is None:
        return None
    data = seal.unseal(kind.__name__, text)
    if data is None:
        raise _invalid(text)
    return msgspec.json.decode(data, type=kind)


def _invalid(text: str) -> Refused:
    text = f"after={text[:200]!r} is not a cursor of this list. Use the value that the previous page returned."
    return Refused("invalid_cursor", text, field="after")
