"""The JSON shapes of the audit log."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from windlass.core.payload import json_object
from windlass.core.times import to_datetime
from windlass.operations.audit import AuditPage
from windlass.operations.reversal import read_undo
from windlass.stores.coordination import EntrySeen
from windlass.wire.fields import Moment


class EntryShape(Struct, frozen=True, kw_only=True):
    """One audit entry: what a person or the autoscaler did."""

    number: int
    at: Moment
    subject: str
    action: str
    text: str
    by: str
    data: dict[str, Any]
    """Inputs and arithmetic."""
    undoable: bool
    """Whether it says how to undo it. An undo is refused if what it changed has been changed since."""
    undoes: int | None
    """The number of the entry that it undid."""


class EntryPage(Struct, frozen=True, kw_only=True):
    """Some entries, newest first. If `before` is not null there may be more: pass it in the next request."""

    entries: list[EntryShape]
    before: int | None


def entry_shape(entry: EntrySeen) -> EntryShape:
    """Convert an audit entry."""
    undo = read_undo(entry)
    return EntryShape(
        number=entry.number,
        at=to_datetime(entry.at),
        subject=entry.subject,
        action=entry.action,
        text=entry.text,
        by=entry.by,
        data=json_object(entry.data),
        undoable=undo.undo is not None,
        undoes=undo.undoes,
    )


def entry_page(page: AuditPage) -> EntryPage:
    """Convert a page of audit entries."""
    return EntryPage(entries=[entry_shape(entry) for entry in page.entries], before=page.after)
