"""Describe the machine that runs the benchmarks."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
from collections.abc import Iterator
from time import perf_counter

import apsw
import psutil
import psycopg

from tests.support.servers import ServerMissing, find_postgres

QUIET = 0.05


class OtherLoad:
    """The CPU time that other processes have used since this object was created."""

    def __init__(self) -> None:
        self._machine, self._ours, self._start = _machine_seconds(), _our_seconds(), perf_counter()

    def __str__(self) -> str:
        passed = (perf_counter() - self._start) * (os.cpu_count() or 1)
        others = max(0.0, _machine_seconds() - self._machine - (_our_seconds() - self._ours)) / passed
        share = f"Other processes used {others:.0%} of the CPU time"
        return f"{share}, so every rate is too low." if others > QUIET else f"{share}."


def _machine_seconds() -> float:
    used = psutil.cpu_times()
    return sum(used) - used.idle - getattr(used, "iowait", 0.0)


def _our_seconds() -> float:
    """Return the CPU time of this process and its finished children, including the server."""
    ours = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in ours)


def describe_machine() -> Iterator[str]:
    """Yield the machine, its load and the versions of what is measured."""
    memory = psutil.virtual_memory().total / 2**30
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    yield f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.platform()}; load before the run {load}"
    drivers = f"SQLite {apsw.sqlite_lib_version()}, psycopg {psycopg.__version__}"
    yield f"Python {platform.python_version()}, {drivers}, {_find_postgres_version()}"


def _find_postgres_version() -> str:
    try:
        server = find_postgres() / "postgres"
        return subprocess.run([server, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    except ServerMissing:
        return "no PostgreSQL"
