"""Results, and how they are printed: one line a number, Windlass beside the bare statements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace


class Result(Struct, frozen=True, kw_only=True):
    """One measured rate; None where the store has no such thing."""

    what: str
    condition: str = ""
    batch: int
    processes: int = 1
    windlass: float
    """Tasks a second through the store."""
    bare: float | None = None
    """Tasks a second by the same statements alone."""
    aim: str = ""
    of_empty: float | None = None
    """The rate over that of the same batch and processes with empty tables: 1 is a flat line."""

    @property
    def ratio(self) -> float | None:
        """How much of the bare rate the store keeps."""
        return self.windlass / self.bare if self.bare else None


EMPTY = "empty tables"
HEAD = ("what", "condition", "batch", "processes", "windlass/s", "bare/s", "ratio", "of empty", "aim")


def as_text(results: Iterable[Result]) -> str:
    """All results of one store as a plain table."""
    return columns(HEAD, [_line(one) for one in results], right=range(2, 8))


def beside_empty(results: Sequence[Result]) -> list[Result]:
    """The results with `of_empty` filled in where there is something to compare with."""
    empty = {(one.batch, one.processes): one.windlass for one in results if one.condition == EMPTY}
    return [
        replace(one, of_empty=one.windlass / empty[one.batch, one.processes])
        if one.condition not in ("", EMPTY) and (one.batch, one.processes) in empty
        else one
        for one in results
    ]


def columns(head: Sequence[str], lines: Sequence[Sequence[str]], right: Iterable[int] = ()) -> str:
    """Lines of text in columns as wide as they need to be; those in `right` are set to the right."""
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


def rate(tasks_a_second: float | None) -> str:
    """A rate as people read it."""
    return "–" if tasks_a_second is None else f"{tasks_a_second:,.0f}"


def part(of_one: float | None) -> str:
    """A proportion as people read it."""
    return "–" if of_one is None else f"{of_one:.2f}"


def _line(one: Result) -> list[str]:
    return [
        one.what,
        one.condition,
        f"{one.batch:,}",
        str(one.processes),
        rate(one.windlass),
        rate(one.bare),
        part(one.ratio),
        part(one.of_empty),
        one.aim,
    ]
