"""Results and their table: one line for each number, with Windlass and the bare statements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace


class Result(Struct, frozen=True, kw_only=True):
    """One measured rate. None means that the store does not have it."""

    what: str
    condition: str = ""
    batch: int
    processes: int = 1
    windlass: float
    """Tasks per second through the store."""
    bare: float | None = None
    """Tasks per second with the bare statements."""
    aim: str = ""
    of_empty: float | None = None
    """The rate divided by that of the same cell with empty tables."""

    @property
    def ratio(self) -> float | None:
        """The rate of the store divided by the bare rate."""
        return self.windlass / self.bare if self.bare else None


EMPTY = "empty tables"
HEAD = ("what", "condition", "batch", "processes", "windlass/s", "bare/s", "ratio", "of empty", "aim")


def format_table(results: Iterable[Result]) -> str:
    """Return the results of one store as a table."""
    return format_columns(HEAD, [_format_line(one) for one in results], right=range(2, 8))


def compare_with_empty(results: Sequence[Result]) -> list[Result]:
    """Return the results with `of_empty` filled in where possible."""
    empty = {(one.batch, one.processes): one.windlass for one in results if one.condition == EMPTY}
    return [
        replace(one, of_empty=one.windlass / empty[one.batch, one.processes])
        if one.condition not in ("", EMPTY) and (one.batch, one.processes) in empty
        else one
        for one in results
    ]


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


def format_rate(tasks_per_second: float | None) -> str:
    """Format a rate."""
    return "–" if tasks_per_second is None else f"{tasks_per_second:,.0f}"


def format_ratio(of_one: float | None) -> str:
    """Format a ratio."""
    return "–" if of_one is None else f"{of_one:.2f}"


def _format_line(one: Result) -> list[str]:
    return [
        one.what,
        one.condition,
        f"{one.batch:,}",
        str(one.processes),
        format_rate(one.windlass),
        format_rate(one.bare),
        format_ratio(one.ratio),
        format_ratio(one.of_empty),
        one.aim,
    ]
