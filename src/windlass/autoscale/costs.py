"""What a pool may cost: the money of an hour as a ceiling for its size.

An hour's money is given to the seconds that are left of it, with room for bursts: what a quiet part saves, a busy part
may spend, and the hour as a whole stays within its money as far as the floor allows.
"""

from __future__ import annotations

from msgspec import Struct

from windlass.autoscale.budget import spread_money
from windlass.autoscale.observations import Observation
from windlass.autoscale.settings import Settings

HOUR = 3600.0


class Bill(Struct, frozen=True, kw_only=True, gc=False):
    """What the present hour has cost."""

    began: float = 0.0
    at: float = 0.0
    spent: float = 0.0


def charge(now: float, observed: Observation, bill: Bill, settings: Settings) -> Bill:
    """The bill after the time since the last tick; workers cost while they start and while they drain."""
    if settings.cost_per_hour is None or not bill.began or not 0 <= now - bill.began < HOUR:
        return Bill(began=now, at=now)
    workers = observed.alive + observed.draining
    spent = bill.spent + workers * settings.price * max(0.0, now - bill.at) / HOUR
    return Bill(began=bill.began, at=now, spent=spent)


def count_affordable_workers(bill: Bill, settings: Settings) -> int | None:
    """The most workers that the rest of the hour's money pays for; None if money is no matter."""
    if settings.cost_per_hour is None or settings.price <= 0:
        return None
    left = settings.cost_per_hour - bill.spent
    hours = (HOUR - (bill.at - bill.began)) / HOUR
    return int(min(spread_money(left, hours, settings.price), settings.ceiling))
