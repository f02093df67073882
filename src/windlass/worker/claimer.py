"""The thread that claims tasks for one pool: as many as it has room for, and no more.

Results that are not written yet take up room too: a store that accepts no results gets no more claims.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from msgspec.structs import replace

from windlass.clock import Clock, jitter
from windlass.core.queue_shares import ClaimPlan
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
from windlass.worker.pool import Fit, Pool
from windlass.worker.queue_weights import QueueWeights
from windlass.worker.session_keeper import SessionKeeper
from windlass.worker.settler import MAX_BATCH, BatchDelay, Settler
from windlass.worker.socket_hub import SocketHub

POLL_FAST_SECONDS = 0.03
"""How long the claimer polls at short intervals after a wake-up and after a claim that found tasks: for longer than a
store may suppress further wake-ups (`windlass.stores.postgres.notify.QUIET`)."""
FAST_POLL = 0.01
NO_ROOM_SECONDS = 0.05
"""How long the claimer waits for room, or for a store that is unavailable, before it looks again."""
MAX_HELD_LEASES = 4_000
"""How many leases a pool may hold beyond what its workers can run at once: waiting to start, or ended and not yet
written. So much more than the settler writes at once that a store that keeps up never delays a claim."""


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
        self._settler = settler
        self._poll_fast_until = 0.0
        self._delay = BatchDelay(clock)
        self._weights = QueueWeights(store, events, clock)

    def step(self) -> None:
        """Claim for the room there is and assign the tasks. Wait if nothing can be claimed."""
        self._delay.wait()
        if self._pool.divides and self._pool.shares.is_contended:  # Otherwise the weights have no effect.
            self._weights.refresh()
        with self._hub.freed:  # From the check to the wait, so that room that is freed in between ends the wait.
            limit = self._limit()
            self.claiming = session = self._keeper.current if limit and self._breakers.is_known else None
            if session is None:
                self._clock.wait_for_notify(self._hub.freed, NO_ROOM_SECONDS)
                return
            fit = self._pool.find_fit(self._clock.monotonic())
            limit = self._pool.limit_by_needs(limit, fit)
            plan = self._pool.plan_claim(self._weights.get(self._pool.settings), limit)
        try:
            claimed = self._claim_and_assign(session, plan, fit)
        finally:
            self.claiming = None
        if claimed is not None and claimed < limit:  # That was all. The store notifies us, or the next poll finds more.
            fast = self._clock.monotonic() < self._poll_fast_until
            woken = self._store.wait_for_work(plan.queues, timedelta(seconds=FAST_POLL if fast else jitter(0.5, 1.0)))
            if woken:
                self._poll_fast_until = self._clock.monotonic() + POLL_FAST_SECONDS

    def count_held(self) -> int:
        """Return how many leases the pool has: assigned to workers, or ended and not yet written."""
        return self._pool.assigned + self._settler.count_open(self._pool.settings.name)

    def _claim_and_assign(self, session: SessionId, plan: ClaimPlan, fit: Fit) -> int | None:
        """Claim and assign tasks. Return how many; None if the store could not be asked."""
        claimed_at = self._delay.begin()
        try:
            claims = self._claim(session, plan, fit)
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
            self._assign(session, claims, fit, claimed_at)
        return len(claims)

    def _claim(self, session: SessionId, plan: ClaimPlan, fit: Fit) -> list[Claim]:
        """Claim what this pool can run: nothing behind an open breaker, except for the probes of this node."""
        handlers = self._pool.choose_handlers(self.handlers, self._clock.monotonic())
        can = Serves(handlers=handlers, labels=self._tags, slots=fit.slots, memory=fit.memory)
        queues, limit = plan.queues, plan.limit
        shut = self._breakers.shut
        serves = replace(can, shut=frozenset(shut))
        claims = self._store.claim(session, queues, limit, serves=serves, merge=self._merge, each=plan.each)
        for name, probes in self._breakers.begin_probes().items() if shut else ():
            serves = replace(can, only=name)
            found = self._probe(session, queues, min(probes, limit - len(claims)), serves)
            self._breakers.record_probes(name, found, probes)
            claims += found
        if self._pool.divides:
            with self._hub.lock:
                self._pool.record_taken(plan, claims)
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
        if self._hub.dispatcher.draining:
            return 0
        room = self._pool.count_claimable(self._clock.monotonic())
        return limit_claim(room, self._pool.slots, self.count_held()) if room else 0

    def _wait_for_room(self) -> None:
        with self._hub.freed:
            self._clock.wait_for_notify(self._hub.freed, NO_ROOM_SECONDS)

    def _assign(self, session: SessionId, claims: Sequence[Claim], fit: Fit, claimed_at: float) -> None:
        results = self._results(session, claims)
        refused: list[tuple[Claim, Outcome]] = []
        if results:
            claims, refused = _fill_in(claims, results)
        with self._hub.lock:
            if not self._keeper.holds(session):  # It was lost meanwhile, and these leases with it.
                self._pool.record_lost([*claims, *(claim for claim, _ in refused)])
                return
            now = self._clock.monotonic()
            self._pool.counters.claimed += len(claims) + len(refused)
            for claim, outcome in refused:
                self._hub.dispatcher.refuse(self._pool, claim, outcome)
            claims, unfit = self._pool.choose_fitting(claims, fit, now)
            for claim in unfit:
                self._hub.dispatcher.refuse(self._pool, claim, Released())
            if claims:
                self._pool.record_claim(claims, now - claimed_at)
                try:
                    self._hub.dispatcher.assign(self._pool, claims, claimed_at, now, holds=fit.holds)
                except Exception as error:
                    raise NotRestartable("the dispatcher no longer knows which worker has which task") from error
        self._hub.resume_ticks()

    def _results(self, session: SessionId, claims: Sequence[Claim]) -> dict[TaskId, str | None]:
        """Return the results that the arguments of these tasks refer to."""
        wanted = list(dict.fromkeys(id for claim in claims for id in referenced_ids(claim.args)))
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


def _fill_in(
    claims: Sequence[Claim], results: Mapping[TaskId, str | None]
) -> tuple[list[Claim], list[tuple[Claim, Outcome]]]:
    """Replace references in the arguments of claims by results. Return the claims, and those with invalid arguments."""
    filled: list[Claim] = []
    refused: list[tuple[Claim, Outcome]] = []
    for claim in claims:
        try:
            filled.append(replace(claim, args=with_results(claim.args, results)))
        except InvalidPayload as error:
            refused.append((claim, Raised(Error(kind="InvalidPayload", message=str(error)), give_up=True)))
    return filled, refused


def limit_claim(room: int, slots: int, held: int) -> int:
    """Return how many tasks a pool may claim: what its workers have room for, within the bound on its leases.

    One claim takes at most what the settler writes at once, because other writers of a SQLite file wait for it.
    """
    return max(0, min(room, slots + MAX_HELD_LEASES - held, MAX_BATCH))
