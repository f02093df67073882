"""The configuration of Windlass. Its adapter is imported only where the address of its store is known."""

from __future__ import annotations

from benchmarks.workloads.adapter import System

ADAPTER = "benchmarks.workloads.windlass_adapter"


def make_windlass(store: str, *, nodes: int = 1, workers: int = 2) -> System:
    """Return Windlass on `sqlite` or `postgres`, with default settings."""
    plural = "" if nodes == 1 else "s"
    return System(
        name="windlass",
        store=store,
        module=ADAPTER,
        needs=("psycopg",) if store == "postgres" else (),
        commands=(("-m", "windlass", "worker", f"{ADAPTER}:app", "-n", str(workers), "--quiet"),) * nodes,
        configuration=f"{nodes} node{plural} with {workers} workers of one thread",
        variant="" if nodes == 1 else f"{nodes} nodes",
    )
