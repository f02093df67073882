"""The thread that leases tasks for one pool: as many as it has room for, and no more.

Ends that are not written yet take up room too: a store that takes no ends gets no more claims.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

from msgspec.structs import replace

from windlass.clock import jitter, monotonic
from windlass.core.assignment import assignment_of
from windlass.core.references import referenced_ids, with_results
from windlass.core.retry import Error
from windlass.core.serving import Serves
from windlass.core.settlement import Outcome, Raised, Released
from windlass.core.task import Claim, SessionId, TaskId
from windlass.errors import CommitUnknown, InvalidPayload, SessionLost, StoreUnavailable
from windlass.events import Events, StoreCallFailed
from windlass.stores.protocol import Store
from windlass.worker.breakers import Breakers
from windlass.worker.duty import NotRestartable
from windlass.worker.pool import Pool
from windlass.worker.session_keeper import SessionKeeper
from windlass.worker.settler import BatchDelay, Settler
from windlass.worker.socket_hub import SocketHub
from windlass.worker.worker import ReadyTask

POLL_FAST_SECONDS = 0.1
"""How long after any work the store is asked again and again before the claimer sleeps."""

FAST_POLL = 0.01


class Claimer:
    """Keeps one pool in work."""

    def __init__(
        self,
        store: Store,
        pool: Pool,
        hub: SocketHub,
        keeper: SessionKeeper,
        settler: Settler,
        breakers: Breakers,
        events: Events,
        tags: frozenset[str],
    ) -> None:
        self.handlers: frozenset[str] = frozenset()
        """The names that the app's workers know."""
        self.claiming: SessionId | None = None
        """The session under which a claim is under way: what it brings is nobody's until it is handed out."""
        self._store = store
        self._pool = pool
        self._hub = hub
        self._keeper = keeper
        self._settler = settler
        self._breakers = breakers
        self._events = events
        self._tags = tags
        self._holdings = Holdings()
        settler.on_written.append(self._holdings.remove)
        self._brisk_until = 0.0
        self._pace = BatchDelay()

    def step(self) -> None:
        """Claim for what room there is and hand it out; wait if there is no room, or nothing to claim."""
        limit = self._limit()
        with self._hub.lock:
            self.claiming = session = self._keeper.current if limit and self._breakers.looked else None
        if session is None:
            self._wait_for_room()
            return
        queues = self._pool.next_queues()
        try:
            claimed = self._claim_and_hand_out(session, queues, limit)
        finally:
            self.claiming = None
        if claimed is not None and claimed < limit:  # All there was: the next is told of, or found by the next poll.
            brisk = monotonic() < self._brisk_until
            self._store.wait_for_work(queues, timedelta(seconds=FAST_POLL if brisk else jitter(0.5, 1.0)))

    def _claim_and_hand_out(self, session: SessionId, queues: Sequence[str], limit: int) -> int | None:
        """Claim and hand out; return how many tasks that were, None if the store could not be asked."""
        claimed_at = self._pace.wait()
        try:
            claims = self._claim(session, queues, limit)
        except SessionLost:
            self._keeper.mark_lost(session, "it was swept")
            return None
        except CommitUnknown as error:
            self._events.emit(StoreCallFailed(doing="claim", error=str(error)))
            self._keeper.retire(session)
            return None
        except StoreUnavailable as error:
            self._events.emit(StoreCallFailed(doing="claim", error=str(error)))
            self._wait_for_room()
            return None
        self._pace.record(len(claims))
        if claims:
            self._brisk_until = monotonic() + POLL_FAST_SECONDS
            self._assign(claims, self._results(session, claims), claimed_at)
        return len(claims)

    def _claim(self, session: SessionId, queues: Sequence[str], limit: int) -> list[Claim]:
        """What this pool can run: nothing that stands behind a breaker, but for the probes that this node may make."""
        can = Serves(handlers=self.handlers, labels=self._tags, slots=self._pool.widest)
        shut = self._breakers.shut
        claims = self._store.claim(session, queues, limit, serves=replace(can, shut=frozenset(shut)), merge=self._merge)
        for name, probes in self._breakers.begin_probes().items() if shut else ():
            serves = replace(can, only=name)
            found = self._probe(session, queues, min(probes, limit - len(claims)), serves)
            self._breakers.record_probes(name, found, probes)
            claims += found
        return claims

    def _probe(self, session: SessionId, queues: Sequence[str], limit: int, serves: Serves) -> list[Claim]:
        """Tasks that stand behind a breaker. A store that is away must not cost what was claimed a moment ago."""
        try:
            return self._store.claim(session, queues, limit, serves=serves, merge=self._merge) if limit else []
        except StoreUnavailable as error:
            self._events.emit(StoreCallFailed(doing="claim", error=str(error)))
            return []

    @property
    def _merge(self) -> bool:
        return self._pool.settings.order == "deadline"

    def _limit(self) -> int:
        """How many to claim; nothing as long as nobody is hungry and a larger claim will soon be worth more."""
        with self._hub.lock:
            room = 0 if self._hub.dispatcher.draining else self._pool.room(monotonic())
            if room:
                room = claimable(room, self._pool.slots, self._holdings.count(self._keeper.holds))
            return room if room and (self._pool.hungry() or room >= 100) else 0

    def _wait_for_room(self) -> None:
        with self._hub.freed:
            self._hub.freed.wait(0.05)

    def _assign(self, claims: Sequence[Claim], results: dict[TaskId, str | None], claimed_at: float) -> None:
        work: list[ReadyTask] = []
        refused: list[tuple[Claim, Outcome]] = []
        for claim in claims:
            ready = self._ready(claim, results, claimed_at)
            if isinstance(ready, ReadyTask):
                work.append(ready)
            else:
                refused.append((claim, ready))
        with self._hub.lock:
            if not self._keeper.holds(claims[0].lease.session):
                return  # It was lost meanwhile, and these leases with it.
            self._holdings.add(claims)
            self._pool.counters.record_claimed(claims)
            for claim, outcome in refused:
                self._pool.counters.record_ended(claim, outcome, 0.0)
                self._breakers.record_end(claim, Released())  # It never came to its downstream.
                self._settler.put(claim, outcome, seconds=0.0, log=None)
            try:
                self._hub.dispatcher.assign(self._pool, work, monotonic())
            except Exception as error:
                raise NotRestartable("who was given which task is not known any more") from error
        self._hub.resume_ticks()

    def _ready(self, claim: Claim, results: dict[TaskId, str | None], claimed_at: float) -> ReadyTask | Outcome:
        """The task with its references resolved; or what becomes of it, because it cannot run."""
        try:
            return ReadyTask(
                claim, assignment_of(claim, with_results(claim.task.args, results) if results else None), claimed_at
            )
        except InvalidPayload as error:
            return Raised(Error(kind="InvalidPayload", message=str(error)), give_up=True)

    def _results(self, session: SessionId, claims: Sequence[Claim]) -> dict[TaskId, str | None]:
        wanted = list(dict.fromkeys(id for claim in claims for id in referenced_ids(claim.task.args)))
        if not wanted:
            return {}
        while self._keeper.holds(session):
            try:
                found = self._store.get(wanted)
            except StoreUnavailable as error:  # The claims are ours: they are handed out when the store answers again.
                self._events.emit(StoreCallFailed(doing="read results", error=str(error)))
                self._wait_for_room()
            else:
                return {id: None if task is None else task.result for id, task in zip(wanted, found, strict=True)}
        return {}


MOST_HELD = 2_000
"""How many leases a pool may hold beyond what its workers can run at once: waiting for their turn, or ended and not
yet written. Twice what the settler writes at once, so that a store that keeps up is never waited for."""


def claimable(room: int, slots: int, held: int) -> int:
    """Return how many tasks a pool may claim: what its workers have room for, within the bound on its leases."""
    return max(0, min(room, slots + MOST_HELD - held))


class Holdings:
    """The leases of one pool. Claims are added by its claimer, and removed by the settler once their end is written."""

    def __init__(self) -> None:
        self._leases: dict[SessionId, set[tuple[TaskId, int]]] = {}
        self._lock = threading.Lock()

    def add(self, claims: Iterable[Claim]) -> None:
        """These were claimed for the pool."""
        with self._lock:
            for claim in claims:
                lease = claim.lease
                self._leases.setdefault(lease.session, set()).add((lease.task, lease.fence))

    def remove(self, claims: Iterable[Claim]) -> None:
        """The ends of these are written; those of other pools may be among them."""
        with self._lock:
            for claim in claims:
                lease = claim.lease
                if lease.session in self._leases:
                    self._leases[lease.session].discard((lease.task, lease.fence))

    def count(self, holds: Callable[[SessionId], bool]) -> int:
        """Return how many leases there are. A session that is over holds none, whether ends were written or not."""
        with self._lock:
            self._leases = {session: leases for session, leases in self._leases.items() if holds(session)}
            return sum(map(len, self._leases.values()))
