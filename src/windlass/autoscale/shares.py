"""One agreed target, several nodes: who runs how many of the workers.

Each node computes the same shares from the same rows, so that nobody has to lead.
"""

from __future__ import annotations

from collections.abc import Mapping


def shares(target: int, ceilings: Mapping[str, int]) -> dict[str, int]:
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
