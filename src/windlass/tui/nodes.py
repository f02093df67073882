"""The page of nodes: who works here, and since when was nothing heard of them?"""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical

from windlass.autoscale.observe import NodeReport
from windlass.core.lifecycle import State
from windlass.core.times import micros
from windlass.operations.presentation import Palette, length
from windlass.stores.protocol import Session
from windlass.tui.drawing import plain
from windlass.tui.live_table import LiveTable, Row
from windlass.tui.snapshot import Snapshot

HEADS = ("node", "pool", "queues", "workers", "running", "heard of", "notes")


class NodesPage(Vertical):
    """The nodes that are alive, and those that went of late."""

    def compose(self) -> ComposeResult:
        yield LiveTable(HEADS, id="node-rows")

    def show(self, reading: Snapshot, palette: Palette) -> None:
        """Draw how things stand."""
        rows = [
            row
            for session in reading.sessions
            for row in node_rows(session, reading.reports.get(str(session.id)), palette)
        ]
        self.query_one(LiveTable).show(rows)


def node_rows(session: Session, report: NodeReport | None, palette: Palette) -> list[Row]:
    """A line for each pool of a node."""
    node, heard = plain(session.node), Text(f"{length(micros(session.age))} ago")
    none = Text("–", justify="right")
    if session.lost or report is None or not report.pools:
        note = Text("✗ gone", palette.states[State.FAILED]) if session.lost else Text("has not reported", palette.quiet)
        return [(str(session.id), [node, none, none, none, none, heard, note])]
    return [
        (
            f"{session.id} {name}",
            [
                node,
                plain(name),
                plain(", ".join(pool.queues)),
                Text(f"{pool.ready}/{pool.target}", justify="right"),
                Text(str(pool.running), justify="right"),
                heard,
                _notes(report, name, palette),
            ],
        )
        for name, pool in sorted(report.pools.items())
    ]


def _notes(report: NodeReport, name: str, palette: Palette) -> Text:
    pool = report.pools[name]
    moving = (("starting", pool.starting), ("draining", pool.draining), ("asleep", pool.asleep), ("died", pool.deaths))
    said = ", ".join(f"{count} {word}" for word, count in moving if count)
    worn = plain(f" ⚠ {report.degraded}", palette.states[State.RETRYING]) if report.degraded else Text("")
    return Text(said or "▶ alive", palette.quiet) + worn
