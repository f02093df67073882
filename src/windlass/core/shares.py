"""What tenants should get of a fair queue, and what they got.

The share due to a tenant is its weight divided by the weights of all tenants that share the queue: those that have
tasks to run, and those that used it recently. The share got is its part of the run time. What a tenant got beyond its
due is borrowed from tenants that had no tasks to run, or whose tasks were held back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from math import e
from typing import NamedTuple

from msgspec import Struct


class Used(NamedTuple):
    """The run time of a tenant in a fair queue, over one period. See `Account.get_used`."""

    tenant: str
    seconds: float
    mean: float
    """The expected run time of one of its tasks, in seconds; 0 if nothing has run yet."""

    @property
    def is_recent(self) -> bool:
        """True if it is at least what one task leaves after one period. Older time counts less, and never quite 0."""
        return self.seconds > 0 and self.seconds >= self.mean / e


class Share(Struct, frozen=True, kw_only=True):
    """The part of a fair queue that one tenant should get and got, over one period. Shares are from 0 to 1."""

    due: float = 0.0
    """0 for a tenant that neither has tasks to run nor used the queue recently."""
    got: float | None = None
    """None if nothing has run in the period."""

    @property
    def borrowed(self) -> float | None:
        """How much more than its due the tenant got; None if nothing has run."""
        return None if self.got is None else max(0.0, self.got - self.due)

    @property
    def missing(self) -> float:
        """How much less than its due the tenant got; 0 if nothing has run."""
        return 0.0 if self.got is None else max(0.0, self.due - self.got)


def compute_shares(
    used: Iterable[Used], wanting: Collection[str], get_weight: Callable[[str], int]
) -> dict[str, Share]:
    """Return the share of every tenant of a fair queue. `wanting` are the tenants that have tasks to run."""
    known = {one.tenant: one for one in used}
    sharing = {one.tenant for one in known.values() if one.is_recent} | set(wanting)
    weights, ran = sum(map(get_weight, sharing)), sum(one.seconds for one in known.values())
    return {
        tenant: Share(
            due=get_weight(tenant) / weights if tenant in sharing else 0.0,
            got=known[tenant].seconds / ran if ran and tenant in known else 0.0 if ran else None,
        )
        for tenant in known.keys() | sharing
    }
