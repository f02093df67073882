"""The accounts of a fair queue while one claim chooses: which tenants have tasks, and whose turn it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from windlass.core.fairness import REBASE_AT, Account, Turns, Usage, apply_usage
from windlass.core.times import Micros
from windlass.stores.sql.database import Answer, Transaction, Values
from windlass.stores.sql.lanes import PARKED
from windlass.stores.sql.limit_settings import LimitSettings

SOUGHT = 64
"""How many lanes a claim looks at once, to find tenants that have become active."""
SOUGHT_WHEN_SHORT = 1_024
"""How many lanes it looks at if it found too few tasks."""
_LEAST = -(2**63)


class FairTurns:
    """The turns of one claim. The first queries are sent when it is made, and `load` reads their results.

    `cursors` says where the search for tenants continues, by queue.
    """

    def __init__(
        self, tx: Transaction, queue: str, settings: LimitSettings, cursors: dict[str, int], limit: int
    ) -> None:
        self._tx = tx
        self._queue = queue
        self._settings = settings
        self._cursors = cursors
        self._page = limit + SOUGHT
        self._first = cursors.get(queue, PARKED)
        self._queries = (
            tx.query("used_accounts", queue=queue),
            tx.query("take_usage", queue=queue),
            self._ask_page(_LEAST, ""),
            self._ask_lanes(),
        )
        self._own = Account(tenant="")
        self._accounts: dict[str, Account] = {}
        self._active: set[str] = set()
        self._dropped: set[str] = set()
        self._changed: set[str] = set()
        self._turns = Turns(self._own, [], self._get_weight)
        self._page_end: tuple[int, str] | None = None
        """The last account that was read, by charge; None if all active ones were."""
        self._seen = 0
        self._wrapped = False
        self._saw_all = False
        self._now: Micros = 0

    @property
    def is_cut_short(self) -> bool:
        """True if the search for tenants stopped before the last lane, so that the next claim should go on."""
        return not self._saw_all and not self._wrapped

    def load(self, now: Micros) -> None:
        """Read the accounts that are charged least, add what has ended, and find tenants that have become active."""
        self._now = now
        used, usage, page, lanes = (query.rows() for query in self._queries)
        for line in used:
            self._add_account(line)
        self._add_usage([Usage(*line) for line in usage])
        self._turns = Turns(self._own, [self._accounts[tenant] for tenant in self._active], self._get_weight)
        self._add_page(page)
        has_new = self._add_lanes(lanes)
        while has_new and not self._saw_all and self._seen < self._page:  # As many tenants as tasks may have a turn.
            has_new = self._add_lanes(self._ask_lanes().rows())

    def add_tenants(self, tenants: Iterable[str]) -> bool:
        """Give tenants their place that have tasks and no active account. Return True if there are any."""
        new = [tenant for tenant in tenants if tenant not in self._active and tenant not in self._dropped]
        self._find(tenant for tenant in new if tenant not in self._accounts)
        for tenant in new:
            account = self._accounts.setdefault(tenant, Account(tenant=tenant))
            if tenant not in self._active:
                account.join(self._own)
                self._active.add(tenant)
            self._changed.add(tenant)
            self._turns.add(account)
        return bool(new)

    def plan(self, tasks: int) -> Counter[str]:
        """Return how many of the next tasks each tenant would get if all had enough."""
        self._read_on()
        return self._turns.plan(tasks)

    def get_next(self) -> str | None:
        """Return the tenant whose turn it is; None if there is none."""
        self._read_on()
        return self._turns.get_next()

    def take(self) -> int:
        """Charge a task to the tenant whose turn it is. Return the charge."""
        self._changed.add(self._get_current())
        return self._turns.take()

    def drop(self) -> None:
        """Leave out the tenant whose turn it is, because none of its tasks can be taken."""
        tenant = self._get_current()
        self._turns.drop()
        self._active.discard(tenant)
        self._dropped.add(tenant)
        self._changed.add(tenant)

    def refund(self, charges: Iterable[tuple[str, int]]) -> None:
        """Give back what was charged for tasks that were locked or gone."""
        for tenant, charge in charges:
            self._accounts[tenant].charged -= charge

    def discover(self) -> bool:
        """Look for more tenants with tasks. Return True if there are any."""
        while not self._saw_all and self._seen < SOUGHT_WHEN_SHORT:
            if self._add_lanes(self._ask_lanes().rows()):
                return True
        return False

    def give_back(self) -> None:
        """Put ended attempts back: the queue is no longer fair, so this claim does not add them to the accounts."""
        self._tx.execute("record_usage", [(self._queue, *line) for line in self._queries[1].rows()])
        self._cursors.pop(self._queue, None)

    def write(self, *, forgive: bool) -> None:
        """Write the accounts that have changed. With `forgive` nobody owes anything: no task was left."""
        if forgive and self._saw_all:
            self._turns.forgive()
        changed = [self._own, *(self._accounts[tenant] for tenant in sorted(self._changed))]
        self._tx.execute("put_accounts", [self._row(account) for account in changed])
        if self._own.charged > REBASE_AT:
            self._tx.execute("rebase_accounts", queue=self._queue, floor=self._own.charged)

    def _get_current(self) -> str:
        tenant = self._turns.get_next()
        assert tenant is not None
        return tenant

    def _ask_page(self, charged: int, tenant: str) -> Answer:
        return self._tx.query("next_accounts", queue=self._queue, charged=charged, tenant=tenant, limit=self._page)

    def _ask_lanes(self) -> Answer:
        after = self._cursors.get(self._queue, PARKED)
        return self._tx.query("find_lanes", queue=self._queue, after=after, limit=SOUGHT)

    def _add_usage(self, ended: Sequence[Usage]) -> None:
        """Add attempts that have ended to the accounts. Some may have ended after the accounts were read."""
        tenants = {one.tenant for one in ended}
        self._find(tenants - self._accounts.keys())
        apply_usage(self._own, self._accounts, ended, self._get_weight)
        self._changed |= tenants

    def _find(self, tenants: Iterable[str]) -> None:
        batch = [(self._queue, tenant) for tenant in sorted(tenants)]
        for line in self._tx.query("find_accounts", batch).rows() if batch else ():
            self._add_account(line)

    def _add_account(self, line: Values) -> None:
        _, tenant, charged, highest, mean, minute, hour, at, active = line
        account = Account(tenant=tenant, charged=charged, highest=highest, mean=mean, minute=minute, hour=hour, at=at)
        if not tenant:
            self._own = account
            return
        self._accounts[tenant] = account
        if active:
            self._active.add(tenant)

    def _add_page(self, rows: Sequence[Values]) -> None:
        self._page_end = (rows[-1][2], rows[-1][1]) if len(rows) == self._page else None
        for line in rows:
            if line[1] not in self._accounts:
                self._add_account(line)
                self._turns.add(self._accounts[line[1]])

    def _read_on(self) -> None:
        """Read more accounts before the turn of a tenant that was charged more than one that was not read."""
        while self._page_end is not None:
            charge = self._turns.get_next_charge()
            if charge is not None and charge < self._page_end[0]:
                return
            self._add_page(self._ask_page(*self._page_end).rows())

    def _add_lanes(self, rows: Sequence[Values]) -> bool:
        """Add tenants that have become active. Return True if there are any."""
        self._seen += len(rows)
        if len(rows) < SOUGHT:
            self._saw_all = self._saw_all or self._wrapped or self._first == PARKED
            self._wrapped = True
        elif self._wrapped and rows[-1][0] >= self._first:
            self._saw_all = True
        self._cursors[self._queue] = rows[-1][0] if len(rows) == SOUGHT else PARKED
        return self.add_tenants(tenant for _, tenant in rows)

    def _get_weight(self, tenant: str) -> int:
        return self._settings.get_weight(tenant, self._now)

    def _row(self, one: Account) -> Values:
        active = one.tenant in self._active
        return (self._queue, one.tenant, one.charged, one.highest, one.mean, one.minute, one.hour, one.at, active)
