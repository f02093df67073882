"""The statements of a store without the store, to measure what its Python code costs.

They use the same SQL, transactions, connection settings and round trips as `stores.sql.settle` and `stores.sql.submit`,
and fetch the same rows through the same driver. What is missing is the store's own work: rows do not become tasks,
nothing is decided or counted, and most parameters are prepared in advance. If you change which statements a claim, a
settle or a submit sends, change them here too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from benchmarks.recorded import Call

Send: TypeAlias = Callable[[], object]
"""Sends a prepared submit."""


class Bare(Protocol):
    """One connection that sends the bare statements."""

    def cycle(self, batch: int) -> int:
        """Claim at most this many tasks and settle them as completed. Return their number."""
        ...

    def prepare(self, calls: Sequence[Call]) -> Send:
        """Return a function that sends these calls in one transaction, with prepared parameters."""
        ...

    def cpu(self) -> float:
        """Return the seconds of CPU time that the database has used for this connection."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...
