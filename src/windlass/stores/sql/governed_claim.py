"""Claims that respect more than the order of a queue: turns of tenants in fair queues, and limits.

Such claims are made one at a time (`lock_claims`). Each reads the first tasks of some lanes without locks, decides with
`core.fairness` and `core.limits` which of them start, leases these, and moves tasks that a limit holds back to lanes of
their own, so that no claim has to skip them again. The cost follows the number of tasks that it takes and of tenants
that it takes them from, not the number of waiting tasks.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

from msgspec.structs import replace

from windlass.core.limits import Demand, Limit, Room, Running
from windlass.core.serving import EVERYTHING, Serves
from windlass.core.submission import decode_rules
from windlass.core.task import Claim, Rules, SessionId, TaskId
from windlass.core.times import Micros
from windlass.stores.sql.database import Answer, Dialect, Transaction, Values
from windlass.stores.sql.fair_turns import FairTurns
from windlass.stores.sql.lanes import PARKED, lane_of, parked_lane
from windlass.stores.sql.limit_settings import LimitSettings, names_of

ROUNDS = 8
"""How often one claim reads on after it found tasks that a limit holds back. Then the next claim continues."""
TURNS = 100
"""The same for a fair queue, where a tenant may have fewer tasks than its turns."""
READ_ON = 500
"""How many tasks a claim reads at least when it reads on."""
READY = 100
"""How many lanes of limits that may have room one claim looks at. The others have their turn later."""
KEYED = 16
"""How many tasks of the lane of a key a claim reads at least. Most keys allow one at a time."""
MOVED = 2_000
"""How many tasks one claim moves into or out of lanes after a queue has become fair, or no longer is."""


class Candidate(NamedTuple):
    """A runnable task that a claim may choose."""

    queue: str
    lot: int
    band: int
    rank: int
    tie: int
    id: UUID
    tenant: str
    handler: str
    rules: Rules

    @property
    def order(self) -> tuple[int, int, int, UUID]:
        """Its place in the queue."""
        return self.band, self.rank, self.tie, self.id

    @property
    def demand(self) -> Demand:
        """What limits depend on."""
        return Demand(self.queue, self.tenant, self.handler, self.rules)


class Lane(NamedTuple):
    """Where a claim reads: a partition, the lane of a tenant, or the lane of a limit."""

    queue: str
    lot: int
    tenant: str = ""
    limit: str = ""
    """The name of the limit."""


class Head(NamedTuple):
    """The first tasks of a lane."""

    tasks: Sequence[Candidate]
    is_all: bool
    """True if the lane has no more tasks that may be claimed."""
    has_others: bool = False
    """True if the lane has tasks that the claimer cannot run."""


class LimitsUnlocked(Exception):
    """The claim found tasks with limits, or that a limit held back, and must hold the lock for limits to go on."""

    def __init__(self, queue: str) -> None:
        super().__init__(queue)
        self.queue = queue


class LimitBinds(Exception):
    """The claim took the head of a queue, and a limit holds back a task in it, or could: the task has a key."""

    def __init__(self, queue: str) -> None:
        super().__init__(queue)
        self.queue = queue


class SettingsChanged(Exception):
    """A limit or the settings of a tenant have changed since the claim began."""


class Leases(Protocol):
    """The parts of a claim that differ between databases."""

    def claim_head(
        self, tx: Transaction, session: SessionId, queue: str, limit: int, *, settings: int
    ) -> Sequence[Claim]:
        """Lease the first tasks of a queue, counted for limits."""
        ...

    def claim_chosen(
        self, tx: Transaction, session: SessionId, chosen: Sequence[Values], *, limited: bool
    ) -> Sequence[Claim]:
        """Lease those of these tasks that are still there and not locked."""
        ...

    def park(self, tx: Transaction, batch: Sequence[Values]) -> Iterable[UUID]:
        """Move those of these tasks that are not locked to other lanes. Return their ids."""
        ...


class GovernedClaim:
    """One claim. The caller holds the locks of its queues and, with `locked`, that of all limits."""

    def __init__(
        self,
        db: Dialect,
        tx: Transaction,
        leases: Leases,
        session: SessionId,
        serves: Serves,
        settings: LimitSettings,
        cursors: dict[str, int],
        binding: set[str],
        *,
        locked: bool,
    ) -> None:
        self._db = db
        self._tx = tx
        self._leases = leases
        self._session = session
        self._serves = serves
        self._settings = settings
        self._cursors = cursors
        self._binding = binding
        self._locked = locked
        self._room: Room | None = None
        self._now: Micros = 0
        self._skipped = False
        """True if it found tasks in a fair queue that the claimer cannot run."""
        self._held_back = False
        """True if a limit held back a task in a fair queue."""
        self._is_full = False
        """True if a limit holds back all tasks of a fair queue."""
        self._binds = False
        """True if it found tasks with keys, or tasks that a limit held back."""
        self._held: dict[UUID, Values] = {}
        """What is to be moved to a lane of a limit, by task."""
        self._lanes: dict[Values, Values] = {}
        """What is to be written about lanes of limits, by queue, tenant and limit."""
        self._passed_over: set[UUID] = set()
        """Tasks that it chose and could not lease, because others have locked them, or they are gone."""
        self._closed: set[tuple[str, int]] = set()
        """Lanes of limits that have no room, by queue and number."""
        self.concerned: set[str] = set()
        """The queues that still need such claims."""
        self.unbound: set[str] = set()
        """The queues in which no limit held back a task."""
        self.is_unfinished = False
        """True if there may be more tasks that can start, behind many that a limit holds back."""

    def choose(self, queues: Sequence[str], limit: int) -> list[Claim]:
        """Lease the next tasks of these queues, taken as one. Tenants take turns in a fair queue if it is alone."""
        asked = [
            self._tx.query("governed_queue", queue=one, session=self._session, now=self._db.now()) for one in queues
        ]
        alone = self._ask_turns(queues[0], limit) if queues[0] in self._cursors and len(queues) == 1 else None
        running = self._ask_running()
        facts = {queue: answer.rows()[0] for queue, answer in zip(queues, asked, strict=True)}
        self._now = facts[queues[0]][0]
        new_tenants: set[str] = set()
        if facts[queues[0]][5] != self._settings.number:
            raise SettingsChanged
        if running is not None:
            self._open_room(*running)
        for queue, (_, _, is_fair, has_parked, has_lanes, _) in facts.items():
            new_tenants |= self._rearrange(queue, is_fair=bool(is_fair), has_lanes=bool(has_lanes))
            if is_fair or has_parked or has_lanes:
                self.concerned.add(queue)
            if has_parked and self._room is None:
                raise LimitsUnlocked(queue)
        fair = {queue for queue in queues if facts[queue][2]}
        if fair and len(queues) == 1:
            alone = alone or self._ask_turns(queues[0], limit)
            alone.load(self._now)
            alone.add_tenants(new_tenants)
            return self._choose_fairly(queues[0], alone, limit if facts[queues[0]][1] else 0)
        if alone is not None:
            alone.give_back()
        if self.concerned.isdisjoint(queues) and len(queues) == 1 and (want := self._count_open(queues[0], limit)):
            return self._take_head(queues[0], want) if facts[queues[0]][1] else []
        return self._choose_by_place([queue for queue in queues if facts[queue][1]], fair, limit)

    def _count_open(self, queue: str, limit: int) -> int:
        """Return how many tasks to take from the head of a queue at once; 0 if a limit may hold back some of them."""
        if self._room is None or queue in self._binding:
            return 0
        free = self._room.count_free(f"queue={queue}")
        return limit if free is None else min(limit, free)

    def _take_head(self, queue: str, limit: int) -> list[Claim]:
        """Lease the first tasks of a queue, while no limit is near."""
        assert self._room is not None
        number, serves = self._settings.number, self._serves
        claims = self._leases.claim_head(self._tx, self._session, queue, limit, settings=number)
        if any(one.rules.limit is not None for one in claims) or not (
            serves == EVERYTHING or all(serves.can_run(one.handler, one.rules) for one in claims)
        ):
            raise LimitBinds(queue)
        kinds = Counter((one.tenant, one.handler) for one in claims)
        tasks = [(Demand(queue, tenant, handler, Rules()), many) for (tenant, handler), many in kinds.items()]
        if any(self._settings.concern(*task) for task, _ in tasks):
            self.concerned.add(queue)
        self._load_buckets(task for task, _ in tasks)
        if not self._room.take_all(tasks):
            raise LimitBinds(queue)
        return list(claims)

    def _ask_turns(self, queue: str, limit: int) -> FairTurns:
        return FairTurns(self._tx, queue, self._settings, self._cursors, limit)

    def write(self) -> Micros | None:
        """Write the buckets of rates. Return in what time the first rate that held back a task allows one again."""
        if self._room is None:
            return None
        self._tx.execute("put_buckets", sorted(self._room.started.items()))
        return None if self._room.next_token is None else max(0, self._room.next_token - self._now)

    def _ask_running(self) -> tuple[Answer, Answer] | None:
        if self._room is not None or not self._locked:
            return None
        return self._tx.query("take_freed"), self._tx.query("running_limited")

    def _open_room(self, freed: Answer, running: Answer) -> None:
        """Count what runs under limits, and look again at lanes of limits in whose scope a lease has ended."""
        self._tx.execute("ready_names", names_of({(q, t, h, k) for q, t, h, k in freed.rows()}))
        counts = [Running(*line) for line in running.rows()]
        self._room = Room(self._settings.limits.values(), self._settings.tenants, counts, {}, self._now)

    def _rearrange(self, queue: str, *, is_fair: bool, has_lanes: bool) -> set[str]:
        """Move tasks of a queue that has become fair into the lanes of their tenants, or back. Return these tenants."""
        if is_fair:
            found = self._tx.query("outside_lanes", queue=queue, limit=MOVED).rows()
            self._move([(*line[:5], self._db.uuid(line[5]), lane_of(line[6])) for line in found])
            return {line[6] for line in found}
        if has_lanes:
            found = self._tx.query("inside_lanes", queue=queue, after=PARKED, limit=MOVED).rows()
            self._move([(*line[:5], self._db.uuid(line[5]), line[6]) for line in found])
            if not found:
                self._tx.execute("drop_parked", [(queue, "", "")])
        return set()

    def _move(self, batch: Sequence[Values]) -> set[UUID]:
        return set(self._leases.park(self._tx, batch)) if batch else set()

    def _choose_by_place(self, queues: Sequence[str], fair: set[str], limit: int) -> list[Claim]:
        claims: list[Claim] = []
        lanes = self._list_lanes(queues, fair) if queues else []
        for number in range(ROUNDS if lanes else 0):
            want = limit - len(claims)
            most = want if number == 0 else max(want, READ_ON)
            heads = self._read({lane: self._limit(lane, most) for lane in lanes if lane[:2] not in self._closed})
            chosen, reads_on = self._choose(heads, want)
            leased = self._finish(heads, [(one, None) for one in chosen])
            claims += leased
            if len(claims) >= limit or not (reads_on or len(leased) < len(chosen)):
                break
        else:
            self.is_unfinished = bool(lanes)
        if not self._binds:
            self.unbound.update(queues)
        return claims

    def _list_lanes(self, queues: Sequence[str], fair: set[str]) -> list[Lane]:
        lanes: list[Lane] = []
        for queue in queues:
            lots = self._tx.query("open_lots", queue=queue)
            tenants = self._tx.query("find_lanes", queue=queue, after=PARKED, limit=1_000) if queue in fair else None
            lanes += self._list_ready_lanes(queue)
            lanes += [Lane(queue, lot) for (lot,) in lots.rows()]
            lanes += [Lane(queue, lot, tenant) for lot, tenant in tenants.rows()] if tenants else []
        return lanes

    def _list_ready_lanes(self, queue: str) -> list[Lane]:
        """Return lanes of limits that may have room again."""
        if self._room is None:
            return []
        found = self._tx.query("ready_lanes", queue=queue, now=self._now, limit=READY).rows()
        return [Lane(queue, lot, tenant, name) for tenant, name, lot in found]

    def _limit(self, lane: Lane, most: int) -> int:
        """Return how many tasks of a lane to read: for that of a limit, not many more than it has room for."""
        if not lane.limit or self._room is None:
            return most
        free = self._room.count_free(lane.limit) if lane.limit in self._settings.limits else KEYED
        return most if free is None else min(most, max(free, KEYED))

    def _choose(self, heads: Mapping[Lane, Head], want: int) -> tuple[list[Candidate], bool]:
        """Choose tasks by their places. Return them, and True if there may be more behind what was read."""
        chosen: list[Candidate] = []
        full_queues: set[str] = set()
        last = _find_last(heads)
        for one in sorted((one for head in heads.values() for one in head.tasks), key=lambda one: one.order):
            if len(chosen) == want:
                break
            if one.queue in full_queues or one[:2] in self._closed:
                continue
            limit = self._find_blocking(one)
            if limit is None:
                chosen.append(one)
            elif limit.tenant is None and limit.handler is None and limit.key is None:
                full_queues.add(one.queue)
                self._binds = True
                continue
            else:
                self._hold(one, limit)
            if one.id in last and one[:2] not in self._closed:
                return chosen, True  # The next task of this lane may come before the others that were read.
        return chosen, False

    def _choose_fairly(self, queue: str, turns: FairTurns, limit: int) -> list[Claim]:
        self._skipped = self._held_back = self._is_full = False
        parked: dict[str, list[Lane]] = {}
        for lane in self._list_ready_lanes(queue):
            parked.setdefault(lane.tenant, []).append(lane)
        turns.add_tenants(parked)
        claims: list[Claim] = []
        reach = limit
        for _ in range(TURNS):
            if len(claims) == limit or self._is_full:
                break
            if not (planned := turns.plan(reach) or self._discover(turns, reach)):
                self.is_unfinished = self.is_unfinished or turns.is_cut_short
                break
            lanes: dict[Lane, int] = {}
            for tenant, tasks in planned.items():
                lanes[Lane(queue, lane_of(tenant), tenant)] = tasks
                open_lanes = (lane for lane in parked.get(tenant, ()) if lane[:2] not in self._closed)
                lanes |= {lane: self._limit(lane, tasks) for lane in open_lanes}
            taken = self._take_turns(turns, self._read(lanes), limit - len(claims))
            claims += taken
            # After a round without a task, look at more tenants at once: limits may hold back many.
            reach = limit - len(claims) if taken else min(2 * reach, READ_ON)
        else:
            self.is_unfinished = True
        turns.write(forgive=len(claims) < limit and self._left_none(queue))
        return claims

    def _left_none(self, queue: str) -> bool:
        """Return True if no task of a fair queue that the claim looked at waits, and none that a limit held back."""
        if self._skipped or self._held_back or self.is_unfinished:
            return False
        return self._room is None or not self._tx.query("held_back", queue=queue, now=self._now).rows()

    def _discover(self, turns: FairTurns, limit: int) -> Mapping[str, int]:
        return turns.plan(limit) if turns.discover() else {}

    def _take_turns(self, turns: FairTurns, heads: Mapping[Lane, Head], want: int) -> list[Claim]:
        """Let tenants take turns among the tasks that were read, until one needs tasks that were not."""
        tasks, last = _by_tenant(heads), _find_last(heads)
        chosen: list[tuple[Candidate, int | None]] = []
        while len(chosen) < want and (tenant := turns.get_next()) is not None and tenant in tasks:
            own = tasks[tenant]
            if own is None:
                break
            if not own:
                turns.drop()
                continue
            one = own.popleft()
            if one[:2] in self._closed:
                continue
            limit = self._find_blocking(one)
            self._held_back = self._held_back or limit is not None
            if limit is None:
                chosen.append((one, turns.take()))
            elif limit.handler is None and limit.key is None:
                if limit.tenant is None:
                    self._is_full = True
                    break  # Everyone keeps the place for the next turn.
                turns.drop()  # It holds back all tasks of the tenant.
            else:
                self._hold(one, limit)
            if one.id in last and one[:2] not in self._closed:
                tasks[tenant] = None  # The next task of this lane may come before the others that were read.
        claims = self._finish(heads, chosen)
        leased = {claim.id for claim in claims}
        turns.refund((one.tenant, charge or 0) for one, charge in chosen if one.id not in leased)
        return claims

    def _read(self, lanes: Mapping[Lane, int]) -> dict[Lane, Head]:
        """Read the first tasks of lanes that the claimer can run. In lanes that have others, by kinds."""
        lanes = {lane: tasks + len(self._passed_over) for lane, tasks in lanes.items()}
        batch = [(lane.queue, lane.lot, tasks) for lane, tasks in lanes.items()]
        found = self._split(self._tx.query("candidates", batch, now=self._now).rows()) if batch else {}
        heads: dict[Lane, Head] = {}
        mixed: dict[Lane, int] = {}
        for lane, tasks in lanes.items():
            first = found.get((lane.queue, lane.lot), [])
            heads[lane] = Head(first, len(first) < tasks)
            if self._serves != EVERYTHING and not all(self._serves.can_run(one.handler, one.rules) for one in first):
                mixed[lane] = tasks
        if mixed:
            self._skipped = True
            heads |= self._read_kinds(mixed)
        if self._passed_over:
            heads = {lane: self._leave_out(head) for lane, head in heads.items()}
        self._learn([one for head in heads.values() for one in head.tasks])
        return heads

    def _leave_out(self, head: Head) -> Head:
        """Return the head of a lane without the tasks that others have locked."""
        return head._replace(tasks=[one for one in head.tasks if one.id not in self._passed_over])

    def _read_kinds(self, lanes: Mapping[Lane, int]) -> dict[Lane, Head]:
        found: dict[tuple[str, int], list[Candidate]] = {}
        if batch := self._list_kinds([lane for lane in lanes if lane.lot >= 0], lanes):
            found |= self._split(self._tx.query("kind_candidates", batch, now=self._now).rows())
        if batch := self._list_lane_kinds([lane for lane in lanes if lane.lot < 0], lanes):
            found |= self._split(self._tx.query("lane_kind_candidates", batch, now=self._now).rows())
        heads: dict[Lane, Head] = {}
        for lane, tasks in lanes.items():
            ordered = sorted(found.get((lane.queue, lane.lot), []), key=lambda one: one.order)
            heads[lane] = Head(ordered[:tasks], len(ordered) < tasks, has_others=True)
        return heads

    def _list_kinds(self, lanes: Sequence[Lane], tasks: Mapping[Lane, int]) -> list[Values]:
        kinds = {queue: self._tx.query("kinds", queue=queue) for queue in {lane.queue for lane in lanes}}
        served = {queue: self._list_served(answer.rows()) for queue, answer in kinds.items()}
        return [(lane.queue, lane.lot, kind, tasks[lane]) for lane in lanes for kind in served[lane.queue]]

    def _list_lane_kinds(self, lanes: Sequence[Lane], tasks: Mapping[Lane, int]) -> list[Values]:
        if not lanes:
            return []
        kinds: dict[int, list[Values]] = {}
        for lot, *kind in self._tx.query("lane_kinds", [(lane.queue, lane.lot) for lane in lanes]).rows():
            kinds.setdefault(lot, []).append(tuple(kind))
        served = {lot: self._list_served(found) for lot, found in kinds.items()}
        return [(lane.queue, lane.lot, kind, tasks[lane]) for lane in lanes for kind in served.get(lane.lot, ())]

    def _list_served(self, kinds: Sequence[Values]) -> list[int]:
        return [kind for kind, handler, rules in kinds if self._serves.can_run(handler, decode_rules(rules))]

    def _split(self, rows: Sequence[Values]) -> dict[tuple[str, int], list[Candidate]]:
        """Return candidates by queue and lane."""
        uuid = self._db.uuid
        found: dict[tuple[str, int], list[Candidate]] = {}
        for queue, lot, band, rank, tie, id, tenant, handler, rules in rows:
            one = Candidate(queue, lot, band, rank, tie, uuid(id), tenant, handler, decode_rules(rules))
            found.setdefault((queue, lot), []).append(one)
        return found

    def _learn(self, tasks: Sequence[Candidate]) -> None:
        """Find the tasks that limits concern, and read the buckets of their rates."""
        concerned = [one for one in tasks if self._settings.concern(one.queue, one.tenant, one.handler, one.rules)]
        self.concerned.update(one.queue for one in concerned)
        if not concerned:
            return
        if self._room is None:
            raise LimitsUnlocked(concerned[0].queue)
        self._binds = self._binds or any(one.rules.limit is not None for one in concerned)
        self._load_buckets(one.demand for one in concerned)

    def _load_buckets(self, tasks: Iterable[Demand]) -> None:
        """Read the buckets of the rates of tasks."""
        assert self._room is not None
        names = {name for task in tasks for name in self._room.list_rates(task)}
        if names:
            found = self._tx.query("buckets", [(name,) for name in sorted(names)]).rows()
            self._room.load_buckets(dict(found))

    def _find_blocking(self, one: Candidate) -> Limit | None:
        """Return the limit that holds back a task, or count the task and return None."""
        if self._room is None:
            return None
        limit = self._room.find_blocking(one.demand)
        if limit is None:
            self._room.take(one.demand)
        return limit

    def _hold(self, one: Candidate, limit: Limit) -> None:
        """Set a task aside in the lane of a limit. If it is there already, the lane has no room."""
        assert self._room is not None
        self._binds = True
        lane = parked_lane(limit.name, one.tenant)
        about = one.queue, one.tenant, limit.name
        self._lanes[about] = (*about, lane, self._room.get_reopening(limit))
        if one.lot == lane:
            self._closed.add((one.queue, lane))
        else:
            self._held[one.id] = (*one[:6], lane)

    def _finish(self, heads: Mapping[Lane, Head], chosen: Sequence[tuple[Candidate, int | None]]) -> list[Claim]:
        """Lease what was chosen, and move what was set aside. Return the claims in the same order."""
        claims = self._lease(chosen)
        self._pass_over(chosen, {claim.id for claim in claims})
        gone = {claim.id for claim in claims} | self._move(list(self._held.values()))
        self._update_lanes(heads, gone)
        self._held = {}
        return claims

    def _pass_over(self, chosen: Sequence[tuple[Candidate, int | None]], leased: Collection[UUID]) -> None:
        """Count what could not be leased as not started. What was set aside because of it may be looked at again."""
        locked = [one for one, _ in chosen if one.id not in leased]
        if not locked:
            return
        self._held_back = True
        self._passed_over.update(one.id for one in locked)
        if self._room is not None:
            for one in locked:
                self._room.put_back(one.demand)
        self._lanes = {about: (*line[:4], self._now) for about, line in self._lanes.items()}

    def _update_lanes(self, heads: Mapping[Lane, Head], gone: Collection[UUID]) -> None:
        """Forget lanes of limits that are empty now, and let those with room wait for their next turn."""
        emptied: list[Values] = []
        for lane, head in heads.items():
            about = lane.queue, lane.tenant, lane.limit
            if not lane.limit or about in self._lanes:
                continue
            if head.is_all and not head.has_others and all(one.id in gone for one in head.tasks):
                emptied.append(about)
                self._closed.add((lane.queue, lane.lot))
            else:
                self._lanes[about] = (*about, lane.lot, self._now)
        self._tx.execute("drop_parked", sorted(emptied))
        self._tx.execute("put_parked", [self._lanes[about] for about in sorted(self._lanes)])
        self._lanes = {}

    def _lease(self, chosen: Sequence[tuple[Candidate, int | None]]) -> list[Claim]:
        """Lease what was chosen and is still there. Return the claims in the same order, with their charges."""
        if not chosen:
            return []
        batch = [(*one[:6], one.rules.limit, charge) for one, charge in chosen]
        limited = self._room is not None
        found = self._leases.claim_chosen(self._tx, self._session, batch, limited=limited)
        claims = {claim.id: claim for claim in found}
        return [
            claims[TaskId(one.id)] if charge is None else replace(claims[TaskId(one.id)], charge=charge)
            for one, charge in chosen
            if one.id in claims
        ]


def _find_last(heads: Mapping[Lane, Head]) -> set[UUID]:
    """Return the last task that was read of each lane that has more."""
    return {head.tasks[-1].id for head in heads.values() if head.tasks and not head.is_all}


def _by_tenant(heads: Mapping[Lane, Head]) -> dict[str, deque[Candidate] | None]:
    """Return the tasks that were read by tenant, in order."""
    tasks: dict[str, list[Candidate]] = {}
    for lane, head in heads.items():
        tasks.setdefault(lane.tenant, []).extend(head.tasks)
    return {tenant: deque(sorted(found, key=lambda one: one.order)) for tenant, found in tasks.items()}
