"""On what all of it was measured."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator

import apsw
import psutil
import psycopg

from tests.support.servers import ServerMissing, find_postgres
from tests.support.servers import _version as version_of  # pyright: ignore[reportPrivateUsage]


def described() -> Iterator[str]:
    """The machine, its load and the versions of what is measured."""
    memory = psutil.virtual_memory().total / 2**30
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    yield f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.platform()}; load before the run {load}"
    drivers = f"SQLite {apsw.sqlite_lib_version()}, psycopg {psycopg.__version__}"
    yield f"Python {platform.python_version()}, {drivers}, {_postgres()}"


def _postgres() -> str:
    try:
        return f"PostgreSQL {'.'.join(map(str, version_of(find_postgres())))}"
    except ServerMissing:
        return "no PostgreSQL"
