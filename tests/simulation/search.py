"""Runs many seeds, and finds the smallest set of faults with which a seed still fails."""

from __future__ import annotations

import time
from collections.abc import Iterable

from msgspec import Struct, field

from tests.simulation.faults import Faults
from tests.simulation.run import HONEST, Mutant, run


class Totals(Struct):
    """What some seeds did."""

    seeds: int = 0
    virtual_seconds: float = 0.0
    tasks: int = 0
    acknowledged: int = 0
    lost: int = 0
    double_outcomes: int = 0
    runs: int = 0
    duplicate_runs: int = 0
    recoveries: int = 0
    worst_recovery: float = 0.0
    failures: dict[int, list[str]] = field(default_factory=dict)

    def add(self, other: Totals) -> None:
        """Add what other seeds did."""
        for name in ("seeds", "virtual_seconds", "tasks", "acknowledged", "lost", "double_outcomes", "runs"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.duplicate_runs += other.duplicate_runs
        self.recoveries += other.recoveries
        self.worst_recovery = max(self.worst_recovery, other.worst_recovery)
        self.failures |= other.failures

    def __str__(self) -> str:
        share = self.duplicate_runs / self.runs if self.runs else 0.0
        return (
            f"{self.seeds:,} seeds, {self.virtual_seconds / 3600:.1f} virtual hours, {self.tasks:,} tasks, "
            f"{self.lost} lost, {self.double_outcomes} with two outcomes, "
            f"{self.runs:,} runs of which {self.duplicate_runs:,} were duplicates ({share:.2%}), "
            f"{self.recoveries:,} tasks of killed nodes recovered, the slowest in {self.worst_recovery:.2f} s; "
            f"{len(self.failures)} failing seeds"
        )


def survey(seeds: Iterable[int], *, mutant: Mutant = HONEST, until: float = float("inf"), stop: bool = True) -> Totals:
    """Run seeds, up to the first that fails or until this time of the monotonic clock."""
    totals = Totals()
    for seed in seeds:
        outcome = run(seed, mutant=mutant)
        report = outcome.report
        totals.add(
            Totals(
                seeds=1,
                virtual_seconds=outcome.seconds,
                tasks=report.tasks,
                acknowledged=report.acknowledged,
                lost=report.lost,
                double_outcomes=report.double_outcomes,
                runs=report.runs,
                duplicate_runs=report.duplicate_runs,
                recoveries=len(report.recoveries),
                worst_recovery=max((one.seconds for one in report.recoveries), default=0.0),
            )
        )
        if report.findings:
            totals.failures[seed] = [f"{finding.rule}: {finding.what}" for finding in report.findings]
        if (report.findings and stop) or time.monotonic() > until:
            break
    return totals


def shrink(seed: int, *, mutant: Mutant = HONEST) -> Faults:
    """Return a set of faults with which the seed still fails, and of which none can be left out."""
    faults, left = run(seed, mutant=mutant).faults, True
    while left:
        left = False
        for kind in sorted(faults.kinds):
            fewer = faults.without(kind)
            if run(seed, faults=fewer, mutant=mutant).findings:
                faults, left = fewer, True
    return faults
