"""Lanes: parts of a queue's runnable tasks that claims look at one by one.

A claim takes tasks from partitions (column `lot`), each in its own order. Numbers from 0 are the partitions of a plain
queue. Negative numbers are lanes: one per tenant in a fair queue, and one per limit and tenant for tasks that the limit
holds back, so that a claim need not skip them again and again (docs/decisions/0022-who-goes-next.md).
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256

PARKED = -(2**62)
"""Lanes of tenants are above this number, lanes of limits below."""


@lru_cache(maxsize=10_000)
def lane_of(tenant: str) -> int:
    """Return the lane of a tenant in fair queues, as the function `windlass.lane` of PostgreSQL does."""
    return -1 - _hash(tenant)


@lru_cache(maxsize=10_000)
def parked_lane(limit: str, tenant: str) -> int:
    """Return the lane of a tenant's tasks that a limit holds back, by the name of the limit."""
    return PARKED - 1 - _hash(f"{limit}\0{tenant}")


def _hash(text: str) -> int:
    return int(sha256(text.encode()).hexdigest()[:15], 16)
