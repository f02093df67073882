"""Claims in a SQL store: one statement chooses the next tasks, leases and counts them.

Usually the claimer can run every task at the head of a queue, and one index scan finds them (`claim`). If that finds a
task that the claimer cannot run, it is rolled back. The claim then reads which kinds of tasks the queue has, decides
about each kind with `core.serving`, and takes the first tasks of the kinds that are served (`claim_kinds`) without
reading the others. The store remembers that about the queue. Merged queues are always claimed by kinds.

In the same way the store remembers queues that are fair, or in which it found tasks that a limit concerns. Their claims
respect that (`governed_claim`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from windlass.clock import monotonic
from windlass.core.fairness import Account, Usage, apply_usage
from windlass.core.lifecycle import State
from windlass.core.limits import Running
from windlass.core.serving import EVERYTHING, Serves
from windlass.core.submission import decode_rules
from windlass.core.task import Claim, Lease, SessionId, TaskId
from windlass.core.times import Micros
from windlass.errors import SessionLost
from windlass.stores.protocol import AccountSeen, check_shares
from windlass.stores.sql.base import SqlBase
from windlass.stores.sql.database import Database, Transaction, Values
from windlass.stores.sql.governed_claim import GovernedClaim, LimitBinds, LimitsUnlocked, SettingsChanged
from windlass.stores.sql.limit_settings import LIMITS, UNREAD, LimitSettings, read_settings
from windlass.stores.sql.locks import lock_tasks
from windlass.stores.sql.rows import uuids

REACH = 2
"""A claim by kinds reads this many times its limit, because others may have locked the first tasks."""
REMEMBERED = 1_000
GUARD_SECONDS = 1.0
"""How often a claim that took tasks checks whether one of its queues needs governed claims."""
TRIES = 8
"""After this many tries, a claim assumes that limits hold back tasks in all of its queues."""


class SqlClaim(SqlBase):
    """Claim tasks. The store remembers what it learned about queues: tasks that are not served, fair queues, limits."""

    def __init__(self, db: Database, retention: timedelta, series_kept: timedelta) -> None:
        super().__init__(db, retention, series_kept)
        self._memory = ClaimMemory()

    def claim(
        self,
        session: SessionId,
        queues: Sequence[str],
        limit: int,
        *,
        serves: Serves = EVERYTHING,
        merge: bool = False,
        each: Mapping[str, int] | None = None,
    ) -> list[Claim]:
        check_shares(merge=merge, each=each)
        db = self._db
        asked = list(dict.fromkeys(queues))
        groups = [asked] if merge and len(asked) > 1 else [[queue] for queue in asked]
        chosen: list[Claim] = []

        def work(tx: Transaction) -> list[Claim]:
            chosen.clear()
            one = _Claim(db, self, self._memory, tx, session, serves, asked)
            is_short = False
            for group, most in _list_portions(groups, limit, each):
                want = min(most, limit - len(chosen))
                if want > 0:
                    taken = one.take(group, want)
                    chosen.extend(taken)
                    is_short = is_short or len(taken) < want
            one.finish(is_short=is_short, is_empty=not chosen)
            return list(chosen)

        def recover() -> list[Claim] | None:
            """After the answer to a commit was lost, return the claims if it was committed, or None to try again.

            The rows are locked to read them, because the commit may still be in progress.
            """
            if not chosen:
                return None
            held = db.transact(lambda tx: lock_tasks(db, tx, [one.id for one in chosen]))
            leased = {(row.id, row.fence, row.session) for row in held if row.state is State.LEASED}
            return [one for one in chosen if (one.id, one.lease.fence, session) in leased] or None

        if self._memory.settings is UNREAD:
            self._memory.settings = db.read(read_settings)
        tries = 0
        while True:
            tries += 1
            try:
                return db.transact(work, recover=recover)
            except _Learned as found:
                self._memory.learn(found if tries < TRIES else found.with_all(asked))
                if found.outdated:
                    self._memory.settings = db.read(read_settings)

    def accounts(self, queue: str | None = None) -> list[AccountSeen]:
        rows, ended, now = self._db.snapshot(
            [("accounts", {"queue": queue}), ("pending_usage", {"queue": queue}), ("now", {"now": self._db.now()})]
        )
        settings = self._db.read(read_settings)
        return list_accounts(rows, ended, settings, now[0][0])

    def running(self) -> list[Running]:
        found = [Running(*line) for line in self._db.read(lambda tx: tx.query("running").rows())]
        return sorted(found, key=lambda one: (one.queue, one.tenant, one.handler, one.key or ""))

    def buckets(self, limits: Sequence[str]) -> dict[str, Micros]:
        batch = [(name,) for name in sorted({*limits})]
        return dict(self._db.read(lambda tx: tx.query("buckets", batch).rows())) if batch else {}

    def wait_for_work(self, queues: Sequence[str], timeout: timedelta) -> bool:
        tokens = [at for queue in queues if (at := self._memory.tokens.get(queue)) is not None]
        if not tokens:
            return self._db.wait(queues, timeout)
        rest = timedelta(seconds=max(0.0, min(tokens) - monotonic()))
        return self._db.wait(queues, min(timeout, rest)) or rest <= timeout

    def lease(self, tx: Transaction, statement: str, batch: Sequence[Values] | None, **how: Any) -> Sequence[Values]:
        """Choose the next tasks with a statement, lease and count them. Return what a `Claim` needs of each."""
        return tx.query(statement, batch, **how).rows()

    def lease_chosen(self, tx: Transaction, chosen: Sequence[Values], **how: Any) -> Sequence[Values]:
        """Lease and count tasks that a claim has chosen. Return what a `Claim` needs of each."""
        return tx.query("claim_chosen", chosen, **how).rows()

    def park(self, tx: Transaction, batch: Sequence[Values]) -> list[UUID]:
        """Move those of these tasks that are not locked to other lanes. Return their ids."""
        return uuids(self._db, tx.query("park", batch).rows())

    def claim_chosen(
        self, tx: Transaction, session: SessionId, chosen: Sequence[Values], *, limited: bool
    ) -> list[Claim]:
        """Lease those of these tasks that are still there and not locked."""
        lines = self.lease_chosen(tx, chosen, session=session, limited=limited, now=self._db.now())
        return self.to_claims(session, lines)

    def claim_head(self, tx: Transaction, session: SessionId, queue: str, limit: int, *, settings: int) -> list[Claim]:
        """Lease the first tasks of a queue, counted for limits."""
        how = {"session": session, "settings": settings, "limited": True, "now": self._db.now()}
        return self.to_claims(session, self.lease(tx, "claim", None, queue=queue, limit=limit, **how))

    def to_claims(self, session: SessionId, lines: Sequence[Values]) -> list[Claim]:
        """Convert the results of a statement to claims."""
        uuid = self._db.uuid
        return [
            Claim(Lease(TaskId(uuid(id)), fence, session), handler, args, decode_rules(rules), *rest)
            for id, fence, handler, args, rules, *rest in lines
        ]


class ClaimMemory:
    """What a store has learned about its queues, so that the next claim begins in the right way. It may be outdated."""

    def __init__(self) -> None:
        self.settings = UNREAD
        self.mixed: set[tuple[str, Serves]] = set()
        """Queues that have tasks that a claimer cannot run."""
        self.governed: set[str] = set()
        """Queues that are fair, or have tasks that a limit may hold back."""
        self.limited: set[str] = set()
        """Those of them that have tasks with limits."""
        self.binding: set[str] = set()
        """Those in which a limit held back a task, or tasks have keys. The others are claimed from the head."""
        self.guarded: dict[tuple[str, ...], float] = {}
        """When it was last checked whether some queues are governed."""
        self.cursors: dict[str, int] = {}
        """Up to which lane a fair queue was searched for tenants."""
        self.tokens: dict[str, float] = {}
        """When a rate allows the next task of a queue, by the clock of this process."""

    def learn(self, found: _Learned) -> None:
        """Remember what a claim found. What was remembered for too many queues is forgotten."""
        for memory in (self.mixed, self.governed, self.limited, self.binding, self.guarded, self.cursors, self.tokens):
            if len(memory) >= REMEMBERED:
                memory.clear()
        if found.mixed is not None:
            self.mixed.add(found.mixed)
        self.governed |= found.governed
        self.limited |= found.limited
        self.binding |= found.binding

    def forget(self, queues: Collection[str]) -> None:
        """Forget that these queues are governed."""
        self.governed.difference_update(queues)
        self.limited.difference_update(queues)


class _Claim:
    """One try of a claim, in one transaction. It raises `_Learned` if it must be tried again in another way."""

    def __init__(
        self,
        db: Database,
        leases: SqlClaim,
        memory: ClaimMemory,
        tx: Transaction,
        session: SessionId,
        serves: Serves,
        asked: Sequence[str],
    ) -> None:
        self._db = db
        self._leases = leases
        self._memory = memory
        self._tx = tx
        self._session = session
        self._serves = serves
        self._asked = asked
        self._settings = memory.settings
        self._governed = {queue for queue in asked if queue in memory.governed}
        self._claim = self._lock() if self._governed else None

    def _lock(self) -> GovernedClaim:
        """Take the locks of all governed queues at once and in order, so that two claims never wait for each other."""
        locked = not self._settings.are_empty or not self._governed.isdisjoint(self._memory.limited)
        names = [LIMITS] * locked + [f"queue {queue}" for queue in sorted(self._governed)]
        self._tx.execute("lock_claims", names=names)
        return GovernedClaim(
            self._db,
            self._tx,
            self._leases,
            self._session,
            self._serves,
            self._settings,
            self._memory.cursors,
            self._memory.binding,
            locked=locked,
        )

    def take(self, queues: Sequence[str], limit: int) -> list[Claim]:
        """Lease the next tasks of some queues, taken as one."""
        if len(queues) > 1:  # A queue that has become fair or limited shows no tasks, and others may fill the claim.
            self._check()
        if self._claim is not None and not self._governed.isdisjoint(queues):
            try:
                return self._claim.choose(queues, limit)
            except LimitsUnlocked as found:
                raise _Learned(governed={found.queue}, limited={found.queue}) from None
            except LimitBinds as found:
                raise _Learned(binding={found.queue}) from None
            except SettingsChanged:
                raise _Learned(outdated=True) from None
        claims = self._take_merged(queues, limit) if len(queues) > 1 else self._take_next(queues[0], limit)
        concerned = {
            one.queue
            for one in claims
            if one.rules.limit is not None
            or (not self._settings.are_empty and self._settings.concern(one.queue, one.tenant, one.handler, one.rules))
        }
        if concerned:
            raise _Learned(governed=concerned, limited=concerned)
        return claims

    def finish(self, *, is_short: bool, is_empty: bool) -> None:
        """Check what the claims could not see, and write what limits used.

        With `is_short`, a queue had fewer tasks than it was asked for. It may be one that needs governed claims.
        """
        key, now, memory = tuple(self._asked), monotonic(), self._memory
        if is_empty or (is_short and now - memory.guarded.get(key, -GUARD_SECONDS) >= GUARD_SECONDS):
            self._check()
            memory.guarded[key] = now
        for queue in self._asked:
            memory.tokens.pop(queue, None)
        if self._claim is None:
            return
        delay = self._claim.write()
        if self._claim.is_unfinished:
            delay = 0
        concerned = self._governed & self._claim.concerned
        if delay is not None:
            memory.tokens |= dict.fromkeys(concerned, now + delay / 1e6)
        # Not before the end: what a claim forgets it must not need again when it is tried in another way.
        memory.binding.difference_update(self._claim.unbound)
        memory.forget(self._governed - concerned)

    def _check(self) -> None:
        found = self._tx.query("claim_guard", session=self._session, queues=list(self._asked)).rows()
        alive, number, _ = found[0]
        if not alive:
            raise SessionLost(self._session)
        governed = {queue for _, _, queue in found if queue is not None}
        outdated = number != self._settings.number
        if outdated or governed - self._governed:
            raise _Learned(governed=governed, outdated=outdated)

    def _take_next(self, queue: str, limit: int) -> list[Claim]:
        """Lease the next tasks of a queue that the claimer serves."""
        mixed = (queue, self._serves)
        if mixed in self._memory.mixed:
            kinds, all_served = self._kinds(queue)
            if not all_served:
                return self._by_kind(kinds, limit)
            self._memory.mixed.discard(mixed)
        lines = self._leases.lease(self._tx, "claim", None, queue=queue, limit=limit, **self._how())
        claims = self._leases.to_claims(self._session, lines)
        if self._serves != EVERYTHING and not all(self._serves.can_run(one.handler, one.rules) for one in claims):
            raise _Learned(mixed=mixed)
        return claims

    def _take_merged(self, queues: Sequence[str], limit: int) -> list[Claim]:
        return self._by_kind([kind for queue in queues for kind in self._kinds(queue)[0]], limit)

    def _kinds(self, queue: str) -> tuple[list[Values], bool]:
        """Return the kinds of runnable tasks in a queue that the claimer serves, and True if it serves all."""
        there = self._tx.query("kinds", queue=queue).rows()
        can_run = self._serves.can_run
        served = [(queue, kind) for kind, handler, rules in there if can_run(handler, decode_rules(rules))]
        return served, len(served) == len(there)

    def _by_kind(self, kinds: Sequence[Values], limit: int) -> list[Claim]:
        if not kinds:
            return []
        how = self._how()
        lines = self._leases.lease(self._tx, "claim_kinds", kinds, limit=limit, reach=REACH * limit, **how)
        return self._leases.to_claims(self._session, lines)

    def _how(self) -> dict[str, Any]:
        settings = self._settings
        return {
            "session": self._session,
            "settings": settings.number,
            "limited": bool(settings.limits),
            "now": self._db.now(),
        }


def _list_portions(
    groups: Sequence[list[str]], limit: int, each: Mapping[str, int] | None
) -> list[tuple[list[str], int]]:
    """Return from which queues to take tasks, one after the other, and how many at most."""
    first = [([queue], each.get(queue, limit)) for [queue] in groups] if each else []
    return [(group, most) for group, most in first if most > 0] + [(group, limit) for group in groups]


def list_accounts(
    rows: Sequence[Values], ended: Sequence[Values], settings: LimitSettings, now: int
) -> list[AccountSeen]:
    """Return accounts with the attempts that have ended since they were written."""
    queues: dict[str, dict[str, Account]] = {}
    for queue, tenant, charged, highest, mean, minute, hour, at, _ in rows:
        account = Account(tenant=tenant, charged=charged, highest=highest, mean=mean, minute=minute, hour=hour, at=at)
        queues.setdefault(queue, {})[tenant] = account
    usage: dict[str, list[Usage]] = {}
    for queue, *one in ended:
        usage.setdefault(queue, []).append(Usage(*one))
    for queue, some in usage.items():
        accounts = queues.setdefault(queue, {})
        own = accounts.setdefault("", Account(tenant=""))
        apply_usage(own, accounts, some, lambda tenant: settings.get_weight(tenant, now))
    return [_see(queue, queues[queue][tenant], now) for queue in sorted(queues) for tenant in sorted(queues[queue])]


def _see(queue: str, account: Account, now: int) -> AccountSeen:
    minute, hour = account.get_used(now)
    return AccountSeen(
        queue=queue,
        tenant=account.tenant,
        charged=account.charged,
        mean=account.mean / 1e6,
        last_minute=minute / 1e6,
        last_hour=hour / 1e6,
    )


class _Learned(Exception):
    """A claim found out something about its queues. It is rolled back and tried again in another way."""

    def __init__(
        self,
        *,
        mixed: tuple[str, Serves] | None = None,
        governed: Iterable[str] = (),
        limited: Iterable[str] = (),
        binding: Iterable[str] = (),
        outdated: bool = False,
    ) -> None:
        super().__init__()
        self.mixed = mixed
        """A queue that has tasks that the claimer cannot run."""
        self.governed = frozenset(governed)
        self.limited = frozenset(limited)
        self.binding = frozenset(binding)
        self.outdated = outdated
        """True if the settings have changed."""

    def with_all(self, queues: Iterable[str]) -> _Learned:
        """Return the same, as if every one of these queues had been found to need the most."""
        all_queues = frozenset(queues)
        return _Learned(
            mixed=self.mixed, governed=all_queues, limited=all_queues, binding=all_queues, outdated=self.outdated
        )
