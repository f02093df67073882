"""The limits and the settings of tenants, as one store process last read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from windlass.core.fairness import TENANT, Tenant, decode_tenant
from windlass.core.limits import LIMIT, Limit, decode_limit, scope_names
from windlass.core.task import Rules
from windlass.core.times import Micros
from windlass.stores.sql.database import Transaction

LIMITS = "limits"
"""The name of the lock for claims under limits. That of a queue starts with "queue "."""


class LimitSettings(NamedTuple):
    """The limits and settings of tenants with this number. Every change of one of them raises the number."""

    number: int
    limits: Mapping[str, Limit]
    tenants: Mapping[str, Tenant]

    @property
    def are_empty(self) -> bool:
        """True if no limit and no tenant has settings."""
        return not self.limits and not self.tenants

    def concern(self, queue: str, tenant: str, handler: str, rules: Rules) -> bool:
        """Return True if a limit or the pause of its tenant may hold back such a task."""
        if rules.limit is not None or self.are_empty:
            return rules.limit is not None
        known = self.tenants.get(tenant)
        if known is not None and known.paused is not None:
            return True
        return any(name in self.limits for name in scope_names(queue, tenant, handler, None))

    def get_weight(self, tenant: str, now: Micros) -> int:
        """Return the weight of a tenant at this time."""
        known = self.tenants.get(tenant)
        return 1 if known is None else known.get_weight(now)


UNREAD = LimitSettings(-1, {}, {})


def read_settings(tx: Transaction) -> LimitSettings:
    """Read the current settings. The number is read first: what changes meanwhile makes it outdated."""
    number = tx.query("settings_number")
    controls = tx.query("controls", kinds=[LIMIT, TENANT])
    [(current,)] = number.rows()
    found = controls.rows()
    limits = (decode_limit(value) for kind, _, _, value, _ in found if kind == LIMIT)
    tenants = {name: decode_tenant(value) for kind, name, _, value, _ in found if kind == TENANT}
    return LimitSettings(current, {limit.name: limit for limit in limits}, tenants)


def note_change(tx: Transaction, kind: str, name: str) -> None:
    """Make claims respect a changed limit or tenant, and look again at the tasks that it held back."""
    if kind not in (LIMIT, TENANT):
        return
    tx.execute("raise_settings")
    if kind == LIMIT:
        tx.execute("count_leases")
    tx.execute("lock_claims", names=[LIMITS])  # Claims under limits write the same rows in another order.
    tx.execute("ready_names", changed_names(kind, name))


def changed_names(kind: str, name: str) -> list[tuple[str]]:
    """Return the names of the limits that a control changes. The pause of a tenant is a limit of 0."""
    return [(name if kind == LIMIT else f"tenant={name}",)]


def names_of(scopes: Iterable[tuple[str, str, str, str | None]]) -> list[tuple[str]]:
    """Return the names of the limits that may hold tasks in these scopes, each once."""
    return [(name,) for name in sorted({name for scope in scopes for name in scope_names(*scope)})]
