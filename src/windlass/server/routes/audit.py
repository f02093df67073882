"""The audit log over HTTP."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from windlass.operations import audit
from windlass.operations.caller import Scope
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.wire.audit import EntryPage, entry_page
from windlass.wire.fields import Text

route = Routes("audit")


class ReadHistory(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page of entries."""

    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100
    before: Annotated[int, Meta(ge=0, le=2**62)] | None = None


class ReadAudit(ReadHistory, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which entries."""

    subject: Text | None = None
    """One subject, as in `queue/mail`, or a kind, as in `queue/`."""


@route("GET", "/audit", Scope.READ, unrestricted=True)
def read_audit(call: Call, query: ReadAudit) -> EntryPage:
    """List what people and the autoscaler did, newest first."""
    return entry_page(audit.find(call.access, query.subject, limit=query.limit, before=query.before))
