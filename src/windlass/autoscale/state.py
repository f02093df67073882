"""All that a controller remembers from tick to tick: plain values, stored as JSON and read by any node.

A state that another version wrote still loads: fields it lacks have defaults, and fields it has too many are left out.
"""

from __future__ import annotations

from msgspec import Struct

from windlass.autoscale.costs import Bill
from windlass.autoscale.estimators import Estimates
from windlass.autoscale.health import Health
from windlass.autoscale.moment import DeciderMemory
from windlass.autoscale.outages import Outage
from windlass.autoscale.overrides import Override
from windlass.autoscale.pacing import Pace
from windlass.autoscale.vetoes import Futility


class ControllerState(Struct, frozen=True, kw_only=True, gc=False):
    """The memory of one pool's controller."""

    version: int = 1
    target: int | None = None
    at: float | None = None
    began: float = 0.0
    arrivals: int = 0
    last_task: float | None = None
    estimates: Estimates = Estimates()
    pace: Pace = Pace()
    futility: Futility = Futility()
    outage: Outage = Outage()
    health: Health = Health()
    bill: Bill = Bill()
    memory: DeciderMemory = DeciderMemory()
    sizes: list[int] = []
    """One size for each minute of the last half hour, for times without data."""
    sized: float = 0.0
    """When the last of them was taken."""
    override: Override | None = None
    paused: bool = False
