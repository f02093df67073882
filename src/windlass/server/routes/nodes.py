"""Nodes and the audit log over HTTP: who works here, and who did what."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from msgspec import Meta, Struct

from windlass.errors import Refused
from windlass.operations.caller import Scope
from windlass.server.http.call import Call
from windlass.server.http.routing import API, Routes
from windlass.wire.nodes import NodeShape, node_shape
from windlass.wire.schemas import EntryPage, Text
from windlass.wire.shapes import entry_shape

route = Routes("nodes")


class ReadAudit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which entries, and how many."""

    subject: Text | None = None
    """One thing, as in `queue/mail`, or all of a kind, as in `queue/`."""
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100
    before: Annotated[int, Meta(ge=0, le=2**62)] | None = None


@route("GET", "/nodes", Scope.READ, unrestricted=True)
def list_nodes(call: Call) -> list[NodeShape]:
    """The sessions of nodes that are alive, and of those closed or lost of late; the newest first."""
    return [node_shape(session) for session in call.store.sessions(workers=True)]


@route("GET", "/nodes/{session}", Scope.READ, unrestricted=True, errors=["unknown_node"])
def get_node(call: Call, session: UUID) -> NodeShape:
    """One node by its session, with its worker processes."""
    found = next((each for each in call.store.sessions(workers=True) if each.id == session), None)
    if found is None:
        raise Refused("unknown_node", f"unknown node session: {session}; GET {API}/nodes lists those that are known")
    return node_shape(found)


@route("GET", "/audit", Scope.READ, unrestricted=True)
def read_audit(call: Call, query: ReadAudit) -> EntryPage:
    """What people and the autoscaler did, newest first, a page at a time."""
    found = call.store.audit(query.subject, limit=query.limit, before=query.before)
    more = found[-1].number if len(found) == query.limit else None
    return EntryPage(entries=[entry_shape(entry) for entry in found], before=more)
