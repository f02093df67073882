"""The stores' own statements with nothing of the store around them: what its Python is held against.

The same texts, transactions, connections' settings and round trips as in `stores.sql.settle` and `stores.sql.submit`,
and the same rows fetched through the same driver. What is left out is what the store does with them: rows become no
tasks, nothing is decided or counted, parameters stand ready as far as they do not come out of the claim itself.
Whoever changes which statements a claim, a settle or a submit sends changes it here too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from benchmarks.recorded import Call

Send: TypeAlias = Callable[[], object]
"""A submit, ready to be sent."""


class Bare(Protocol):
    """One connection that knows the statements."""

    def cycle(self, batch: int) -> int:
        """Claim at most so many tasks and settle them as completed; how many they were."""
        ...

    def prepared(self, calls: Sequence[Call]) -> Send:
        """The transaction of these calls, with every parameter as the driver wants it."""
        ...

    def cpu(self) -> float:
        """Seconds of processor time that the database has used for this connection so far."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...
