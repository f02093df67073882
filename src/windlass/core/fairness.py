"""Fair queueing: whose task is next, in a queue that several tenants share.

Every tenant has an account in every fair queue. A task that is claimed is charged to its tenant: the expected run time,
divided by the weight. The tenant that was charged least comes next, so tenants with enough tasks get run time in
proportion to their weights. When the attempt ends, the measured run time replaces the expected one.

The queue has a floor: how much the tenant whose turn it was had been charged. A tenant that had no tasks, or whose
tasks were all held back by a limit, comes back at the floor, so it has no credit for the time in which it used nothing.
When a claim wanted more tasks and leaves none waiting, workers are idle. The floor then rises to the highest charge of
all, so nobody owes anything for time that no other tenant wanted. While a limit holds back tasks, tenants compete for
what it allows, and owe each other what they used of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, MutableMapping
from heapq import heapify, heappop, heappush, heapreplace
from math import exp
from typing import NamedTuple

import msgspec
from msgspec import Struct

from windlass.core.times import Micros

TENANT = "tenant"
"""The kind of the controls with settings of tenants."""
SCALE = 1_000
"""Charges are divided by weights of up to 1000. They are multiplied by this before, to stay precise."""
REBASE_AT = 2**61
"""Charges only grow, and databases store 64 bits. Above this floor, it is subtracted from all charges of the queue."""
MAX_WEIGHT = 1_000
FIRST_RUN_TIME: Micros = 10_000
"""The expected run time of a task in a queue in which nothing has run yet."""
_SMOOTHING = 0.1
MINUTE: Micros = 60_000_000
HOUR: Micros = 60 * MINUTE
KEPT: Micros = 4 * HOUR
"""How long the account of a tenant without tasks is kept, to show what it used."""


class SetBy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who changed a setting, when and why, and until when it holds."""

    by: str
    why: str = ""
    at: Micros = 0
    until: Micros | None = None

    def holds(self, now: Micros) -> bool:
        """Return True until the setting expires."""
        return self.until is None or now < self.until


class Tenant(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of a tenant. A tenant without a control has these defaults."""

    weight: int = 1
    weight_set_by: SetBy | None = None
    paused: SetBy | None = None
    """Set while no task of the tenant may start."""

    def get_weight(self, now: Micros) -> int:
        """Return the weight at this time."""
        return self.weight if self.weight_set_by is None or self.weight_set_by.holds(now) else 1

    def is_paused(self, now: Micros) -> bool:
        """Return True if the tenant is paused at this time."""
        return self.paused is not None and self.paused.holds(now)


def encode_tenant(tenant: Tenant) -> str:
    """Encode the settings of a tenant for storage."""
    return msgspec.json.encode(tenant).decode()


def decode_tenant(text: str) -> Tenant:
    """Decode stored settings of a tenant."""
    return msgspec.json.decode(text, type=Tenant)


class Account(Struct, kw_only=True):
    """What a tenant has used of a fair queue. The account of the queue itself has no tenant name."""

    tenant: str
    charged: int = 0
    """Run time divided by weight, times `SCALE`: claimed attempts by expectation, ended ones as measured. For the
    queue, the floor."""
    highest: int = 0
    """For the queue, the highest charge of a tenant so far."""
    mean: Micros = 0
    """The expected run time of the next attempt; 0 if nothing has run yet."""
    minute: float = 0.0
    """Run time of about the last minute, in microseconds: older time counts less, by a factor of e per minute."""
    hour: float = 0.0
    """The same for the last hour."""
    at: Micros = 0
    """When `minute` and `hour` were computed."""

    def join(self, queue: Account) -> None:
        """Give the tenant its place among those with tasks, after a time without."""
        self.charged = max(self.charged, queue.charged)

    def record(self, queue: Account, ran: Micros, charge: int, attempts: int, weight: int, now: Micros) -> None:
        """Replace what was charged for attempts that have ended by what they ran."""
        self.charged += get_charge(ran, weight) - charge
        queue.highest = max(queue.highest, self.charged)
        self._note_run_time(ran, attempts, now)
        queue._note_run_time(ran, attempts, now)

    def _note_run_time(self, ran: Micros, attempts: int, now: Micros) -> None:
        """Update the expected run time and what was used recently. Attempts that did not start do not count."""
        self.minute, self.hour = self.get_used(now)
        self.minute, self.hour, self.at = self.minute + ran, self.hour + ran, max(now, self.at)
        if not attempts:
            return
        each = ran / attempts
        news = 1.0 if self.mean == 0 else 1 - (1 - _SMOOTHING) ** attempts
        self.mean = max(1, round(self.mean + news * (each - self.mean)))

    def is_forgettable(self, floor: int, now: Micros) -> bool:
        """Return True if a new account would be treated the same. For one whose tenant has no tasks."""
        return self.charged <= floor and self.at < now - KEPT

    def get_used(self, now: Micros) -> tuple[float, float]:
        """Return the run time of about the last minute and of about the last hour, in microseconds."""
        age = max(0, now - self.at)
        return self.minute * exp(-age / MINUTE), self.hour * exp(-age / HOUR)


def get_charge(ran: Micros, weight: int) -> int:
    """Return what a tenant of this weight is charged for a run time."""
    return ran * SCALE // weight


def rebase(queue: Account, accounts: Iterable[Account]) -> None:
    """Make the charges small again, before they no longer fit into a column. Their differences stay."""
    if queue.charged > REBASE_AT:
        for account in accounts:
            account.charged -= queue.charged
        queue.highest -= queue.charged
        queue.charged = 0


class Usage(NamedTuple):
    """Attempts of a tenant that have ended in a fair queue."""

    tenant: str
    ran: Micros
    charge: int
    """What was charged for them."""
    attempts: int
    at: Micros


def apply_usage(
    queue: Account, accounts: MutableMapping[str, Account], usage: Iterable[Usage], get_weight: Callable[[str], int]
) -> None:
    """Record attempts that have ended. Those of one tenant are added up first, so that their order does not matter."""
    sums: dict[str, Usage] = {}
    for one in usage:
        sums[one.tenant] = add_usage(sums.get(one.tenant), one)
    for tenant, one in sorted(sums.items()):
        account = accounts.setdefault(tenant, Account(tenant=tenant))
        account.record(queue, one.ran, one.charge, one.attempts, get_weight(tenant), one.at)


def add_usage(one: Usage | None, other: Usage) -> Usage:
    """Return the sum of two usages of one tenant."""
    if one is None:
        return other
    ran, charge = one.ran + other.ran, one.charge + other.charge
    return Usage(one.tenant, ran, charge, one.attempts + other.attempts, max(one.at, other.at))


class Turns:
    """The tenants that have tasks, in the order of their turns, while one claim chooses."""

    def __init__(self, queue: Account, accounts: Iterable[Account], get_weight: Callable[[str], int]) -> None:
        self._queue = queue
        self._get_weight = get_weight
        self._order = [(account.charged, account.tenant, account) for account in accounts]
        heapify(self._order)

    def get_next(self) -> str | None:
        """Return the tenant whose turn it is; None if there is none."""
        return self._order[0][1] if self._order else None

    def get_next_charge(self) -> int | None:
        """Return what was charged to the tenant whose turn it is; None if there is none."""
        return self._order[0][0] if self._order else None

    def add(self, account: Account) -> None:
        """Add a tenant that has tasks."""
        heappush(self._order, (account.charged, account.tenant, account))

    def plan(self, tasks: int) -> Counter[str]:
        """Return how many of the next tasks each tenant would get if all had enough. Nothing is charged."""
        order = [(charged, tenant, self._get_step(account)) for charged, tenant, account in self._order]
        planned: Counter[str] = Counter()
        for _ in range(tasks if order else 0):
            charged, tenant, step = order[0]
            planned[tenant] += 1
            heapreplace(order, (charged + step, tenant, step))
        return planned

    def _get_step(self, account: Account) -> int:
        """Return what the next task of a tenant is charged."""
        return get_charge(account.mean or self._queue.mean or FIRST_RUN_TIME, self._get_weight(account.tenant))

    def take(self) -> int:
        """Charge a task to the tenant whose turn it is, by its expected run time. Return the charge."""
        charged, tenant, account = self._order[0]
        charge = self._get_step(account)
        account.charged += charge
        self._queue.charged = max(self._queue.charged, charged)
        self._queue.highest = max(self._queue.highest, account.charged)
        heapreplace(self._order, (account.charged, tenant, account))
        return charge

    def drop(self) -> None:
        """Leave out the tenant whose turn it is, because none of its tasks can be taken."""
        heappop(self._order)

    def forgive(self) -> None:
        """Forget what tenants owe each other. For a claim that wanted more tasks when none was left."""
        self._queue.charged = self._queue.highest
