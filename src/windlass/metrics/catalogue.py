"""All metrics and where they are served, for the docs and for checking dashboards and alert rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windlass.metrics import calls, node, refused_requests, refused_submits, store
from windlass.metrics.families import Family

SERVER, NODE, BOTH = "server", "node", "server and node"

CATALOGUE: Mapping[str, Sequence[Family]] = {
    SERVER: (*store.FAMILIES, *refused_requests.FAMILIES),
    NODE: node.FAMILIES,
    BOTH: (*calls.FAMILIES, *refused_submits.FAMILIES),
}


def series() -> set[str]:
    """Return the names of all series, which queries may use."""
    return {name for families in CATALOGUE.values() for family in families for name in family.series}


def table() -> str:
    """Return all metrics as a Markdown table."""
    lines = ["| metric | kind | labels | at | meaning |", "|---|---|---|---|---|"]
    for place, families in CATALOGUE.items():
        for each in families:
            labels = ", ".join(f"`{label}`" for label in each.labels) or "none"
            lines.append(f"| `{each.name}` | {each.kind} | {labels} | {place} | {each.help} |")
    return "\n".join(lines) + "\n"
