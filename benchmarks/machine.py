"""On what all of it was measured."""

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


class Neighbours:
    """How much of the machine others have used since this was made: what makes rates too low."""

    def __init__(self) -> None:
        self._machine, self._ours, self._start = _machine_seconds(), _our_seconds(), perf_counter()

    def __str__(self) -> str:
        passed = (perf_counter() - self._start) * (os.cpu_count() or 1)
        others = max(0.0, _machine_seconds() - self._machine - (_our_seconds() - self._ours)) / passed
        said = f"Others used {others:.0%} of the machine's processors meanwhile"
        return f"{said}: read every rate as too low." if others > QUIET else f"{said}."


def _machine_seconds() -> float:
    used = psutil.cpu_times()
    return sum(used) - used.idle - getattr(used, "iowait", 0.0)


def _our_seconds() -> float:
    """This process and everything it has started and seen the end of, the server too."""
    ours = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in ours)


def described() -> Iterator[str]:
    """The machine, its load and the versions of what is measured."""
    memory = psutil.virtual_memory().total / 2**30
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    yield f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.platform()}; load before the run {load}"
    drivers = f"SQLite {apsw.sqlite_lib_version()}, psycopg {psycopg.__version__}"
    yield f"Python {platform.python_version()}, {drivers}, {_postgres()}"


def _postgres() -> str:
    try:
        server = find_postgres() / "postgres"
        return subprocess.run([server, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    except ServerMissing:
        return "no PostgreSQL"
