"""Where a page ended, as text that says nothing to those who pass it on."""

from __future__ import annotations

import base64
from uuid import UUID

from windlass.core.task import TaskId
from windlass.core.times import LATEST
from windlass.server.problems import Refused
from windlass.stores.protocol import Cursor


def cursor_text(cursor: Cursor) -> str:
    """A cursor as a URL can have it."""
    return base64.urlsafe_b64encode(f"{cursor.submitted}.{cursor.id}".encode()).decode().rstrip("=")


def cursor(text: str | None) -> Cursor | None:
    """The inverse of `cursor_text`."""
    if text is None:
        return None
    try:
        submitted, _, id = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode().partition(".")
        found = Cursor(int(submitted), TaskId(UUID(id)))
    except ValueError:
        found = None
    if found is None or abs(found.submitted) > LATEST:
        raise Refused("invalid_cursor", f"after={text!r} is no cursor; give what a page has said", field="after")
    return found
