"""Applies all rules to a recording, and counts tasks, runs and duplicates."""

from __future__ import annotations

from msgspec import Struct

from tests.checker.evidence import count_duplicates, find_purged, is_kept, list_recoveries, list_submitted
from tests.checker.records import Recording
from tests.checker.rules import RULES


class Finding(Struct):
    """A violation."""

    rule: str
    what: str


class Report(Struct):
    """What the checker found, and what it counted."""

    findings: list[Finding]
    tasks: int = 0
    acknowledged: int = 0
    """Tasks of submits that were answered."""
    lost: int = 0
    """Tasks that were acknowledged and are gone, or never ended."""
    double_outcomes: int = 0
    runs: int = 0
    """Handlers that started."""
    duplicate_runs: int = 0
    """Handlers that started although an earlier run of the same task and generation had already run to its end, or was
    still running. This is the price of at-least-once; it is reported, not refused."""
    recoveries: tuple[float, ...] = ()
    """Seconds from each kill of a node until another could run its tasks."""

    @property
    def duplicate_rate(self) -> float:
        """Duplicate runs per run."""
        return self.duplicate_runs / self.runs if self.runs else 0.0

    def __str__(self) -> str:
        lines = [
            f"{self.tasks:,} tasks, {self.acknowledged:,} acknowledged, {self.lost:,} lost, "
            f"{self.double_outcomes:,} with two outcomes",
            f"{self.runs:,} runs of handlers, {self.duplicate_runs:,} of them duplicates ({self.duplicate_rate:.3%})",
        ]
        if self.recoveries:
            worst = sorted(self.recoveries)
            middle = worst[len(worst) // 2]
            lines.append(f"{len(worst):,} recoveries after a kill: median {middle:.2f} s, worst {worst[-1]:.2f} s")
        return "\n".join([*lines, *(f"{finding.rule}: {finding.what}" for finding in self.findings)])


def check(recording: Recording) -> Report:
    """Apply every rule, and count."""
    findings = [Finding(name, what) for name, rule in RULES.items() for what in rule(recording)]
    acknowledged = {id for id, status in list_submitted(recording) if status == "ok"}
    purged = find_purged(recording)
    missing = {id for id in acknowledged - purged if not is_kept(recording, id)}
    return Report(
        findings=findings,
        tasks=len(recording.tasks),
        acknowledged=len(acknowledged),
        lost=len(missing),
        double_outcomes=sum(finding.rule == "R4" for finding in findings),
        runs=sum(map(len, recording.effects.values())),
        duplicate_runs=sum(count_duplicates(recording, task) for task in recording.effects),
        recoveries=tuple(seconds for seconds, _, _ in list_recoveries(recording)),
    )
