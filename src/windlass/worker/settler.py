"""The thread that writes the results of attempts. What arrives while one batch is written is the next batch."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from windlass.clock import Clock, jitter
from windlass.core.lifecycle import State
from windlass.core.retry import Error
from windlass.core.settlement import COMPLETED, Outcome, Settlement, settle
from windlass.core.task import Claim
from windlass.errors import CommitUnknown, StoreError, StoreUnavailable
from windlass.events import AttemptEnded, Events, ReportRefused, StoreCallFailed
from windlass.stores.protocol import LeaseLost, Settled, Store

MAX_BATCH = 1_000
SECOND = 1_000_000
_SHORTEST_WAIT, _LONGEST_WAIT = 0.1, 2.0
"""Seconds between two tries to write to a store that is unavailable."""
MAX_GAP_SECONDS = 0.004
GAP_STEP_SECONDS = 0.001

_random = partial(jitter, 0.0, 1.0)


class Result(NamedTuple):
    """The result of one attempt: what it does to its task, decided but not yet written."""

    pool: str
    claim: Claim
    settlement: Settlement
    seconds: float


class Settler:
    """Collects results and writes them, many in one call."""

    def __init__(self, store: Store, events: Events, clock: Clock) -> None:
        self.on_written: Callable[[], None] = lambda: None
        """Called after results were written, or dropped when the node closed."""
        self._store = store
        self._events = events
        self._clock = clock
        self._arrived = threading.Condition()
        """Guards `_results` and is notified when there are some."""
        self._results: list[Result] = []
        self._batch: list[Result] = []
        """The results being written. They stay here if that fails, so that the next step writes them again."""
        self._failures = 0
        self._put = self._written = 0
        self._put_by_pool: Counter[str] = Counter()
        self._written_by_pool: Counter[str] = Counter()
        self._delay = BatchDelay(clock)
        self._closing = threading.Event()
        self._writing = threading.RLock()
        """Held while a batch is written: `flush` may run while the settler's own thread still writes."""

    @property
    def open(self) -> int:
        """How many results are not written yet."""
        return self._put - self._written

    def count_open(self, pool: str) -> int:
        """Return how many results of a pool are not written yet."""
        return self._put_by_pool[pool] - self._written_by_pool[pool]

    def mark(self) -> int:
        """Return how many results were put so far."""
        return self._put

    def is_written(self, mark: int) -> bool:
        """Return True if the results up to this mark are written. They are written in order."""
        return self._written >= mark

    def put(self, pool: str, claim: Claim, outcome: Outcome, seconds: float, log: str | None) -> Settlement:
        """Decide what an outcome does to its task, and queue it for writing. Called under the hub's lock."""
        settlement = settle(claim, outcome, _random)
        if log is not None:
            settlement = replace(settlement, log=log)
        if claim.charge is not None:
            settlement = replace(settlement, ran=round(seconds * SECOND))
        self._queue(pool, [Result(pool, claim, settlement, seconds)])
        return settlement

    def put_completed(self, pool: str, ended: Sequence[tuple[Claim, float]]) -> None:
        """Queue attempts that completed without result and log, with the seconds that each ran. Called as `put`."""
        results = [
            Result(pool, claim, COMPLETED if claim.charge is None else _completed_after(seconds), seconds)
            for claim, seconds in ended
        ]
        self._queue(pool, results)

    def _queue(self, pool: str, results: list[Result]) -> None:
        self._put += len(results)
        self._put_by_pool[pool] += len(results)
        with self._arrived:
            self._results += results
            self._arrived.notify()

    def step(self) -> None:
        """Write a batch of results; wait for the first one. If the store is unavailable, wait and keep the batch."""
        with self._writing:
            self._batch = self._batch or self._next_batch()
            if self._batch and not self._write() and not self._closing.is_set():
                wait = min(_LONGEST_WAIT, _SHORTEST_WAIT * 2.0 ** min(self._failures - 1, 10))
                self._clock.wait(self._closing, jitter(0.5, 1.0) * wait)
            elif self._batch:  # Written; or the node closes, and what is not written ends with its session.
                self._failures = 0
                self._remove(len(self._batch))

    def close(self) -> None:
        """Stop waiting, both for results and for a store that is unavailable."""
        self._closing.set()
        with self._arrived:
            self._arrived.notify()

    def flush(self) -> None:
        """Write every result that is not written yet. Call `close` first, so that no thread waits for a result."""
        with self._writing:
            while self._batch or self._results:
                self.step()

    def _next_batch(self) -> list[Result]:
        """Wait for results and return them. The list is empty if the node closes and there are none."""
        with self._arrived:
            while not self._results and not self._closing.is_set():
                self._arrived.wait()
        self._delay.wait()
        self._delay.begin()
        with self._arrived:
            batch, self._results = self._results[:MAX_BATCH], self._results[MAX_BATCH:]
        self._delay.record(len(batch))
        return batch

    def _write(self) -> bool:
        """Write the batch. Return False if the store is unavailable; writing the same result twice is harmless."""
        try:
            self._settle(self._batch)
        except (StoreUnavailable, CommitUnknown) as error:
            self._failures += 1
            self._events.emit(StoreCallFailed(doing="settle", error=str(error)))
            return False
        return True

    def _settle(self, batch: list[Result]) -> None:
        try:
            verdicts = self._store.settle([(result.claim.lease, result.settlement) for result in batch])
        except (StoreUnavailable, CommitUnknown):
            raise
        except StoreError as error:
            self._settle_one_by_one(batch, error)
            return
        wanted, failures = self._events.attempts_wanted, self._events.failures_wanted
        for result, verdict in zip(batch, verdicts, strict=True):
            if isinstance(verdict, LeaseLost):
                self._events.emit(ReportRefused(lease=verdict.lease, handler=result.claim.handler))
            elif (wanted or (failures and verdict.state is not State.COMPLETED)) and result.settlement.charged:
                self._events.emit(_describe_end(result, verdict))

    def _settle_one_by_one(self, batch: list[Result], error: StoreError) -> None:
        """Write a batch that the store refused, so that one invalid result does not block the others."""
        if len(batch) > 1:
            while len(self._batch) > 1:
                self._settle(self._batch[:1])
                self._remove(1)
            self._settle(self._batch)
            return
        [result] = batch
        self._events.emit(StoreCallFailed(doing=f"settle {result.claim.id}", error=str(error)))
        refused = Error(kind=type(error).__name__, message=f"the end of the attempt could not be stored: {error}")
        ran = result.settlement.ran
        failed = Settlement(state=State.FAILED, error=refused, reason=refused.message[:500], attempts=1, ran=ran)
        if result.settlement.state is not State.FAILED:
            self._settle([result._replace(settlement=failed)])

    def _remove(self, number: int) -> None:
        """Remove the first results of the batch: they are written, or given up."""
        done, self._batch = self._batch[:number], self._batch[number:]
        self._written += number
        self._written_by_pool.update([result.pool for result in done])
        self.on_written()


class BatchDelay:
    """Spaces the store calls of one thread by a few milliseconds while that makes batches larger.

    A single task costs one commit to claim and one to settle. Under load, a batch costs hardly more than one task. A
    task alone, or a chain of one task after another, is never delayed.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._gap = 0.0
        self._latest = 0.0

    def wait(self) -> None:
        """Wait until the next call is due. What it takes along is best collected afterward."""
        early = self._latest + self._gap - self._clock.monotonic()
        if early > 0:
            self._clock.sleep(early)

    def begin(self) -> float:
        """Record that a call is made now. Return the time."""
        self._latest = self._clock.monotonic()
        return self._latest

    def record(self, tasks: int) -> None:
        """Lengthen the gap after a call with several tasks, and halve it after a call with one."""
        if tasks > 1:
            self._gap = min(MAX_GAP_SECONDS, self._gap + GAP_STEP_SECONDS)
        elif tasks == 1:
            self._gap /= 2


def _completed_after(seconds: float) -> Settlement:
    """Return a completion with the measured run time, for the account of the tenant in a fair queue."""
    return Settlement(state=State.COMPLETED, attempts=1, ran=round(seconds * SECOND))


def _describe_end(result: Result, settled: Settled) -> AttemptEnded:
    claim = result.claim
    return AttemptEnded(
        lease=settled.lease,
        handler=claim.handler,
        queue=claim.queue,
        state=settled.state,
        seconds=result.seconds,
        waited=max(0.0, (claim.claimed - claim.due) / SECOND),
        deadline_slack=_slack(claim, result.seconds),
        attempt=claim.attempts + 1,
        tenant=claim.tenant,
        error=result.settlement.error,
        reason=result.settlement.reason,
    )


def _slack(claim: Claim, seconds: float) -> float | None:
    """Return the seconds left to the deadline when the attempt ended, not counting the time before it started."""
    return None if claim.deadline is None else (claim.deadline - claim.claimed) / SECOND - seconds
