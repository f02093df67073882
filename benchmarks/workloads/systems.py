"""How Windlass itself is run here. Its adapter is imported only where the address of its store is known."""

from __future__ import annotations

from benchmarks.workloads.adapter import System

OURS = "benchmarks.workloads.ours"


def windlass_on(store: str) -> System:
    """Windlass on `sqlite` or `postgres`, everything else as it comes."""
    return System(
        name="windlass",
        store=store,
        module=OURS,
        needs=("psycopg",) if store == "postgres" else (),
        commands=(("-m", "windlass", "worker", f"{OURS}:app", "-n", "2"),),
        configuration="one node, two workers of one thread",
    )
