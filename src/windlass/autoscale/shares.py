"""Divide workers: one target over several nodes, and one node's budget over several pools.

Every node computes the same shares from the same rows, so no leader is needed.

A budget serves the minimums first, then what each pool must have, by priority, then what they want, by priority. Pools
of the same priority share by weight (max-min fairness). The lowest priority keeps a twentieth while its tasks wait far
beyond their goal, so that no pool starves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

HOLD = 30.0
"""Seconds for which a node keeps its workers when others join, so that a brief node causes no moves."""
AGED = 10.0
"""The wait of the lowest priority above which slots are reserved for it, in multiples of the goal."""
KEPT = 0.05


def divide_target(target: int, maximums: Mapping[str, int]) -> dict[str, int]:
    """Divide a target over sessions in proportion to their maximums, by largest remainder and then session id."""
    total = sum(maximums.values())
    target = min(target, total)
    if total == 0:
        return dict.fromkeys(maximums, 0)
    exact = {session: target * most / total for session, most in maximums.items()}
    given = {session: int(part) for session, part in exact.items()}
    by_remainder = sorted(maximums, key=lambda session: (given[session] - exact[session], session))
    for session in by_remainder[: target - sum(given.values())]:
        given[session] += 1
    return given


class HeldShare(Struct, frozen=True, kw_only=True):
    """The share that a node has taken, and its target."""

    target: int = 0
    share: int = 0
    since: float | None = None
    """Since when the node should have a smaller share."""


def hold_share(now: float, held: HeldShare, target: int, share: int) -> tuple[int, HeldShare]:
    """Return this node's share. It shrinks at once with the target, but only after a hold when other nodes join."""
    since = now if held.since is None else held.since
    if share >= held.share or target < held.target or now - since >= HOLD:
        return share, HeldShare(target=target, share=share)
    return held.share, HeldShare(target=target, share=held.share, since=since)


class SlotRequest(Struct, frozen=True, kw_only=True):
    """The slots that one pool requests of the budget."""

    pool: str
    min: int = 0
    must: int = 0
    want: int = 0
    priority: int = 0
    """Higher priorities are served first."""
    weight: float = 1.0
    waited: float = 0.0
    """The wait of the oldest task, in multiples of the goal."""


def divide_slots(requests: Sequence[SlotRequest], slots: int) -> dict[str, int]:
    """Divide slots over pools. No pool gets more than it wants; only the minimums may exceed the slots."""
    given = {request.pool: request.min for request in requests}
    classes = sorted({request.priority for request in requests}, reverse=True)
    left = slots - sum(given.values())
    kept = reserve_for_lowest(requests, classes, slots)
    for level in ("must", "want"):
        for priority in classes:
            inside = [request for request in requests if request.priority == priority]
            open_to = left if priority == classes[-1] else left - kept
            missing = {request.pool: max(0, getattr(request, level) - given[request.pool]) for request in inside}
            for pool, more in divide_by_weight(
                missing, {request.pool: request.weight for request in inside}, open_to
            ).items():
                given[pool] += more
                left -= more
    return given


def reserve_for_lowest(requests: Sequence[SlotRequest], classes: Sequence[int], slots: int) -> int:
    """Return the slots reserved for the lowest priority, if it has waited too long and there is a higher one."""
    waits = len(classes) > 1 and any(request.waited > AGED for request in requests if request.priority == classes[-1])
    return max(1, int(slots * KEPT)) if waits else 0


def divide_by_weight(missing: Mapping[str, int], weights: Mapping[str, float], slots: int) -> dict[str, int]:
    """Divide slots by weight: each slot goes to the pool with the least for its weight that still misses some."""
    given = dict.fromkeys(missing, 0)
    for _ in range(max(0, min(slots, sum(missing.values())))):
        waiting = [pool for pool in missing if given[pool] < missing[pool]]
        given[min(waiting, key=lambda pool: ((given[pool] + 1) / weights[pool], pool))] += 1
    return given
