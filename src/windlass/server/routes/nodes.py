"""Nodes over HTTP."""

from __future__ import annotations

from uuid import UUID

from windlass.core.task import SessionId
from windlass.operations import nodes
from windlass.operations.caller import Scope
from windlass.server.http.call import Call
from windlass.server.http.routing import Routes
from windlass.wire.fields import NO_REASON, Reason
from windlass.wire.nodes import NodeShape, Stop, node_shape

route = Routes("nodes")

STOP = Stop()
NODE_ERRORS = ("unknown_node", "invalid_task", "changed_meanwhile")
WORKER_ERRORS = (*NODE_ERRORS, "unknown_worker")


@route("GET", "/nodes", Scope.READ, unrestricted=True)
def list_nodes(call: Call) -> list[NodeShape]:
    """List the nodes that are alive and those that ended in the last day, newest first."""
    return [node_shape(view) for view in nodes.get_all(call.access)]


@route("GET", "/nodes/{session}", Scope.READ, unrestricted=True, errors=["unknown_node"])
def get_node(call: Call, session: UUID) -> NodeShape:
    """Get one node by its session, with its pools and worker processes."""
    return node_shape(nodes.get(call.access, SessionId(session)))


@route("POST", "/nodes/{session}/drain", Scope.OPERATE, unrestricted=True, errors=NODE_ERRORS)
def drain_node(call: Call, session: UUID, body: Reason = NO_REASON) -> NodeShape:
    """Let a node finish what it runs and end, as SIGTERM does."""
    return node_shape(nodes.drain(call.access, str(session), author=call.author(body)))


@route("POST", "/nodes/{session}/stop", Scope.OPERATE, unrestricted=True, errors=NODE_ERRORS)
def stop_node(call: Call, session: UUID, body: Stop = STOP) -> NodeShape:
    """Drain a node, and stop and release what still runs after 5 seconds or another time."""
    return node_shape(nodes.stop(call.access, str(session), author=call.author(body), grace=body.grace))


@route("POST", "/nodes/{session}/workers/{number}/drain", Scope.OPERATE, unrestricted=True, errors=WORKER_ERRORS)
def drain_worker(call: Call, session: UUID, number: int, body: Reason = NO_REASON) -> NodeShape:
    """Let a worker process finish what it runs and exit. Its pool starts another one if it wants as many."""
    return node_shape(nodes.drain(call.access, str(session), number, author=call.author(body)))


@route("POST", "/nodes/{session}/workers/{number}/stop", Scope.OPERATE, unrestricted=True, errors=WORKER_ERRORS)
def stop_worker(call: Call, session: UUID, number: int, body: Stop = STOP) -> NodeShape:
    """Drain a worker process, and kill it if tasks still run after 5 seconds or another time. They are released."""
    return node_shape(nodes.stop(call.access, str(session), number, author=call.author(body), grace=body.grace))
