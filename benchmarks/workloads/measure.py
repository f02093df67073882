"""One system through all workloads, each on empty data, with its workers started and ended around it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path

from benchmarks.processes import alone
from benchmarks.progress import say
from benchmarks.workloads.adapter import NotOffered, System
from benchmarks.workloads.crew import Crew
from benchmarks.workloads.effects import Wrong, count, read, wait_until
from benchmarks.workloads.jobs import Job
from benchmarks.workloads.places import Places
from benchmarks.workloads.plan import Plan

Found = dict[str, float | str]
Measurement = Callable[[], Found]

ENQUEUES = ("single", "threads", "tasks", "bulk")
METRICS = {
    "W1 single": ("w1",),
    "W1 threads": ("w1_threads",),
    "W1 tasks": ("w1_tasks",),
    "W1 bulk": ("w1_bulk",),
    "W2": ("w2",),
    "W3 latency": ("w3_p50", "w3_p99"),
    "W4 both": ("w4",),
    "W5 fan": ("w5_fan",),
    "W5 chain": ("w5_chain",),
    "W6": ("w6_worker",),
    "W6 node": ("w6_node",),
    "memory": ("node_rss",),
}
"""What has no number when a measurement fails."""

WITH_WORKERS = {"W3": ("latency",), "W4": ("both",), "W5": ("fan", "chain")}


class Runs:
    """The workloads of one system."""

    def __init__(self, system: System, places: Places, plan: Plan) -> None:
        self._system, self._places, self._plan = system, places, plan

    def all(self, only: Collection[str], *, first: bool) -> Iterator[Found]:
        """What was found, workload by workload; what takes long and varies little only in the first round."""
        if "W1" in only:
            for kind in ENQUEUES:
                yield self._tried(f"W1 {kind}", lambda kind=kind: self._enqueue(kind))
        if "W2" in only:
            yield self._tried("W2", self._drain)
        for workload, kinds in WITH_WORKERS.items():
            for kind in kinds if workload in only else ():
                yield self._tried(f"{workload} {kind}", lambda kind=kind: self._with_workers(kind))
        if "W6" in only and first:
            yield self._tried("W6", self._killed)

    def _tried(self, what: str, measurement: Measurement) -> Found:
        """A system that fails in one workload is still measured in the others; the failure is told, not hidden."""
        say(f"{self._system.title}: {what}")
        try:
            return measurement()
        except (RuntimeError, Wrong) as error:
            say(f"{self._system.title}: {what} FAILED: {error}")
            return dict.fromkeys(METRICS[what], "failed")

    def _job(self, url: str, effects: Path, kind: str) -> Found:
        """Do this in a process of its own; what the system does not offer finds nothing."""
        system, plan = self._system, self._plan

        def job(_: object) -> Found:
            with suppress(NotOffered):
                return getattr(Job(system, url, effects, plan), kind)() or {}
            return {}

        return alone(job)

    def _enqueue(self, kind: str) -> Found:
        with Measured(self._places, self._system) as (url, effects):
            self._job(url, effects, "prepare")
            return self._job(url, effects, kind)

    def _drain(self) -> Found:
        with Measured(self._places, self._system) as (url, effects):
            self._job(url, effects, "prepare")
            self._job(url, effects, "fill")
            with Crew(self._system, url, effects) as crew:
                return self._blamed(crew, lambda: self._job(url, effects, "drained"))

    def _with_workers(self, kind: str) -> Found:
        with Measured(self._places, self._system) as (url, effects):
            self._job(url, effects, "prepare")
            with Crew(self._system, url, effects) as crew:
                return self._blamed(crew, lambda: self._job(url, effects, kind))

    def _killed(self) -> Found:
        """W6 for a system whose workers are all there is: kill them all, start others at once."""
        with Measured(self._places, self._system) as (url, effects):
            self._job(url, effects, "prepare")
            with Crew(self._system, url, effects) as crew:
                self._blamed(crew, lambda: self._job(url, effects, "long"))
                self.await_long(effects)
                crew.kill()
                killed = time.monotonic_ns()
                with Crew(self._system, url, effects):
                    return {"w6_worker": self.run_again(effects, killed)}

    def await_long(self, effects: Path) -> int:
        """Until the long task runs, and half a second into it; the process that runs it."""
        wait_until(lambda: bool(_starts(effects)), "the long task runs", self._plan.patience, 0.01)
        time.sleep(0.5)
        return _starts(effects)[0][1]

    def run_again(self, effects: Path, killed: int) -> float | str:
        """Seconds from the kill to the second start of the long task."""
        give_up_at = time.monotonic() + self._plan.cap
        before = count(effects)
        while time.monotonic() < give_up_at:
            if count(effects) > before and len(starts := _starts(effects)) > 1:
                return (starts[1][0] - killed) / 1e9
            time.sleep(0.01)
        return f"not in {self._plan.cap:.0f} s"

    def _blamed(self, crew: Crew, measurement: Measurement) -> Found:
        try:
            return measurement()
        except RuntimeError as error:
            raise RuntimeError(f"{error}\nThe workers said:\n{crew.last_words()}") from error


class Measured:
    """Empty data and an empty file of effects, removed afterwards."""

    def __init__(self, places: Places, system: System) -> None:
        self._places, self._system = places, system

    def __enter__(self) -> tuple[str, Path]:
        self._url = self._places.fresh(self._system.store)
        return self._url, self._places.file("effects")

    def __exit__(self, *_: object) -> None:
        self._places.release(self._url)


def _starts(effects: Path) -> list[tuple[int, int]]:
    """When and where the long task began."""
    return [(effect.at, effect.pid) for effect in read(effects) if effect.number == 0]
