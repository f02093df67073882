"""Several pools, one budget: who gets how many workers when there are not enough for all.

Floors first, then what every pool must have, class by class in priority, then what they want, the same way. Inside a
class the scarce rest is shared max-min by weight. The lowest class keeps a twentieth while it waits far beyond its
goal, so that nothing starves. The budget also makes a ceiling of money.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from msgspec import Struct

AGED = 10.0
"""Goals that the oldest task of the lowest class has waited when a part is kept for it."""
KEPT = 0.05


class SlotRequest(Struct, frozen=True, kw_only=True):
    """What one pool asks of the budget."""

    pool: str
    floor: int = 0
    must: int = 0
    want: int = 0
    priority: int = 0
    """The higher is served first."""
    weight: float = 1.0
    waited: float = 0.0
    """The wait of its oldest task, in multiples of its goal."""


def divide_slots(claims: Sequence[SlotRequest], slots: int) -> dict[str, int]:
    """Workers for each pool: never more than it wants, and together never more than there are beyond the floors."""
    given = {claim.pool: claim.floor for claim in claims}
    classes = sorted({claim.priority for claim in claims}, reverse=True)
    left = slots - sum(given.values())
    kept = reserve_for_lowest(claims, classes, slots)
    for level in ("must", "want"):
        for priority in classes:
            inside = [claim for claim in claims if claim.priority == priority]
            open_to = left if priority == classes[-1] else left - kept
            wishes = {claim.pool: max(0, getattr(claim, level) - given[claim.pool]) for claim in inside}
            for pool, more in divide_by_weight(wishes, {claim.pool: claim.weight for claim in inside}, open_to).items():
                given[pool] += more
                left -= more
    return given


def reserve_for_lowest(claims: Sequence[SlotRequest], classes: Sequence[int], slots: int) -> int:
    """What is kept for the lowest class, if it has waited far too long and there is a higher one."""
    waits = len(classes) > 1 and any(claim.waited > AGED for claim in claims if claim.priority == classes[-1])
    return max(1, int(slots * KEPT)) if waits else 0


def divide_by_weight(wishes: Mapping[str, int], weights: Mapping[str, float], slots: int) -> dict[str, int]:
    """Weighted max-min: each next slot goes to the one that has least for its weight and still wishes."""
    given = dict.fromkeys(wishes, 0)
    for _ in range(max(0, min(slots, sum(wishes.values())))):
        hungry = [pool for pool in wishes if given[pool] < wishes[pool]]
        given[min(hungry, key=lambda pool: ((given[pool] + 1) / weights[pool], pool))] += 1
    return given


def spread_money(money_left: float, seconds_left: float, price: float, burst: float = 1.5) -> float:
    """The most workers that the rest of the money allows, spent evenly with some room for bursts."""
    if price <= 0 or seconds_left <= 0:
        return inf
    return max(0.0, money_left) / seconds_left * burst / price
