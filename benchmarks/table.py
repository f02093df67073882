"""Results, and how they are printed: one line a number, Windlass beside the bare statements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct


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

    @property
    def ratio(self) -> float | None:
        """How much of the bare rate the store keeps."""
        return self.windlass / self.bare if self.bare else None


HEAD = ("what", "condition", "batch", "processes", "windlass/s", "bare/s", "ratio", "aim")


def as_text(results: Iterable[Result]) -> str:
    """All results of one store as a plain table."""
    return columns(HEAD, [_line(one) for one in results], right=range(2, 7))


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


def _line(one: Result) -> list[str]:
    ratio = "–" if one.ratio is None else f"{one.ratio:.2f}"
    return [
        one.what,
        one.condition,
        f"{one.batch:,}",
        str(one.processes),
        rate(one.windlass),
        rate(one.bare),
        ratio,
        one.aim,
    ]
