"""The page Nodes: the nodes, their pools, their worker processes, and the keys that drain and stop them."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from windlass.core.lifecycle import State
from windlass.core.times import Micros, micros
from windlass.core.worker_list import WorkerProcess
from windlass.operations.nodes import GRACE, NodeView
from windlass.operations.presentation import Palette, format_span
from windlass.tui import actions
from windlass.tui.drawing import number_text, plain
from windlass.tui.live_table import LiveTable, Row
from windlass.tui.messages import ChangeRequest
from windlass.tui.snapshot import Snapshot

HEADS = ("node", "pool", "queues", "workers", "running", "last seen", "notes")


class Target(NamedTuple):
    """What the keys drain and stop: a worker, or the whole node."""

    session: str
    worker: int | None
    name: str


class NodesPage(Vertical):
    """The running nodes with their worker processes, and the nodes that ended recently."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "drain", "drain"),
        Binding("X", "stop", "stop", key_display="X"),
    ]

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._targets: dict[str, Target] = {}

    def compose(self) -> ComposeResult:
        yield LiveTable(HEADS, id="node-rows")

    def show(self, snapshot: Snapshot, palette: Palette) -> None:
        """Draw a snapshot."""
        rows: list[Row] = []
        self._targets = {}
        for node in snapshot.nodes:
            session, name = str(node.session.id), node.session.node
            of_node = node_rows(node, palette)
            self._targets |= {key: Target(session, None, f"Node {name}") for key, _ in of_node if not node.session.lost}
            rows += of_node
            for worker in node.workers.workers:
                key = f"{session}/{worker.number}"
                self._targets[key] = Target(session, worker.number, f"Worker {worker.number} of {name}")
                rows.append((key, worker_row(node, worker, snapshot.now, palette)))
        self.query_one(LiveTable).show(rows)

    @property
    def _target(self) -> Target | None:
        return self._targets.get(self.query_one(LiveTable).selected or "")

    def action_drain(self) -> None:
        if target := self._target:
            after = "Its pool replaces it if it wants as many." if target.worker else "The node ends."
            question = f"Drain? {target.name} takes nothing new, finishes what it runs and exits. {after}"
            self.post_message(ChangeRequest.of(question, actions.drain(*target)))

    def action_stop(self) -> None:
        if target := self._target:
            question = f"Stop? {target.name} exits; tasks that still run after {GRACE.seconds} s are released."
            self.post_message(ChangeRequest.of(question, actions.stop(*target)))


def node_rows(node: NodeView, palette: Palette) -> list[Row]:
    """Return a row for each pool of a node."""
    session, report = node.session, node.report
    name, seen = plain(session.node), Text(f"{format_span(micros(session.age))} ago")
    if report is None or not report.pools:
        note = Text("✗ lost", palette.states[State.FAILED]) if session.lost else Text("no report", palette.quiet)
        none = number_text("–")
        return [(str(session.id), [name, none, none, none, none, seen, note])]
    return [
        (
            f"{session.id} {pool_name}",
            [
                name,
                plain(pool_name),
                plain(", ".join(pool.queues)),
                number_text(f"{pool.ready}/{pool.target}"),
                number_text(str(pool.running)),
                seen,
                _notes(node, pool_name, palette),
            ],
        )
        for pool_name, pool in sorted(report.pools.items())
    ]


def worker_row(node: NodeView, worker: WorkerProcess, now: Micros, palette: Palette) -> list[Text]:
    """Return the row of a worker process, below those of its node."""
    tasks = ", ".join(f"{task.handler} {format_span(max(0, now - task.since))}" for task in worker.tasks)
    memory = f", {worker.memory >> 20} MiB" if worker.memory else ""
    return [
        Text(f"  worker {worker.number}"),
        plain(worker.pool),
        Text(f"pid {worker.pid or '–'}{memory}", palette.quiet),
        Text(node.describe_state(worker), palette.brass if node.find_request(worker.number) else ""),
        number_text(str(worker.running)),
        Text(f"for {format_span(max(0, now - worker.since))}"),
        plain(tasks or "–"),
    ]


def _notes(node: NodeView, name: str, palette: Palette) -> Text:
    report, request = node.report, node.find_request()
    assert report is not None
    pool = report.pools[name]
    changes = (("starting", pool.starting), ("draining", pool.draining), ("asleep", pool.asleep), ("died", pool.deaths))
    notes = ", ".join(f"{count} {word}" for word, count in changes if count)
    asked = plain(f" the node was {request.describe()}", palette.brass) if request else Text("")
    stuck = plain(f" ⚠ {node.describe_stuck()}", palette.states[State.RETRYING]) if node.workers.stuck else Text("")
    degraded = plain(f" ⚠ {report.degraded}", palette.states[State.RETRYING]) if report.degraded else Text("")
    return Text(notes or "▶ running", palette.quiet) + asked + stuck + degraded
