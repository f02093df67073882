"""The audit log over HTTP."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from windlass.operations import audit, undo
from windlass.operations.caller import Scope
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.wire.audit import EntryPage, EntryShape, entry_page, entry_shape
from windlass.wire.fields import NO_REASON, Reason, Text

route = Routes("audit")

Number: TypeAlias = Annotated[int, Meta(ge=0, le=2**62)]
UNDO_ERRORS = ("unknown_entry", "not_allowed", "invalid_task", "changed_meanwhile")


class ReadHistory(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page of entries."""

    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100
    before: Number | None = None


class ReadAudit(ReadHistory, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which entries."""

    subject: Text | None = None
    """One subject, as in `queue/mail`, or a kind, as in `queue/`."""


@route("GET", "/audit", Scope.READ, unrestricted=True)
def read_audit(call: Call, query: ReadAudit) -> EntryPage:
    """List what people and the autoscaler did, newest first."""
    return entry_page(audit.find(call.access, query.subject, limit=query.limit, before=query.before))


@route("POST", "/audit/{number}/undo", Scope.OPERATE, errors=UNDO_ERRORS)
def undo_entry(call: Call, number: Number, body: Reason = NO_REASON) -> EntryShape:
    """Undo what an entry records, if it has not been changed since. Return the entry that was undone.

    To a token that is limited to a tenant or a queue, return only what was done for it.
    """
    return entry_shape(undo.undo(call.access, number, call.author(body)))
