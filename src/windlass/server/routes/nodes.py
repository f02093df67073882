"""Nodes over HTTP."""

from __future__ import annotations

from uuid import UUID

from windlass.core.task import SessionId
from windlass.operations import nodes
from windlass.operations.caller import Scope
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.wire.nodes import NodeShape, node_shape

route = Routes("nodes")


@route("GET", "/nodes", Scope.READ, unrestricted=True)
def list_nodes(call: Call) -> list[NodeShape]:
    """List the nodes that are alive and those that ended in the last day, newest first."""
    return [node_shape(view) for view in nodes.get_all(call.access)]


@route("GET", "/nodes/{session}", Scope.READ, unrestricted=True, errors=["unknown_node"])
def get_node(call: Call, session: UUID) -> NodeShape:
    """Get one node by its session, with its pools and worker processes."""
    return node_shape(nodes.get(call.access, SessionId(session)))
