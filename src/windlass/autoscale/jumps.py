"""Whether a rate that has jumped up tends to stay, learnt from the jumps of this very queue.

A burst looks like a new rate for as long as a worker takes to start. Where bursts end before that, workers ordered for
the whole of them come too late and stay too long; so a young rise counts only as far as earlier ones lasted.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from windlass.autoscale.rates import Rates

LEARN = 0.15
"""How much one jump teaches."""


class Jumps(Struct, frozen=True, kw_only=True, gc=False):
    """What is known about jumps, and the one that is being watched."""

    stay: float = 1.0
    """The share of a risen rate that was still there in the next reaction time."""
    young: int = 0
    """For how many more ticks the latest rise is watched; 0 when none is."""
    before: float = 0.0
    """The rate before it."""
    foreseen: float = 0.0
    """The arrivals that it promised for one reaction time, and those that came."""
    came: float = 0.0

    def discount(self, rate: float, mendable: float) -> float:
        """The rate to plan for. The more of an error could not be mended in time, the more of a rise counts."""
        if not self.young or rate <= self.before:
            return rate
        share = 1 - (1 - self.stay) * min(1.0, mendable)
        return self.before + share * (rate - self.before)


def record_jumps(jumps: Jumps, before: float, rates: Rates, arrivals: float, ticks: int) -> Jumps:
    """The jumps after one more tick, of a window that had the rate `before`; a rise is watched for so many ticks."""
    if rates.jump > 0:
        # A second jump goes on from where the first one began.
        start = jumps.before if jumps.young else before
        return replace(
            jumps, young=ticks, before=min(start, rates.rate), foreseen=rates.rate * ticks, came=0.0
        )  # fmt: skip
    if not jumps.young:
        return jumps
    young = 1 if rates.jump < 0 else jumps.young
    came = jumps.came + arrivals
    stay = jumps.stay
    if young == 1 and jumps.foreseen > 0:
        stay += LEARN * (min(1.0, came / jumps.foreseen) - stay)
    return replace(jumps, young=young - 1, came=came, stay=stay)
