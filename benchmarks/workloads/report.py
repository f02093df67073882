"""Format the medians of all rounds as tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median

from benchmarks.table import format_columns
from benchmarks.workloads.measure import Found

RATES = {
    "W1 /s": "w1",
    "W1 16 threads": "w1_threads",
    "W1 16 tasks": "w1_tasks",
    "W1b bulk": "w1_bulk",
    "W2 drain": "w2",
    "W4 both": "w4",
}
TIMES = {
    "W3 p50 ms": "w3_p50",
    "W3 p99 ms": "w3_p99",
    "W5 fan s": "w5_fan",
    "W5 chain s": "w5_chain",
    "W6 worker s": "w6_worker",
    "W6 node s": "w6_node",
}
WEIGHTS = {
    "node RSS MB": "node_rss",
    "node USS MB": "node_uss",
    "worker parent USS MB": "parent_uss",
    "worker RSS MB": "worker_rss",
    "worker USS MB": "worker_uss",
    "bare Python RSS MB": "python_rss",
    "one more worker ms": "start_ms",
}


class Results:
    """The results of every system and round."""

    def __init__(self) -> None:
        self.found: defaultdict[str, defaultdict[str, list[float | str]]] = defaultdict(lambda: defaultdict(list))

    def add(self, title: str, found: Found) -> None:
        """Add the results of one measurement."""
        for metric, value in found.items():
            self.found[title][metric].append(value)

    def format(self) -> str:
        """Return all tables that are not empty."""
        return "\n\n".join(text for text in map(self._table, (RATES, TIMES, WEIGHTS)) if text)

    def _table(self, heads: dict[str, str]) -> str:
        used = {head: metric for head, metric in heads.items() if any(metric in found for found in self.found.values())}
        lines = [
            [title, *(format_cell(found.get(metric, ())) for metric in used.values())]
            for title, found in self.found.items()
            if any(metric in found for metric in used.values())
        ]
        return format_columns(["system", *used], lines, right=range(1, len(used) + 1)) if lines else ""


def format_cell(values: Iterable[float | str]) -> str:
    """Format the median with the lowest and highest value, or a word without numbers."""
    found = list(values)
    numbers = [value for value in found if isinstance(value, float | int)]
    if not numbers:
        return str(found[0]) if found else "–"
    text = _format_number(median(numbers))
    if len(numbers) > 1:
        text += f" ({_format_number(min(numbers))}–{_format_number(max(numbers))})"
    return text if len(numbers) == len(found) else f"{text}, {len(found) - len(numbers)} failed"


def _format_number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def format_configurations(systems: Sequence[tuple[str, str]]) -> str:
    """Return one line with the configuration of each system."""
    return "\n".join(f"{title}: {what}." for title, what in systems)
