"""On what all of it was measured."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator

import apsw
import psutil
import psycopg

from tests.support.servers import ServerMissing, find_postgres


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
