"""What is measured of Windlass alone: its bare statements, what nodes and workers weigh, and two kinds of crashes."""

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
from benchmarks.processes import alone
from benchmarks.progress import say
from benchmarks.recorded import recorded
from benchmarks.submits import new_tasks
from benchmarks.workloads.crew import ROOT, Crew
from benchmarks.workloads.effects import Wrong
from benchmarks.workloads.measure import Found, Measured, Runs
from benchmarks.workloads.places import Places
from benchmarks.workloads.plan import Plan
from benchmarks.workloads.systems import OURS
from tests.support.nodes import NodeProcess
from windlass import open_store
from windlass.core.lifecycle import State
from windlass.core.task import NewTask

CLAIM = 100
"""How many tasks a bare claim takes."""


class OwnRuns(Runs):
    """The workloads of Windlass: W6 twice, and more."""

    def all(self, only: Collection[str], *, first: bool) -> Iterator[Found]:
        """See `Runs`."""
        yield from super().all(only, first=first)
        if "W6" in only and first:
            yield self._tried("W6 node", self._node_killed)
        if "memory" in only and first:
            yield self._tried("memory", self._weighed)

    def _killed(self) -> Found:
        """Kill the worker alone: its node starts another."""
        with Measured(self._places, self._system) as (url, effects):
            self._job(url, effects, "prepare")
            with Crew(self._system, url, effects) as crew:
                self._blamed(crew, lambda: self._job(url, effects, "long"))
                os.kill(self.await_long(effects), signal.SIGKILL)
                return {"w6_worker": self.run_again(effects, time.monotonic_ns())}

    def _node_killed(self) -> Found:
        """Kill a node with all its workers while another one waits."""
        with Measured(self._places, self._system) as (url, effects):
            self._job(url, effects, "prepare")
            with Crew(self._system, url, effects) as one, Crew(self._system, url, effects) as other:
                self._blamed(one, lambda: self._job(url, effects, "long"))
                pid = self.await_long(effects)
                (one if one.holds(pid) else other).kill()
                return {"w6_node": self.run_again(effects, time.monotonic_ns())}

    def _weighed(self) -> Found:
        """Memory of an idle node that has worked, and how long one more worker takes to start."""
        with Measured(self._places, self._system) as (url, effects):
            self._job(url, effects, "prepare")
            variables = {"BENCH_EFFECTS": str(effects), "BENCH_URL": url}
            with NodeProcess(url, effects, "-n", "2", app=f"{OURS}:app", **variables) as process:
                process.await_workers(2)
                self._job(url, effects, "warm")
                process.send(signal.SIGTTIN)
                process.await_workers(3)
                moved = [one for one in process.events("WorkerStateChanged") if one["before"] == "starting"]
                empty = _weight(psutil.Process(_bystander().pid))
                workers = [_weight(worker) for worker in process.workers()]
                nursery, itself = _weight(process.worker_parent()), _weight(psutil.Process(process.pid))
        return {
            "node_rss": itself[0],
            "node_uss": itself[1],
            "nursery_uss": nursery[1],
            "worker_rss": max(rss for rss, _ in workers),
            "worker_uss": max(uss for _, uss in workers),
            "python_rss": empty[0],
            "start_ms": moved[-1]["seconds"] * 1_000,
        }


def bare_statements(store: str, places: Places, plan: Plan, only: Collection[str]) -> Iterator[Found]:
    """The line of the table that is no system: the same SQL on one connection with nothing around it."""
    if "W1" in only:
        for metric, batch, many in (("w1", 1, plan.singles), ("w1_bulk", plan.batch, plan.bulk)):
            say(f"bare statements ({store}): {metric}")
            yield {metric: _on_empty(store, places, [new_tasks(batch, keyed=False) for _ in range(many // batch)])}
    if "W2" in only:
        say(f"bare statements ({store}): w2")
        yield {"w2": _on_full(store, places, plan.drain)}


def _on_empty(store: str, places: Places, batches: Sequence[Sequence[NewTask]]) -> float:
    url = _prepared(store, places, 0)

    def job(_: object) -> float:
        bare = _bare(url)
        for _warm_up in range(20):
            bare.prepared(recorded([NewTask(handler="noop")]))()
        ready = [bare.prepared(recorded(batch)) for batch in batches]
        start = perf_counter()
        for send in ready:
            send()
        rate = sum(map(len, batches)) / (perf_counter() - start)
        _expect(url, State.RUNNABLE, sum(map(len, batches)) + 20)
        return rate

    try:
        return alone(job)
    finally:
        places.release(url)


def _on_full(store: str, places: Places, many: int) -> float:
    url = _prepared(store, places, many)

    def job(_: object) -> float:
        cycle = _bare(url).cycle
        warm_up(cycle)
        rate = drain(cycle, CLAIM).rate
        _expect(url, State.COMPLETED, many)
        return rate

    try:
        return alone(job)
    finally:
        places.release(url)


def _prepared(store: str, places: Places, many: int) -> str:
    url = places.fresh(store)

    def job(_: object) -> None:
        opened = open_store(url)
        for start in range(0, many, 1_000):
            opened.submit([NewTask(handler="noop", args={"number": n}) for n in range(start, min(start + 1_000, many))])
        opened.counts()
        opened.close()

    alone(job)
    return url


def _expect(url: str, state: State, many: int) -> None:
    opened = open_store(url)
    found = sum(count.tasks for count in opened.counts() if count.state is state)
    opened.close()
    if found != many:
        raise Wrong(f"{many} tasks should be {state.value}, and {found} are")


def _bare(url: str) -> Bare:
    if url.startswith("postgresql:"):
        from benchmarks.bare_postgres import BarePostgres

        return BarePostgres(url)
    from benchmarks.bare_sqlite import BareSQLite

    return BareSQLite(url.removeprefix("sqlite:///"))


def _bystander() -> subprocess.Popen[bytes]:
    """An interpreter with what the app imports itself, which is what the weights are over. It ends by itself."""
    code = "import time, benchmarks.workloads.effects; print(flush=True); time.sleep(5)"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def _weight(process: psutil.Process) -> tuple[float, float]:
    """RSS and USS in MB."""
    found = process.memory_full_info()
    return found.rss / 1e6, found.uss / 1e6
