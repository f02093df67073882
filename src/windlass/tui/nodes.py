"""The page Nodes: the nodes, their pools and when they were last seen."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical

from windlass.autoscale.observe import NodeReport
from windlass.core.lifecycle import State
from windlass.core.times import micros
from windlass.operations.nodes import NodeView
from windlass.operations.presentation import Palette, format_span
from windlass.tui.drawing import number_text, plain
from windlass.tui.live_table import LiveTable, Row
from windlass.tui.snapshot import Snapshot

HEADS = ("node", "pool", "queues", "workers", "running", "last seen", "notes")


class NodesPage(Vertical):
    """The running nodes, and those that ended recently."""

    def compose(self) -> ComposeResult:
        yield LiveTable(HEADS, id="node-rows")

    def show(self, snapshot: Snapshot, palette: Palette) -> None:
        """Draw a snapshot."""
        self.query_one(LiveTable).show([row for node in snapshot.nodes for row in node_rows(node, palette)])


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
                _notes(report, pool_name, palette),
            ],
        )
        for pool_name, pool in sorted(report.pools.items())
    ]


def _notes(report: NodeReport, name: str, palette: Palette) -> Text:
    pool = report.pools[name]
    changes = (("starting", pool.starting), ("draining", pool.draining), ("asleep", pool.asleep), ("died", pool.deaths))
    notes = ", ".join(f"{count} {word}" for word, count in changes if count)
    degraded = plain(f" ⚠ {report.degraded}", palette.states[State.RETRYING]) if report.degraded else Text("")
    return Text(notes or "▶ running", palette.quiet) + degraded
