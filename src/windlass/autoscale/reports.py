"""What a node says about its pools, once a second, for whoever decides next.

Counters only grow while a session lasts, so a report that was missed costs nothing: the next one says it all. Sizes are
as they are now. Workers count as workers; what they run counts in tasks.
"""

from __future__ import annotations

from msgspec import Struct

from windlass.autoscale.settings import Settings


class Totals(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a pool has done on a node since the node's session began."""

    claimed: int = 0
    returned: int = 0
    """Tasks that went back to their queue unbegun."""
    started: int = 0
    late: int = 0
    ended: int = 0
    errors: int = 0
    retrying: int = 0
    """Attempts after which the task waits for its next one."""
    busy: float = 0.0
    """Seconds that tasks have run for, the unfinished ones too."""
    deaths: int = 0


class PoolReport(Totals, frozen=True, kw_only=True, omit_defaults=True):
    """One pool on one node."""

    queues: tuple[str, ...] = ()
    threads: int = 1
    floor: int = 0
    ceiling: int = 0
    """How many workers this node may have in it, by its settings and what its budget leaves."""
    most: int = 0
    """How many it may have in it when a person orders more."""
    settings: Settings = Settings()
    """What the node was told about goals; the bounds are the two above."""
    fixed: bool = False
    """Whether the node was told a size: then the pool does not size itself."""
    target: int = 0
    ready: int = 0
    starting: int = 0
    draining: int = 0
    asleep: int = 0
    """Workers within the target that left because nobody needed them, and come back at once when somebody does."""
    running: int = 0
    start_delay: float = 0.0
    limit: int | None = None
    asked: int | None = None
    """The most workers, over all nodes, that the signals of this node allow; and the number that they ask for."""
    decided: dict[str, float] = {}
    """The workers, over all nodes, that deciders of the app ask for on this node, by name as in `app:by_orders`."""
    downstream: str = ""
    """What all of its latest tasks needed, if that was one and the same."""


class NodeReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All pools of a node."""

    pools: dict[str, PoolReport] = {}
    degraded: str = ""
    """What is wrong with the node's own controller; empty when nothing is."""
