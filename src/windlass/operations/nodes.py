"""Nodes as people see them: their sessions, pools and worker processes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from windlass.autoscale.observe import NodeReport
from windlass.autoscale.pool_tick import read_reports
from windlass.core.task import SessionId
from windlass.core.worker_list import WorkerList, decode_workers
from windlass.errors import UnknownNode
from windlass.operations.access import Access
from windlass.operations.redact import redact_session
from windlass.redaction import redact_text
from windlass.stores.protocol import Session


class NodeView(Struct, frozen=True, kw_only=True):
    """A node: its session, its worker processes, and the last report about its pools."""

    session: Session
    workers: WorkerList
    report: NodeReport | None
    """None if it has not reported yet, or is gone."""


def get_all(access: Access) -> list[NodeView]:
    """Return the nodes that are alive and those that ended in the last day, newest first."""
    store = access.whole_store
    reports = read_reports(store.look([], ahead=timedelta(0)))
    return [_view(session, reports) for session in store.sessions(workers=True)]


def get(access: Access, session: SessionId) -> NodeView:
    """Return the node with this session. Raise `UnknownNode` if there is none."""
    found = next((view for view in get_all(access) if view.session.id == session), None)
    if found is None:
        raise UnknownNode(session)
    return found


def _view(session: Session, reports: Mapping[str, NodeReport]) -> NodeView:
    report = None if session.lost else reports.get(str(session.id))
    return NodeView(
        session=redact_session(session),
        workers=WorkerList() if session.lost else decode_workers(session.workers),
        report=report and replace(report, degraded=redact_text(report.degraded)),
    )
