"""Nodes as people see and stop them: their sessions, pools and worker processes.

To drain is to take nothing new, finish what runs, and exit. To stop is the same, but what still runs after some seconds
is ended and released. A worker that exits is replaced if its pool still wants as many. Nodes follow within a second
or two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from windlass.autoscale.observe import NodeReport
from windlass.autoscale.pool_tick import read_reports
from windlass.core import stop_requests
from windlass.core.stop_requests import StopRequest, add_request, decode_requests, encode_requests, find_request
from windlass.core.task import SessionId
from windlass.core.times import Duration, duration
from windlass.core.worker_list import WorkerList, WorkerProcess, decode_workers
from windlass.errors import InvalidTask, NotAllowed, UnknownNode, UnknownWorker
from windlass.operations.access import Access
from windlass.operations.author import Author
from windlass.operations.conflicts import find_control, retry_on_conflict, write_control
from windlass.operations.node_about import read_about
from windlass.operations.redact import redact_session
from windlass.redaction import redact_text
from windlass.stores.coordination import MAX_CONTROL, Control
from windlass.stores.protocol import Session

GRACE = timedelta(seconds=5)
"""How long running tasks may take to end when their worker or node is stopped."""
MAX_GRACE = timedelta(days=1)
MOST_STUCK = 5
"""How many processes that do not end a line names."""


class NodeView(Struct, frozen=True, kw_only=True):
    """A node: its session, its worker processes, and the last report about its pools."""

    session: Session
    workers: WorkerList
    report: NodeReport | None
    """None if it has not reported yet, or is gone."""
    requests: tuple[StopRequest, ...] = ()
    """What people asked of it and its workers, as far as it has not ended."""

    def find_request(self, worker: int | None = None) -> StopRequest | None:
        """Return the request to drain or stop a worker, or the whole node."""
        return find_request(self.requests, str(self.session.id), worker)

    def describe_stuck(self) -> str:
        """Return which processes were killed and do not end; empty if there are none."""
        stuck = self.workers.stuck
        if not stuck:
            return ""
        pids = ", ".join(str(each.pid) for each in stuck[:MOST_STUCK]) + ("…" if len(stuck) > MOST_STUCK else "")
        return (
            f"process {pids} was killed and does not end"
            if len(stuck) == 1
            else f"processes {pids} were killed and do not end"
        )

    def describe_state(self, worker: WorkerProcess) -> str:
        """Return the state of a worker, with a request that the node has not followed yet."""
        request = self.find_request(worker.number)
        if request is None or worker.state == "draining":
            return worker.state
        return f"{worker.state}, {request.verb} requested"


def get_all(access: Access) -> list[NodeView]:
    """Return the nodes that are alive and those that ended in the last day, newest first."""
    store = access.whole_store
    look = store.look([], ahead=timedelta(0))
    reports, requests = read_reports(look), read_requests(look.controls)
    return [_view(session, reports, requests) for session in store.sessions(workers=True)]


def get(access: Access, session: SessionId) -> NodeView:
    """Return the node with this session. Raise `UnknownNode` if there is none."""
    found = next((view for view in get_all(access) if view.session.id == session), None)
    if found is None:
        raise UnknownNode(session)
    return found


def drain(access: Access, node: str, worker: int | None = None, *, author: Author) -> NodeView:
    """Let a worker finish what it runs and exit, or the whole node if no worker is given.

    A node is found by its name or its session. A drained node has its `drain_timeout`, as after SIGTERM.
    """
    return _request(access, node, worker, None, author)


def stop(access: Access, node: str, worker: int | None = None, *, author: Author, grace: Duration = GRACE) -> NodeView:
    """Drain a worker or a node, and stop and release what still runs after `grace`."""
    seconds = duration(grace, "grace")
    if not timedelta(0) <= seconds <= MAX_GRACE:
        raise InvalidTask(f"grace={grace!r} is out of range. Use a time such as 30s, at most one day.")
    return _request(access, node, worker, seconds.total_seconds(), author)


def read_requests(controls: Sequence[Control]) -> tuple[StopRequest, ...]:
    """Return the open requests among the controls of a look."""
    found = next((control for control in controls if control.kind == stop_requests.KIND), None)
    return () if found is None else decode_requests(found.value)


def _request(access: Access, node: str, worker: int | None, grace: float | None, author: Author) -> NodeView:
    store = access.whole_store

    def attempt() -> NodeView:
        running = [view for view in get_all(access) if not view.session.lost]
        view = _find(running, node)
        _check_worker(view, worker)
        session = str(view.session.id)
        new = StopRequest(session=session, worker=worker, grace=grace, by=author.by, at=access.now, why=author.why)
        control = find_control(store, stop_requests.KIND, stop_requests.NAME)
        before = () if control is None else decode_requests(control.value)
        after = add_request(before, new, {str(one.session.id): one.workers for one in running})
        if after is None:
            return view
        action, limit = ("drained", "") if grace is None else ("stopped", f", with {grace:g} s for running tasks")
        text = f"{'the node' if worker is None else f'worker {worker}'} {action} by {author.by}{limit}"
        entry = author.entry(f"node/{view.session.node}", action, text, session=session, worker=worker, grace=grace)
        version = 0 if control is None else control.version
        value = encode_requests(after)
        if len(value) > MAX_CONTROL:
            text = f"{len(before):,} requests to drain or stop are open, and the list has no room for another"
            raise NotAllowed(f"{text}. Wait until some of these workers have ended, or drain their whole node.")
        write_control(store, stop_requests.KIND, stop_requests.NAME, value, version=version, entries=[entry])
        return replace(view, requests=_of(view.session, after))

    return retry_on_conflict("the requests to stop nodes and workers", attempt)


def _find(running: Sequence[NodeView], node: str) -> NodeView:
    found = [view for view in running if node in (view.session.node, str(view.session.id))]
    if not found:
        raise UnknownNode(node, [view.session.node for view in running])
    if len(found) > 1:
        sessions = ", ".join(str(view.session.id) for view in found)
        raise InvalidTask(f"{len(found)} running nodes have the name {node!r}. Use one of their sessions: {sessions}.")
    return found[0]


def _check_worker(view: NodeView, worker: int | None) -> None:
    name = view.session.node
    if read_about(view.session).pools is None:
        raise InvalidTask(f"Node {name!r} is a worker over HTTP, which takes no requests. Stop it where it runs.")
    known = [each.number for each in view.workers.workers]
    if worker is not None and worker not in known and not view.workers.more:
        raise UnknownWorker(name, worker, known)


def _view(session: Session, reports: Mapping[str, NodeReport], requests: tuple[StopRequest, ...]) -> NodeView:
    report = None if session.lost else reports.get(str(session.id))
    return NodeView(
        session=redact_session(session),
        workers=WorkerList() if session.lost else decode_workers(session.workers),
        report=report and replace(report, degraded=redact_text(report.degraded)),
        requests=() if session.lost else _of(session, requests),
    )


def _of(session: Session, requests: Sequence[StopRequest]) -> tuple[StopRequest, ...]:
    return tuple(one for one in requests if one.session == str(session.id))
