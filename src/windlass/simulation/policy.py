"""What a policy is: something that sees one second of a pool and says how large the pool shall be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias, runtime_checkable

from windlass.autoscale.observe import Observation
from windlass.simulation.load import Load


class Policy(Protocol):
    """The second that has just ended, and what was seen in it → the size that the pool shall have."""

    def __call__(self, now: int, seen: Observation, /) -> int: ...


@runtime_checkable
class Telling(Protocol):
    """A policy that can say why it decided as it did."""

    said: str


Start: TypeAlias = Callable[[Load], tuple[int, Policy]]
"""A fresh policy for a load, and the size with which it begins."""
