"""Run all workloads with one system, each on empty data and with new workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path

from benchmarks.processes import run_alone
from benchmarks.progress import log_progress
from benchmarks.workloads.adapter import NotOffered, System
from benchmarks.workloads.effects import WrongResult, count_effects, read_effects, wait_until
from benchmarks.workloads.jobs import Job
from benchmarks.workloads.plan import Plan
from benchmarks.workloads.servers import Servers
from benchmarks.workloads.worker_processes import WorkerProcesses

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
"""The metrics that are marked as failed when a measurement fails."""

WITH_WORKERS = {"W3": ("latency",), "W4": ("both",), "W5": ("fan", "chain")}


class Runs:
    """Runs the workloads of one system."""

    def __init__(self, system: System, servers: Servers, plan: Plan) -> None:
        self._system, self._servers, self._plan = system, servers, plan

    def all(self, only: Collection[str], *, first: bool) -> Iterator[Found]:
        """Yield the results of each workload. W6 is slow and varies little, so it runs only in the first round."""
        if "W1" in only:
            for kind in ENQUEUES:
                yield self._try(f"W1 {kind}", lambda kind=kind: self._enqueue(kind))
        if "W2" in only:
            yield self._try("W2", self._drain)
        for workload, kinds in WITH_WORKERS.items():
            for kind in kinds if workload in only else ():
                yield self._try(f"{workload} {kind}", lambda kind=kind: self._with_workers(kind))
        if "W6" in only and first:
            yield self._try("W6", self._kill_worker)

    def _try(self, what: str, measurement: Measurement) -> Found:
        """Run a measurement. If it fails, report the failure and continue with the other workloads."""
        log_progress(f"{self._system.title}: {what}")
        try:
            return measurement()
        except (RuntimeError, WrongResult) as error:
            log_progress(f"{self._system.title}: {what} FAILED: {error}")
            return dict.fromkeys(METRICS[what], "failed")

    def _job(self, url: str, effects: Path, kind: str) -> Found:
        """Run a job in its own process. The result is empty if the system does not support it."""
        system, plan = self._system, self._plan

        def job(_: object) -> Found:
            with suppress(NotOffered):
                return getattr(Job(system, url, effects, plan), kind)() or {}
            return {}

        return run_alone(job)

    def _enqueue(self, kind: str) -> Found:
        with EmptyData(self._servers, self._system) as (url, effects):
            self._job(url, effects, "prepare")
            return self._job(url, effects, kind)

    def _drain(self) -> Found:
        with EmptyData(self._servers, self._system) as (url, effects):
            self._job(url, effects, "prepare")
            self._job(url, effects, "fill")
            with WorkerProcesses(self._system, url, effects) as workers:
                return self._add_worker_log(workers, lambda: self._job(url, effects, "drain"))

    def _with_workers(self, kind: str) -> Found:
        with EmptyData(self._servers, self._system) as (url, effects):
            self._job(url, effects, "prepare")
            with WorkerProcesses(self._system, url, effects) as workers:
                return self._add_worker_log(workers, lambda: self._job(url, effects, kind))

    def _kill_worker(self) -> Found:
        """Kill all workers and start others at once. This is W6 for systems without a supervisor."""
        with EmptyData(self._servers, self._system) as (url, effects):
            self._job(url, effects, "prepare")
            with WorkerProcesses(self._system, url, effects) as workers:
                self._add_worker_log(workers, lambda: self._job(url, effects, "long"))
                self.await_long(effects)
                workers.kill()
                killed = time.monotonic_ns()
                with WorkerProcesses(self._system, url, effects):
                    return {"w6_worker": self.await_second_start(effects, killed)}

    def await_long(self, effects: Path) -> int:
        """Wait until the long task has run for half a second. Return the pid of its process."""
        wait_until(lambda: bool(_starts(effects)), "the long task runs", self._plan.patience, 0.01)
        time.sleep(0.5)
        return _starts(effects)[0][1]

    def await_second_start(self, effects: Path, killed: int) -> float | str:
        """Return the seconds from the kill to the second start of the long task."""
        give_up_at = time.monotonic() + self._plan.cap
        before = count_effects(effects)
        while time.monotonic() < give_up_at:
            if count_effects(effects) > before and len(starts := _starts(effects)) > 1:
                return (starts[1][0] - killed) / 1e9
            time.sleep(0.01)
        return f"not in {self._plan.cap:.0f} s"

    def _add_worker_log(self, workers: WorkerProcesses, measurement: Measurement) -> Found:
        try:
            return measurement()
        except RuntimeError as error:
            raise RuntimeError(f"{error}\nLog of the workers:\n{workers.read_log()}") from error


class EmptyData:
    """An empty store and an empty file of effects, which are removed afterwards."""

    def __init__(self, servers: Servers, system: System) -> None:
        self._servers, self._system = servers, system

    def __enter__(self) -> tuple[str, Path]:
        self._url = self._servers.create(self._system.store)
        return self._url, self._servers.create_path("effects")

    def __exit__(self, *_: object) -> None:
        self._servers.release(self._url)


def _starts(effects: Path) -> list[tuple[int, int]]:
    """Return the times and pids of the starts of the long task."""
    return [(effect.at, effect.pid) for effect in read_effects(effects) if effect.number == 0]
