"""One agreed target, several nodes: who runs how many of the workers.

Each node computes the same shares from the same rows, so that nobody has to lead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

HOLD = 30.0
"""Seconds for which a node keeps its workers when others join, so that a node that comes and goes moves nobody."""


def divide_target(target: int, ceilings: Mapping[str, int]) -> dict[str, int]:
    """Workers for each session by the weight of its ceiling: largest remainder, ties in the order of session ids."""
    total = sum(ceilings.values())
    target = min(target, total)
    if total == 0:
        return dict.fromkeys(ceilings, 0)
    exact = {session: target * ceiling / total for session, ceiling in ceilings.items()}
    given = {session: int(part) for session, part in exact.items()}
    by_remainder = sorted(ceilings, key=lambda session: (given[session] - exact[session], session))
    for session in by_remainder[: target - sum(given.values())]:
        given[session] += 1
    return given


class Holding(Struct, frozen=True, kw_only=True):
    """The share that a node has taken, and of what."""

    target: int = 0
    share: int = 0
    since: float | None = None
    """Since when others could have a part of it."""


def hold_share(now: float, holding: Holding, target: int, share: int) -> tuple[int, Holding]:
    """The size of this node's part: smaller at once if the pool is, only after a hold if others have joined."""
    since = now if holding.since is None else holding.since
    if share >= holding.share or target < holding.target or now - since >= HOLD:
        return share, Holding(target=target, share=share)
    return holding.share, Holding(target=target, share=holding.share, since=since)


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
