"""What a decider answers: not one size but three, because growing and shrinking are judged by different risks."""

from __future__ import annotations

from msgspec import Struct


class Wish(Struct, frozen=True, kw_only=True, gc=False):
    """The answer of one decider at one tick."""

    must: float
    """Below this many workers the goal is in danger: grow now."""
    want: float
    """The size to grow to, if growing."""
    keep: float
    """What the load needs in the long run: shrink no further than its maximum over the hold."""
    peak: float = 0.0
    """What it needs with the backlog: shrink no further than its maximum over the short hold."""
    reason: str = ""


def largest(wishes: list[Wish]) -> Wish:
    """Several wishes as one: the largest counts, and its reason is told."""
    if len(wishes) == 1:
        return wishes[0]
    return Wish(
        must=max(wish.must for wish in wishes),
        want=max(wish.want for wish in wishes),
        keep=max(wish.keep for wish in wishes),
        peak=max(wish.peak for wish in wishes),
        reason=max(wishes, key=lambda wish: (wish.must, wish.want)).reason,
    )
