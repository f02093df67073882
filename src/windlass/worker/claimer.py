"""The thread that claims tasks for one pool: as many as it has room for, and no more.

Results that are not written yet take up room too: a store that accepts no results gets no more claims.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

from msgspec.structs import replace

from windlass.clock import Clock, jitter
from windlass.core.assignment import assignment_of
from windlass.core.references import referenced_ids, with_results
from windlass.core.retry import Error
from windlass.core.serving import Serves
from windlass.core.settlement import Outcome, Raised
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
from windlass.worker.worker import RunningAttempt

POLL_FAST_SECONDS = 0.1
"""How long after a claim that found tasks the claimer polls at short intervals."""
FAST_POLL = 0.01
NO_ROOM_SECONDS = 0.05
"""How long the claimer waits for room, or for a store that is unavailable, before it looks again."""
MAX_HELD_LEASES = 2_000
"""How many leases a pool may hold beyond what its workers can run at once: waiting to start, or ended and not yet
written. Twice what the settler writes at once, so that a store that keeps up never delays a claim."""


class Claimer:
    """Claims tasks for one pool."""

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
        clock: Clock,
    ) -> None:
        self.handlers: frozenset[str] = frozenset()
        """The names of the app's handlers."""
        self.claiming: SessionId | None = None
        """The session of the claim that is under way: its tasks are not assigned yet, but keep the session in use."""
        self._store = store
        self._pool = pool
        self._hub = hub
        self._keeper = keeper
        self._breakers = breakers
        self._events = events
        self._tags = tags
        self._clock = clock
        self._held = HeldLeases()
        settler.on_written.append(self._held.remove)
        self._poll_fast_until = 0.0
        self._delay = BatchDelay(clock)

    def step(self) -> None:
        """Claim for the room there is and assign the tasks. Wait if nothing can be claimed."""
        limit = self._limit()
        with self._hub.lock:
            self.claiming = session = self._keeper.current if limit and self._breakers.is_known else None
        if session is None:
            self._wait_for_room()
            return
        queues = self._pool.rotate_queues()
        try:
            claimed = self._claim_and_assign(session, queues, limit)
        finally:
            self.claiming = None
        if claimed is not None and claimed < limit:  # That was all. The store notifies us, or the next poll finds more.
            fast = self._clock.monotonic() < self._poll_fast_until
            self._store.wait_for_work(queues, timedelta(seconds=FAST_POLL if fast else jitter(0.5, 1.0)))

    def _claim_and_assign(self, session: SessionId, queues: Sequence[str], limit: int) -> int | None:
        """Claim and assign tasks. Return how many; None if the store could not be asked."""
        claimed_at = self._delay.wait()
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
        self._delay.record(len(claims))
        if claims:
            self._poll_fast_until = self._clock.monotonic() + POLL_FAST_SECONDS
            self._assign(claims, self._results(session, claims), claimed_at)
        return len(claims)

    def _claim(self, session: SessionId, queues: Sequence[str], limit: int) -> list[Claim]:
        """Claim what this pool can run: nothing behind an open breaker, except for the probes of this node."""
        can = Serves(handlers=self.handlers, labels=self._tags, slots=self._pool.max_slots)
        shut = self._breakers.shut
        claims = self._store.claim(session, queues, limit, serves=replace(can, shut=frozenset(shut)), merge=self._merge)
        for name, probes in self._breakers.begin_probes().items() if shut else ():
            serves = replace(can, only=name)
            found = self._probe(session, queues, min(probes, limit - len(claims)), serves)
            self._breakers.record_probes(name, found, probes)
            claims += found
        return claims

    def _probe(self, session: SessionId, queues: Sequence[str], limit: int, serves: Serves) -> list[Claim]:
        """Claim tasks behind a breaker. A store error here must not lose what was claimed before."""
        try:
            return self._store.claim(session, queues, limit, serves=serves, merge=self._merge) if limit else []
        except StoreUnavailable as error:
            self._events.emit(StoreCallFailed(doing="claim", error=str(error)))
            return []

    @property
    def _merge(self) -> bool:
        return self._pool.settings.order == "deadline"

    def _limit(self) -> int:
        """Return how many tasks to claim: 0 while all workers are busy and a larger claim will be possible soon."""
        with self._hub.lock:
            room = 0 if self._hub.dispatcher.draining else self._pool.count_room(self._clock.monotonic())
            if room:
                room = limit_claim(room, self._pool.slots, self._held.count(self._keeper.holds))
            return room if room and (self._pool.needs_work() or room >= 100) else 0

    def _wait_for_room(self) -> None:
        with self._hub.freed:
            self._clock.wait_for_notify(self._hub.freed, NO_ROOM_SECONDS)

    def _assign(self, claims: Sequence[Claim], results: dict[TaskId, str | None], claimed_at: float) -> None:
        attempts: list[RunningAttempt] = []
        refused: list[tuple[Claim, Outcome]] = []
        for claim in claims:
            try:
                args = with_results(claim.task.args, results) if results else None
            except InvalidPayload as error:
                refused.append((claim, Raised(Error(kind="InvalidPayload", message=str(error)), give_up=True)))
            else:
                attempts.append(RunningAttempt(claim, assignment_of(claim, args), claimed_at))
        with self._hub.lock:
            if not self._keeper.holds(claims[0].lease.session):
                return  # The session was lost meanwhile, and these leases with it.
            self._held.add(claims)
            self._pool.counters.record_claimed(claims)
            for claim, outcome in refused:
                self._hub.dispatcher.refuse(self._pool, claim, outcome)
            try:
                self._hub.dispatcher.assign(self._pool, attempts, self._clock.monotonic())
            except Exception as error:
                raise NotRestartable("the dispatcher no longer knows which worker has which task") from error
        self._hub.resume_ticks()

    def _results(self, session: SessionId, claims: Sequence[Claim]) -> dict[TaskId, str | None]:
        """Return the results that the arguments of these tasks refer to."""
        wanted = list(dict.fromkeys(id for claim in claims for id in referenced_ids(claim.task.args)))
        if not wanted:
            return {}
        while self._keeper.holds(session):
            try:
                found = self._store.get(wanted)
            except StoreUnavailable as error:  # The leases hold, so the tasks are assigned once the store is back.
                self._events.emit(StoreCallFailed(doing="read results", error=str(error)))
                self._wait_for_room()
            else:
                return {id: None if task is None else task.result for id, task in zip(wanted, found, strict=True)}
        return {}


def limit_claim(room: int, slots: int, held: int) -> int:
    """Return how many tasks a pool may claim: what its workers have room for, within the bound on its leases."""
    return max(0, min(room, slots + MAX_HELD_LEASES - held))


class HeldLeases:
    """The leases of one pool, from the claim until the result is written.

    These are more than the tasks of its workers: results that the store has not accepted yet are leases too, and a
    crash of the node would run those tasks again.
    """

    def __init__(self) -> None:
        self._leases: dict[SessionId, set[tuple[TaskId, int]]] = {}
        self._lock = threading.Lock()

    def add(self, claims: Iterable[Claim]) -> None:
        """Add tasks that were claimed for the pool."""
        with self._lock:
            for claim in claims:
                lease = claim.lease
                self._leases.setdefault(lease.session, set()).add((lease.task, lease.fence))

    def remove(self, claims: Iterable[Claim]) -> None:
        """Remove tasks whose results are written. Tasks of other pools are ignored."""
        with self._lock:
            for claim in claims:
                lease = claim.lease
                if lease.session in self._leases:
                    self._leases[lease.session].discard((lease.task, lease.fence))

    def count(self, holds: Callable[[SessionId], bool]) -> int:
        """Return how many leases there are. Sessions for which `holds` is False have none."""
        with self._lock:
            self._leases = {session: leases for session, leases in self._leases.items() if holds(session)}
            return sum(map(len, self._leases.values()))
