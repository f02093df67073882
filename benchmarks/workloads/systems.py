"""The configuration of Windlass. Its adapter is imported only where the address of its store is known."""

from __future__ import annotations

from benchmarks.workloads.adapter import System

ADAPTER = "benchmarks.workloads.windlass_adapter"


def make_windlass(store: str) -> System:
    """Return Windlass on `sqlite` or `postgres`, with default settings."""
    return System(
        name="windlass",
        store=store,
        module=ADAPTER,
        needs=("psycopg",) if store == "postgres" else (),
        commands=(("-m", "windlass", "worker", f"{ADAPTER}:app", "-n", "2"),),
        configuration="one node, two workers of one thread",
    )
