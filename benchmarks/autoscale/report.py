"""Print results: a line for each load, a line for each policy, and a small chart of size and need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import exp, log

from windlass.simulation.charts import format_seconds
from windlass.simulation.run import ALLOWED_LATE, SimulationResult, Timeline

BARS = " ▁▂▃▄▅▆▇█"
Best = Mapping[str, Sequence[SimulationResult]]
"""The results of each policy over the same loads, in its best setting."""


def format_loads(results: Sequence[SimulationResult]) -> list[str]:
    """Return a table with one line for each load."""
    head = (
        f"{'load':34} {'score':>7} {'cost':>6} {'late':>7} {'resizes/h':>9} {'p99 wait':>8} {'recovery':>8} "
        f"{'longest late':>12}"
    )
    return [head, *(format_load(result) for result in results)]


def format_load(result: SimulationResult) -> str:
    return (
        f"{result.load[:34]:34} {result.score:7.2f} {result.cost:6.2f} {result.late:7.2%} "
        f"{result.resizes_per_hour:9.1f} {result.wait_p99:6.1f} s {format_seconds(result.recovery):>8} "
        f"{result.longest_late:10d} s"
    )


def draw_bars(line: Timeline, width: int = 100) -> list[str]:
    """Draw size and need over time, as two rows of bars on one scale."""
    most = max([1.0, *line.ready, *line.needed])
    return [
        f"  size {draw_row(line.ready, most, width)}",
        f"  need {draw_row(line.needed, most, width)}  (full: {most:.0f})",
    ]


def draw_row(values: Sequence[float], most: float, width: int) -> str:
    step = max(1, len(values) // width)
    means = [sum(values[at : at + step]) / step for at in range(0, len(values) - step + 1, step)]
    return "".join(BARS[min(8, round(8 * mean / most))] for mean in means)


def format_policies(best: Best) -> list[str]:
    """Return a table with one line for each policy over all loads, best first."""
    head = (
        f"{'policy':14} {'setting':15} {'combined':>8} {'goal missed':>11} {'worst':>8} {'late':>7} {'p99/goal':>8} "
        f"{'cost':>6} {'resizes/h':>9} {'recovery':>8} {'longest late':>12}"
    )
    rows = sorted(best.items(), key=lambda item: compute_total(item[1]))
    return [head, *(format_policy(name, results) for name, results in rows)]


def format_policy(name: str, results: Sequence[SimulationResult]) -> str:
    """Format means over the loads; of cost the geometric mean, of times the longest."""
    missed = sum(result.late > ALLOWED_LATE for result in results)
    recoveries = [result.recovery for result in results if result.recovery is not None]
    settings = {result.setting for result in results}
    return (
        f"{name:14} {settings.pop() if len(settings) == 1 else '':15} {compute_total(results):8.2f} "
        f"{missed:4d} of {len(results):3d} {max(result.score for result in results):8.1f} "
        f"{mean([result.late for result in results]):7.2%} "
        f"{mean([result.wait_p99 / result.goal for result in results]):8.2f} "
        f"{compute_geometric_mean(result.cost for result in results):6.2f} "
        f"{mean([result.resizes_per_hour for result in results]):9.1f} "
        f"{format_seconds(max(recoveries, default=None)):>8} {max(result.longest_late for result in results):10d} s"
    )


def compute_total(results: Sequence[SimulationResult]) -> float:
    return compute_geometric_mean(result.score for result in results)


def mean(values: Sequence[float]) -> float:
    return sum(values) / max(1, len(values))


def list_losses(ours: Sequence[SimulationResult], rivals: Best, margin: float = 1.2) -> list[str]:
    """Return the loads on which a rival beats Windlass by more than the margin."""
    lines: list[str] = []
    for at, result in enumerate(ours):
        for name, results in rivals.items():
            if result.score > margin * results[at].score:
                lines.append(f"{result.load}: {result.score:.2f}, {name} {results[at].score:.2f}")
    return lines


def compute_geometric_mean(scores: Iterable[float]) -> float:
    """Return the geometric mean, in which every load counts the same."""
    logs = [log(score) for score in scores]
    return exp(sum(logs) / len(logs)) if logs else 0.0
