"""Applies all rules to a recording, and counts tasks, runs and duplicates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from tests.checker.evidence import Recovery, count_duplicates, find_purged, is_kept, list_recoveries, list_submitted
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
    recoveries: tuple[Recovery, ...] = ()
    """How long the tasks of lost nodes waited until others could run them."""
    session_ttl: float = 0.0

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
        by_kind: dict[str, list[float]] = {}
        for one in self.recoveries:
            by_kind.setdefault(one.kind, []).append(one.seconds)
        lines += [describe_recoveries(kind, sorted(many), self.session_ttl) for kind, many in sorted(by_kind.items())]
        return "\n".join([*lines, *(f"{finding.rule}: {finding.what}" for finding in self.findings)])


def describe_recoveries(kind: str, seconds: Sequence[float], ttl: float) -> str:
    """Return a histogram of how long tasks waited, in one line. After an outage of the store more is allowed."""
    p50, p99 = (seconds[min(len(seconds) - 1, int(share * len(seconds)))] for share in (0.5, 0.99))
    steps = [(f"TTL + {more} s" if more else "TTL", ttl + more) for more in (0, 1, 2, 6)]
    buckets = Counter(next((name for name, most in steps if each <= most), "longer") for each in seconds)
    shown = [f"{buckets[name]} within {name}" for name, _ in steps if buckets[name]]
    if buckets["longer"]:
        shown.append(f"{buckets['longer']} longer")
    figures = f"p50 {p50:.2f} s, p99 {p99:.2f} s, longest {seconds[-1]:.2f} s"
    return f"tasks freed after a {kind}: {len(seconds):,}, {figures} ({', '.join(shown)})"


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
        recoveries=tuple(list_recoveries(recording)),
        session_ttl=recording.bounds.session_ttl,
    )
