"""Results of the stores and their table, and the forms of all tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from benchmarks.cost import Cost


class Result(Struct, frozen=True, kw_only=True):
    """The cost of one kind of work with a store."""

    what: str
    condition: str = ""
    batch: int
    processes: int = 1
    cost: Cost

    @property
    def cell(self) -> tuple[str, int, int]:
        """What is measured, without the condition."""
        return self.what, self.batch, self.processes


HEAD = ("what", "condition", "batch", "processes", "server µs", "Python µs", "sum µs", "of the first", "tasks/s")


def choose_median(costs: Sequence[Cost]) -> Cost:
    """Return the cost with the median CPU time per task, the lower one of two."""
    return sorted(costs, key=lambda cost: cost.microseconds.total)[(len(costs) - 1) // 2]


def format_table(results: Iterable[Result], *, markdown: bool = False) -> str:
    """Return the results of one store as a table.

    `of the first` is the CPU time divided by that of the same work in the first condition.
    """
    first: dict[tuple[str, int, int], float] = {}
    lines: list[Sequence[str]] = []
    for one in results:
        used = one.cost.microseconds
        lines.append(
            (
                one.what,
                one.condition,
                f"{one.batch:,}",
                str(one.processes),
                format_microseconds(used.server),
                format_microseconds(used.client),
                format_microseconds(used.total),
                f"{used.total / first.setdefault(one.cell, used.total):.2f}",
                f"{one.cost.rate:,.0f}",
            )
        )
    return (format_markdown if markdown else format_columns)(HEAD, lines, right=range(2, 9))


def format_columns(head: Sequence[str], lines: Sequence[Sequence[str]], right: Iterable[int] = ()) -> str:
    """Format lines as aligned columns. Columns in `right` are aligned to the right."""
    widths = [max(map(len, cells)) for cells in zip(head, *lines, strict=True)]
    flush_right = frozenset(right)
    rule = ["-" * width for width in widths]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if n in flush_right else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (head, rule, *lines)
    )


def format_markdown(head: Sequence[str], lines: Sequence[Sequence[str]], right: Iterable[int] = ()) -> str:
    """Format lines as a Markdown table. Columns in `right` are aligned to the right."""
    flush_right = frozenset(right)
    rule = ["---:" if n in flush_right else "---" for n in range(len(head))]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *lines))


def format_microseconds(value: float | None) -> str:
    """Format CPU time per task. None means that the system has no such process."""
    return "–" if value is None else f"{value:,.1f}" if value < 1_000 else f"{value:,.0f}"
