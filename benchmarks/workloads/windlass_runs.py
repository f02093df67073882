"""Measurements of Windlass alone: bare statements, memory of nodes and workers, and two kinds of crashes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from time import perf_counter

import psutil

from benchmarks.bare import Bare
from benchmarks.drain import drain, warm_up
from benchmarks.processes import run_alone
from benchmarks.progress import log_progress
from benchmarks.recorded import record_submit
from benchmarks.submits import make_tasks
from benchmarks.workloads.effects import WrongResult
from benchmarks.workloads.measure import EmptyData, Found, Runs
from benchmarks.workloads.plan import Plan
from benchmarks.workloads.servers import Servers
from benchmarks.workloads.systems import ADAPTER
from benchmarks.workloads.worker_processes import ROOT, WorkerProcesses
from tests.support.nodes import NodeProcess
from windlass import open_store
from windlass.core.lifecycle import State
from windlass.core.task import NewTask

CLAIM = 100
"""Tasks in a bare claim."""


class WindlassRuns(Runs):
    """Runs the workloads of Windlass, with a second W6 and the memory."""

    def all(self, only: Collection[str], *, first: bool) -> Iterator[Found]:
        """See `Runs`."""
        yield from super().all(only, first=first)
        if "W6" in only and first:
            yield self._try("W6 node", self._kill_node)
        if "memory" in only and first:
            yield self._try("memory", self._measure_memory)

    def _kill_worker(self) -> Found:
        """Kill one worker. Its node starts another."""
        with EmptyData(self._servers, self._system) as (url, effects):
            self._job(url, effects, "prepare")
            with WorkerProcesses(self._system, url, effects) as workers:
                self._add_worker_log(workers, lambda: self._job(url, effects, "long"))
                os.kill(self.await_long(effects), signal.SIGKILL)
                return {"w6_worker": self.await_second_start(effects, time.monotonic_ns())}

    def _kill_node(self) -> Found:
        """Kill a node with all its workers, while another node is idle."""
        with EmptyData(self._servers, self._system) as (url, effects):
            self._job(url, effects, "prepare")
            with (
                WorkerProcesses(self._system, url, effects) as one,
                WorkerProcesses(self._system, url, effects) as other,
            ):
                self._add_worker_log(one, lambda: self._job(url, effects, "long"))
                pid = self.await_long(effects)
                (one if one.owns(pid) else other).kill()
                return {"w6_node": self.await_second_start(effects, time.monotonic_ns())}

    def _measure_memory(self) -> Found:
        """Measure the memory of an idle node after some work, and the start of one more worker."""
        with EmptyData(self._servers, self._system) as (url, effects):
            self._job(url, effects, "prepare")
            variables = {"BENCH_EFFECTS": str(effects), "BENCH_URL": url}
            with NodeProcess(url, effects, "-n", "2", app=f"{ADAPTER}:app", **variables) as process:
                process.await_workers(2)
                self._job(url, effects, "warm")
                process.send(signal.SIGTTIN)
                process.await_workers(3)
                moved = [one for one in process.events("WorkerStateChanged") if one["before"] == "starting"]
                empty = _get_memory(psutil.Process(_start_interpreter().pid))
                workers = [_get_memory(worker) for worker in process.workers()]
                parent, itself = _get_memory(process.worker_parent()), _get_memory(psutil.Process(process.pid))
        return {
            "node_rss": itself[0],
            "node_uss": itself[1],
            "parent_uss": parent[1],
            "worker_rss": max(rss for rss, _ in workers),
            "worker_uss": max(uss for _, uss in workers),
            "python_rss": empty[0],
            "start_ms": moved[-1]["seconds"] * 1_000,
        }


def measure_bare_statements(store: str, servers: Servers, plan: Plan, only: Collection[str]) -> Iterator[Found]:
    """Measure the same SQL on one connection, without Windlass."""
    if "W1" in only:
        for metric, batch, many in (("w1", 1, plan.singles), ("w1_bulk", plan.batch, plan.bulk)):
            log_progress(f"bare statements ({store}): {metric}")
            yield {
                metric: _measure_submits(store, servers, [make_tasks(batch, keyed=False) for _ in range(many // batch)])
            }
    if "W2" in only:
        log_progress(f"bare statements ({store}): w2")
        yield {"w2": _measure_drain(store, servers, plan.drain)}


def _measure_submits(store: str, servers: Servers, batches: Sequence[Sequence[NewTask]]) -> float:
    url = _prepare(store, servers, 0)

    def job(_: object) -> float:
        bare = _open_bare(url)
        for _warm_up in range(20):
            bare.prepare(record_submit([NewTask(handler="noop")]))()
        ready = [bare.prepare(record_submit(batch)) for batch in batches]
        start = perf_counter()
        for send in ready:
            send()
        rate = sum(map(len, batches)) / (perf_counter() - start)
        _expect(url, State.RUNNABLE, sum(map(len, batches)) + 20)
        return rate

    try:
        return run_alone(job)
    finally:
        servers.release(url)


def _measure_drain(store: str, servers: Servers, many: int) -> float:
    url = _prepare(store, servers, many)

    def job(_: object) -> float:
        cycle = _open_bare(url).cycle
        warm_up(cycle)
        rate = drain(cycle, CLAIM).rate
        _expect(url, State.COMPLETED, many)
        return rate

    try:
        return run_alone(job)
    finally:
        servers.release(url)


def _prepare(store: str, servers: Servers, many: int) -> str:
    url = servers.create(store)

    def job(_: object) -> None:
        opened = open_store(url)
        for start in range(0, many, 1_000):
            opened.submit([NewTask(handler="noop", args={"number": n}) for n in range(start, min(start + 1_000, many))])
        opened.counts()
        opened.close()

    run_alone(job)
    return url


def _expect(url: str, state: State, many: int) -> None:
    opened = open_store(url)
    found = sum(count.tasks for count in opened.counts() if count.state is state)
    opened.close()
    if found != many:
        raise WrongResult(f"{many} tasks should be {state.value}, but {found} are.")


def _open_bare(url: str) -> Bare:
    if url.startswith("postgresql:"):
        from benchmarks.bare_postgres import BarePostgres

        return BarePostgres(url)
    from benchmarks.bare_sqlite import BareSQLite

    return BareSQLite(url.removeprefix("sqlite:///"))


def _start_interpreter() -> subprocess.Popen[bytes]:
    """Start an interpreter with only the app's imports, as a reference for memory. It exits by itself."""
    code = "import time, benchmarks.workloads.effects; print(flush=True); time.sleep(5)"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def _get_memory(process: psutil.Process) -> tuple[float, float]:
    """Return RSS and USS in MB."""
    found = process.memory_full_info()
    return found.rss / 1e6, found.uss / 1e6
