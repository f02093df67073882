"""Claims in the memory store: whose turn it is, which tasks may start, and what they are charged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import merge as merge_sorted

from msgspec.structs import replace

from windlass.core.fairness import TENANT, Account, Tenant, Turns, apply_usage, decode_tenant, rebase
from windlass.core.fence import next_fence
from windlass.core.lifecycle import State
from windlass.core.limits import LIMIT, Demand, Room, Running, decode_limit
from windlass.core.serving import EVERYTHING, Serves
from windlass.core.task import Claim, Lease, SessionId, Task, TaskId, claim_of
from windlass.core.times import Micros
from windlass.stores.memory.base import MemoryBase
from windlass.stores.memory.tables import Tables
from windlass.stores.protocol import AccountSeen, check_shares
from windlass.stores.series import Point


class MemoryClaim(MemoryBase):
    """Claim tasks, and read what is claimed."""

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
        with self._lock:
            self._tables.live_session(session)
            now = self._clock.now()
            asked = list(dict.fromkeys(queues))
            groups = [asked] if merge and asked else [[queue] for queue in asked]
            choice = _Choice(self._tables, serves, now)
            chosen: list[tuple[TaskId, int | None]] = []
            for [queue] in groups if each else ():
                most = (each or {}).get(queue, limit)
                chosen += choice.choose([queue], min(most, limit - len(chosen)))
            for group in groups:
                chosen += choice.choose(group, limit - len(chosen))
            choice.write()
            return [self._lease(id, charge, session, now) for id, charge in chosen]

    def accounts(self, queue: str | None = None) -> list[AccountSeen]:
        with self._lock:
            now, found = self._clock.now(), list[AccountSeen]()
            for name in sorted({*self._tables.accounts, *self._tables.usage}) if queue is None else [queue]:
                for tenant, one in sorted(add_pending_usage(self._tables, name, now).items()):
                    minute, hour = one.get_used(now)
                    found.append(
                        AccountSeen(
                            queue=name,
                            tenant=tenant,
                            charged=one.charged,
                            mean=one.mean / 1e6,
                            last_minute=minute / 1e6,
                            last_hour=hour / 1e6,
                        )
                    )
            return found

    def running(self) -> list[Running]:
        with self._lock:
            return list_running(self._tables)

    def buckets(self, limits: Sequence[str]) -> dict[str, Micros]:
        with self._lock:
            return {name: self._tables.full_at[name] for name in limits if name in self._tables.full_at}

    def _lease(self, id: TaskId, charge: int | None, session: SessionId, now: Micros) -> Claim:
        task = self._tables.tasks[id]
        fence = next_fence(task.fence, epoch=self._tables.epoch, submitted=task.submitted)
        wait, point = max(0, now - task.due), self._tables.point(task.queue, now)
        point.add(Point(at=point.at, started=1, waited=wait, longest_wait=wait))
        task = self._tables.move(id, State.LEASED, fence=fence, session=session, claimed=now)
        claim = claim_of(task, Lease(id, fence, session))
        if charge is None:
            return claim
        self._tables.charges[id] = charge
        return replace(claim, charge=charge)


class _Choice:
    """The tasks that one claim chooses."""

    def __init__(self, tables: Tables, serves: Serves, now: Micros) -> None:
        self._tables = tables
        self._serves = serves
        self._now = now
        self._chosen: set[TaskId] = set()
        self._looked_at: set[TaskId] = set()
        """What is no longer in the heaps. A task that was moved to another place may be in one more than once."""
        self._not_served = False
        """True if it found tasks that the claimer cannot run."""
        self._held_back = False
        """True if a limit held back a task."""
        self._is_full = False
        """True if a limit holds back all tasks of the queue."""
        limits = [decode_limit(one.value) for (kind, _), one in tables.controls.items() if kind == LIMIT]
        self._tenants = get_tenants(tables)
        self._room = Room(limits, self._tenants, list_running(tables), tables.full_at, now)

    def choose(self, queues: Sequence[str], limit: int) -> list[tuple[TaskId, int | None]]:
        """Choose the next tasks of these queues, taken as one. Return each with what it is charged, in a fair queue."""
        if limit <= 0 or not queues:
            return []
        settings = {queue: self._tables.queue(queue) for queue in queues}
        open_queues = [queue for queue in queues if not settings[queue].is_paused(self._now)]
        if len(queues) == 1 and settings[queues[0]].fair:
            apply_pending_usage(self._tables, queues[0], self._now)
            chosen = self._choose_fairly(queues[0], limit if open_queues else 0)
        else:
            chosen = self._choose_by_place(open_queues, limit)
        self._chosen.update(id for id, _ in chosen)
        for id in self._looked_at - self._chosen:
            self._tables.put_back(id)
        self._looked_at.clear()
        return chosen

    def write(self) -> None:
        """Write the buckets of rates."""
        self._tables.full_at |= self._room.started
        self._tables.next_token = self._room.next_token

    def _choose_by_place(self, queues: Sequence[str], limit: int) -> list[tuple[TaskId, int | None]]:
        tasks = merge_sorted(
            *(self._list_takeable(queue, tenant) for queue in queues for tenant in self._tables.list_tenants(queue)),
            key=lambda task: (self._tables.places[task.id], task.id),
        )
        chosen: list[tuple[TaskId, int | None]] = []
        for task in tasks:
            if self._room.find_blocking(_demand(task)) is None:  # Tasks that were chosen since may have used the room.
                self._room.take(_demand(task))
                chosen.append((task.id, None))
                if len(chosen) == limit:
                    break
        return chosen

    def _choose_fairly(self, queue: str, limit: int) -> list[tuple[TaskId, int | None]]:
        self._not_served = self._held_back = self._is_full = False
        accounts, active = self._tables.accounts[queue], self._tables.active[queue]
        own = accounts.setdefault("", Account(tenant=""))
        heads = {tenant: self._list_takeable(queue, tenant) for tenant in self._tables.list_tenants(queue)}
        for tenant in heads.keys() - active:
            accounts.setdefault(tenant, Account(tenant=tenant)).join(own)
        active.update(heads)
        turns = Turns(own, [accounts[tenant] for tenant in active], self._get_weight)
        chosen: list[tuple[TaskId, int | None]] = []
        while len(chosen) < limit and (tenant := turns.get_next()) is not None:
            task = next(heads[tenant], None) if tenant in heads else None
            if self._is_full:
                break  # Everyone keeps the place for the next turn.
            if task is None:
                turns.drop()
                active.discard(tenant)
            else:
                self._room.take(_demand(task))
                chosen.append((task.id, turns.take()))
        if len(chosen) < limit and not self._not_served and not self._held_back:
            turns.forgive()
        rebase(own, [account for tenant, account in accounts.items() if tenant])
        return chosen

    def _list_takeable(self, queue: str, tenant: str) -> Iterator[Task]:
        """Yield the tasks of a tenant that may start, in order."""
        while (id := self._tables.take_first(queue, tenant)) is not None:
            if id in self._looked_at or id in self._chosen:
                continue
            self._looked_at.add(id)
            task = self._tables.tasks[id]
            expired = task.expires is not None and task.expires <= self._now  # The sweep ends it.
            if expired:
                continue
            if not self._serves.can_run(task.handler, task.rules):
                self._not_served = True
                continue
            blocking = self._room.find_blocking(_demand(task))
            if blocking is None:
                yield task
                continue
            self._held_back = True
            if blocking.handler is None and blocking.key is None:
                self._is_full = blocking.tenant is None
                return  # It holds back all tasks of the tenant.

    def _get_weight(self, tenant: str) -> int:
        known = self._tenants.get(tenant)
        return 1 if known is None else known.get_weight(self._now)


def apply_pending_usage(tables: Tables, queue: str, now: Micros) -> None:
    """Add the attempts that have ended to the accounts of a queue."""
    tables.accounts[queue] = add_pending_usage(tables, queue, now)
    tables.usage.pop(queue, None)


def add_pending_usage(tables: Tables, queue: str, now: Micros) -> dict[str, Account]:
    """Return the accounts of a queue as they are with the attempts that have ended."""
    accounts = {tenant: replace(account) for tenant, account in tables.accounts.get(queue, {}).items()}
    tenants = get_tenants(tables)
    if usage := tables.usage.get(queue):
        own = accounts.setdefault("", Account(tenant=""))
        apply_usage(own, accounts, usage, lambda tenant: tenants.get(tenant, Tenant()).get_weight(now))
    return accounts


def get_tenants(tables: Tables) -> dict[str, Tenant]:
    """Return the settings of the tenants that have any."""
    return {name: decode_tenant(one.value) for (kind, name), one in tables.controls.items() if kind == TENANT}


def list_running(tables: Tables) -> list[Running]:
    """Return the number of live leases by queue, tenant, handler and key."""
    found = [Running(*scopes, tasks) for scopes, tasks in tables.running.items() if tasks]
    return sorted(found, key=lambda one: (one.queue, one.tenant, one.handler, one.key or ""))


def _demand(task: Task) -> Demand:
    return Demand(task.queue, task.tenant, task.handler, task.rules)
