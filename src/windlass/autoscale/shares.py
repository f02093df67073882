"""One agreed target, several nodes: who runs how many of the workers.

Each node computes the same shares from the same rows, so that nobody has to lead.
"""

from __future__ import annotations

from collections.abc import Mapping

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
