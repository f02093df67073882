"""Measure one workload of one system, on empty data and with new workers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from benchmarks.cost import Cost
from benchmarks.processes import run_alone
from benchmarks.usage import Roles
from benchmarks.workloads.adapter import NotOffered, System
from benchmarks.workloads.jobs import Job
from benchmarks.workloads.plan import Plan
from benchmarks.workloads.servers import Servers
from benchmarks.workloads.worker_processes import WorkerProcesses

WORKLOADS = ("drain", "bulk", "single", "chain", "fan", "latency", "threads", "coroutines", "both")
WITHOUT_WORKERS = ("bulk", "single", "threads", "coroutines")
T = TypeVar("T")


class Line(Struct, frozen=True, kw_only=True):
    """One line of the tables: a system and how it is measured."""

    system: System
    pin: bool = False
    """Drain while an idle reader holds a snapshot."""
    sample: bool = False
    """Sample the waits of the server during a drain."""


class EmptyData:
    """An empty store with its tables and an empty file of effects, which are removed afterwards."""

    def __init__(self, servers: Servers, system: System, plan: Plan) -> None:
        self.servers, self.system, self.plan = servers, system, plan

    def __enter__(self) -> EmptyData:
        self.url = self.servers.create(self.system.store)
        self.effects: Path = self.servers.create_path("effects")
        self.run(Job.prepare)
        return self

    def __exit__(self, *_: object) -> None:
        self.servers.release(self.url)

    def run(self, work: Callable[[Job], T], roles: Roles | None = None) -> T | None:
        """Do some work of a job in its own process. Return None if the system does not support it."""

        def job(_: object) -> T | None:
            with suppress(NotOffered):
                return work(Job(self.system, self.url, self.effects, self.plan, roles))
            return None

        return run_alone(job)

    def start_workers(self) -> WorkerProcesses:
        """Start the workers of the system."""
        return WorkerProcesses(self.system, self.url, self.effects)


def measure(line: Line, workload: str, servers: Servers, plan: Plan) -> Cost | None:
    """Return what a workload costs, or None if the system does not support it."""
    system = line.system
    work: Any = getattr(Job, f"measure_{workload}")
    with EmptyData(servers, system, plan) as data:
        roles = Roles(server=servers.get_pid(system.store), split=system.name == "windlass")
        if workload in WITHOUT_WORKERS:
            return data.run(work, roles)
        if workload == "drain":
            data.run(Job.fill)
            work = partial(work, pin=line.pin, sample=line.sample)
        with data.start_workers() as workers:
            roles = Roles(server=roles.server, split=roles.split, nodes=[one.pid for one in workers.processes])
            try:
                return data.run(work, roles)
            except RuntimeError as error:
                raise RuntimeError(f"{error}\nLog of the workers:\n{workers.read_log()}") from error
