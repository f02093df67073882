"""The tables: one line for each load, one for each policy, and a chart of size against need."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.simulation.score import Result, combined

BARS = " ▁▂▃▄▅▆▇█"


def loads_table(results: Sequence[Result]) -> list[str]:
    """One line for each load."""
    head = f"{'load':34} {'score':>7} {'cost':>6} {'late':>7} {'resizes/h':>9} {'p99 wait':>8} {'longest late':>12}"
    return [head, *(line(result) for result in results)]


def line(result: Result) -> str:
    return (
        f"{result.load[:34]:34} {result.score:7.2f} {result.cost:6.2f} {result.late:7.2%} {result.resizes:9.1f} "
        f"{result.wait_p99:6.1f} s {result.episode:10d} s"
    )


def chart(result: Result, width: int = 100) -> list[str]:
    """Size and need over time, as two rows of bars on one scale."""
    most = max([1.0, *result.sizes, *result.needs])
    return [
        f"  size {bars(result.sizes, most, width)}",
        f"  need {bars(result.needs, most, width)}  (full: {most:.0f})",
    ]


def bars(values: Sequence[float], most: float, width: int) -> str:
    step = max(1, len(values) // width)
    means = [sum(values[at : at + step]) / step for at in range(0, len(values) - step + 1, step)]
    return "".join(BARS[min(8, round(8 * mean / most))] for mean in means)


def policies_table(best: dict[str, tuple[str, Sequence[Result]]]) -> list[str]:
    """One line for each policy, the best first."""
    head = f"{'policy':18} {'setting':10} {'combined':>8} {'goal missed':>11} {'worst':>8}"
    rows = sorted(best.items(), key=lambda item: combined(result.score for result in item[1][1]))
    return [head, *(row(name, setting, results) for name, (setting, results) in rows)]


def row(name: str, setting: str, results: Sequence[Result]) -> str:
    missed = sum(result.late > 0.01 for result in results)
    worst = max(result.score for result in results)
    total = combined(result.score for result in results)
    return f"{name:18} {setting:10} {total:8.2f} {missed:4d} of {len(results):3d} {worst:8.1f}"


def losses(ours: Sequence[Result], best: dict[str, tuple[str, Sequence[Result]]], margin: float = 1.2) -> list[str]:
    """The loads on which a rival beats us by more than the margin."""
    lines: list[str] = []
    for at, result in enumerate(ours):
        for name, (_, results) in best.items():
            if result.score > margin * results[at].score:
                lines.append(f"{result.load}: {result.score:.2f}, {name} {results[at].score:.2f}")
    return lines
