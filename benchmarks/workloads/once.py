"""Measurements that run once, because they are slow and vary little: crashes, and the memory of Windlass."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from benchmarks.workloads.adapter import System
from benchmarks.workloads.effects import count_effects, read_effects, wait_until
from benchmarks.workloads.jobs import Job
from benchmarks.workloads.measure import EmptyData
from benchmarks.workloads.plan import Plan
from benchmarks.workloads.servers import Servers
from benchmarks.workloads.systems import ADAPTER
from benchmarks.workloads.worker_processes import ROOT
from tests.support.nodes import NodeProcess

ONCE = ("crash", "memory")
Found = dict[str, float | str]
"""Columns and values. It is empty if the system does not support the measurement."""


def measure_once(system: System, what: str, servers: Servers, plan: Plan) -> Found:
    """Measure crashes, or memory."""
    with EmptyData(servers, system, plan) as data:
        if what == "memory":
            return _measure_memory(data) if system.name == "windlass" else {}
        if system.name != "windlass":
            return {"worker killed s": _kill_all_workers(data)}
        worker = _kill_worker(data)
    with EmptyData(servers, system, plan) as data:
        return {"worker killed s": worker, "node killed s": _kill_node(data)}


def _kill_all_workers(data: EmptyData) -> float | str:
    """Kill all workers and start others at once, for systems without a supervisor."""
    with data.start_workers() as workers:
        data.run(Job.start_long)
        _await_long(data)
        workers.kill()
        killed = time.monotonic_ns()
        with data.start_workers():
            return _await_second_start(data, killed)


def _kill_worker(data: EmptyData) -> float | str:
    """Kill one worker. Its node starts another."""
    with data.start_workers():
        data.run(Job.start_long)
        os.kill(_await_long(data), signal.SIGKILL)
        return _await_second_start(data, time.monotonic_ns())


def _kill_node(data: EmptyData) -> float | str:
    """Kill a node with all its workers, while another node is idle."""
    with data.start_workers() as one, data.start_workers() as other:
        data.run(Job.start_long)
        pid = _await_long(data)
        (one if one.owns(pid) else other).kill()
        return _await_second_start(data, time.monotonic_ns())


def _await_long(data: EmptyData) -> int:
    """Wait until the long task has run for half a second. Return the pid of its process."""
    wait_until(lambda: bool(_list_starts(data.effects)), "the long task runs", data.plan.patience, 0.01)
    time.sleep(0.5)
    return _list_starts(data.effects)[0][1]


def _await_second_start(data: EmptyData, killed: int) -> float | str:
    """Return the seconds from the kill to the second start of the long task."""
    give_up_at = time.monotonic() + data.plan.cap
    before = count_effects(data.effects)
    while time.monotonic() < give_up_at:
        if count_effects(data.effects) > before and len(starts := _list_starts(data.effects)) > 1:
            return (starts[1][0] - killed) / 1e9
        time.sleep(0.01)
    return f"not in {data.plan.cap:.0f} s"


def _list_starts(effects: Path) -> list[tuple[int, int]]:
    """Return the times and pids of the starts of the long task."""
    return [(effect.at, effect.pid) for effect in read_effects(effects) if effect.number == 0]


def _measure_memory(data: EmptyData) -> Found:
    """Measure the memory of an idle node after some work, and the start of one more worker."""
    variables = {"BENCH_EFFECTS": str(data.effects), "BENCH_URL": data.url}
    with NodeProcess(data.url, data.effects, "-n", "2", app=f"{ADAPTER}:app", **variables) as process:
        process.await_workers(2)
        data.run(Job.warm)
        process.send(signal.SIGTTIN)
        process.await_workers(3)
        moved = [one for one in process.events("WorkerStateChanged") if one["before"] == "starting"]
        empty = _get_memory(psutil.Process(_start_interpreter().pid))
        workers = [_get_memory(worker) for worker in process.workers()]
        parent, itself = _get_memory(process.worker_parent()), _get_memory(psutil.Process(process.pid))
    return {
        "node RSS MB": itself[0],
        "node USS MB": itself[1],
        "worker parent USS MB": parent[1],
        "worker RSS MB": max(rss for rss, _ in workers),
        "worker USS MB": max(uss for _, uss in workers),
        "bare Python RSS MB": empty[0],
        "one more worker ms": moved[-1]["seconds"] * 1_000,
    }


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
