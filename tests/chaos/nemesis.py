"""Breaks things on a seeded schedule, and records what it broke.

The faults themselves are in `tests/chaos/faults/`, by what they break. Their numbers are those of the table in
docs/architecture/testing.md.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from typing import TypeAlias

from msgspec import Struct

from tests.chaos.cluster import Cluster
from tests.chaos.history import History
from tests.checker.records import Fault
from windlass.errors import StoreError

Break: TypeAlias = "Callable[[Nemesis], None]"
EVERYWHERE = frozenset({"sqlite", "postgres"})
POSTGRES = frozenset({"postgres"})
SQLITE = frozenset({"sqlite"})
STARTED_SECONDS = 6.0
"""How long a node or server that was started again may take until it works, on a busy machine."""


class Drawn(Struct, frozen=True):
    """A fault that the nemesis may draw."""

    do: Break
    on: frozenset[str]
    """The stores that it concerns."""
    needs: str
    """What the machine must have for it, as named by `Cluster.missing`."""


DRAWN: dict[str, Drawn] = {}
"""The faults by number and name."""


def fault(name: str, *, on: frozenset[str] = EVERYWHERE, needs: str = "") -> Callable[[Break], Break]:
    """Let the nemesis draw this function under a name that begins with the number of the fault."""

    def register(do: Break) -> Break:
        DRAWN[name] = Drawn(do, on, needs)
        return do

    return register


class Nemesis:
    """Draws faults from one seed and carries them out, one after the other, on whatever runs then."""

    def __init__(self, cluster: Cluster, history: History, rng: Random) -> None:
        self.cluster = cluster
        self.history = history
        self.rng = rng
        self.faults: list[Fault] = []
        self.counts: Counter[str] = Counter()
        self.lasting = ExitStack()
        """What stays broken while other faults come and go, until it is drawn again or the run ends."""

    def run(self, seconds: float) -> None:
        """Break something about every two seconds, each fault once before any comes again."""
        until = time.monotonic() + seconds
        cards: list[str] = []
        with self.lasting:
            while time.monotonic() < until:
                self.pause(0.5, 2.5)
                if not cards:
                    cards = self.list_possible()
                    self.rng.shuffle(cards)
                name = cards.pop()
                DRAWN[name].do(self)
                self.counts[name] += 1

    def list_possible(self) -> list[str]:
        """Return the faults that concern this store and that this machine allows."""
        return [name for name, drawn in DRAWN.items() if self._concerns(drawn) and drawn.needs not in self.missing]

    def list_impossible(self) -> dict[str, str]:
        """Return the faults that concern this store but not this machine, each with the reason."""
        missing = self.missing
        return {
            name: missing[drawn.needs]
            for name, drawn in DRAWN.items()
            if self._concerns(drawn) and drawn.needs in missing
        }

    @property
    def missing(self) -> dict[str, str]:
        return self.cluster.missing

    @contextmanager
    def recorded(self, kind: str, node: str = "", *, settles: float = 0.0) -> Iterator[Fault]:
        """Record a fault that lasts for the block and then for `settles` seconds; without a node, it is the store's."""
        record = Fault(kind=kind, node=node, start=time.time(), sessions=self.find_sessions(node) if node else ())
        record.start = time.time()
        self.faults.append(record)
        try:
            yield record
        finally:
            record.end = time.time() + settles

    def find_sessions(self, node: str) -> tuple[str, ...]:
        """Return the live sessions of a node."""
        try:
            return tuple(str(one.id) for one in self.cluster.observer.sessions() if one.node == node and not one.lost)
        except StoreError:
            return ()

    def pause(self, least: float, most: float) -> None:
        """Let a fault last for a while."""
        threading.Event().wait(self.rng.uniform(least, most))

    def _concerns(self, drawn: Drawn) -> bool:
        return self.cluster.kind in drawn.on
