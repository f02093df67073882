"""The thread that writes the results of attempts. What arrives while one batch is written is the next batch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import NamedTuple

from msgspec.structs import replace

from windlass.clock import Clock, jitter
from windlass.core.lifecycle import State
from windlass.core.retry import Error
from windlass.core.settlement import Outcome, Settlement, settle
from windlass.core.task import Claim, Task
from windlass.errors import CommitUnknown, StoreError, StoreUnavailable
from windlass.events import AttemptEnded, Events, ReportRefused, StoreCallFailed
from windlass.stores.protocol import LeaseLost, Store, Verdict

MAX_BATCH = 1_000
SECOND = 1_000_000
_SHORTEST_WAIT, _LONGEST_WAIT = 0.1, 2.0
"""Seconds between two tries to write to a store that is unavailable."""
MAX_GAP_SECONDS = 0.004
GAP_STEP_SECONDS = 0.001

_random = partial(jitter, 0.0, 1.0)


class Result(NamedTuple):
    """The result of one attempt: what it does to its task, decided but not yet written."""

    claim: Claim
    settlement: Settlement
    seconds: float


class Settler:
    """Collects results and writes them, many in one call."""

    def __init__(self, store: Store, events: Events, clock: Clock) -> None:
        self.on_written: list[Callable[[Sequence[Claim]], None]] = []
        """Called with the claims of every batch that was written, or dropped when the node closed."""
        self._store = store
        self._events = events
        self._clock = clock
        self._results: SimpleQueue[Result | None] = SimpleQueue()
        self._batch: list[Result] = []
        """The results being written. They stay here if that fails, so that the next step writes them again."""
        self._failures = 0
        self._put = self._written = 0
        self._delay = BatchDelay(clock)
        self._closing = threading.Event()
        self._writing = threading.RLock()
        """Held while a batch is written: `flush` may run while the settler's own thread still writes."""

    @property
    def open(self) -> int:
        """How many results are not written yet."""
        return self._put - self._written

    def mark(self) -> int:
        """Return how many results were put so far."""
        return self._put

    def is_written(self, mark: int) -> bool:
        """Return True if the results up to this mark are written. They are written in order."""
        return self._written >= mark

    def put(self, claim: Claim, outcome: Outcome, *, seconds: float, log: str | None) -> Settlement:
        """Decide what an outcome does to its task, and queue it for writing. Called under the hub's lock."""
        settlement = settle(claim.task, outcome, _random)
        if log is not None:
            settlement = replace(settlement, log=log)
        self._put += 1
        self._results.put(Result(claim, settlement, seconds))
        return settlement

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
        self._results.put(None)

    def flush(self) -> None:
        """Write every result that is not written yet. Call `close` first, so that no thread waits for a result."""
        with self._writing:
            while self._batch or not self._results.empty():
                self.step()

    def _next_batch(self) -> list[Result]:
        first = self._results.get()
        self._delay.wait()
        batch = [] if first is None else [first]
        while len(batch) < MAX_BATCH and not self._results.empty():  # Only the holder of the lock takes from it.
            if (more := self._results.get()) is not None:
                batch.append(more)
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
        for result, verdict in zip(batch, verdicts, strict=True):
            self._emit(result, verdict)

    def _settle_one_by_one(self, batch: list[Result], error: StoreError) -> None:
        """Write a batch that the store refused, so that one invalid result does not block the others."""
        if len(batch) > 1:
            while len(self._batch) > 1:
                self._settle(self._batch[:1])
                self._remove(1)
            self._settle(self._batch)
            return
        [result] = batch
        self._events.emit(StoreCallFailed(doing=f"settle {result.claim.task.id}", error=str(error)))
        refused = Error(kind=type(error).__name__, message=f"the end of the attempt could not be stored: {error}")
        failed = Settlement(state=State.FAILED, error=refused, reason=refused.message[:500], attempts=1)
        if result.settlement.state is not State.FAILED:
            self._settle([result._replace(settlement=failed)])

    def _remove(self, number: int) -> None:
        """Remove the first results of the batch: they are written, or given up."""
        done, self._batch = self._batch[:number], self._batch[number:]
        self._written += number
        claims = [result.claim for result in done]
        for listener in self.on_written:
            listener(claims)

    def _emit(self, result: Result, verdict: Verdict) -> None:
        task = result.claim.task
        if isinstance(verdict, LeaseLost):
            self._events.emit(ReportRefused(lease=verdict.lease, handler=task.handler))
        elif result.settlement.charged:
            self._events.emit(
                AttemptEnded(
                    lease=verdict.lease,
                    handler=task.handler,
                    queue=task.queue,
                    state=verdict.state,
                    seconds=result.seconds,
                    waited=_waited(task),
                    deadline_slack=_slack(task, result.seconds),
                )
            )


class BatchDelay:
    """Spaces the store calls of one thread by a few milliseconds while that makes batches larger.

    A single task costs one commit to claim and one to settle. Under load, a batch costs hardly more than one task. A
    task alone, or a chain of one task after another, is never delayed.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._gap = 0.0
        self._latest = 0.0

    def wait(self) -> float:
        """Wait until the next call is due. Return the time of that call."""
        now = self._clock.monotonic()
        early = self._latest + self._gap - now
        if early > 0:
            self._clock.sleep(early)
            now = self._clock.monotonic()
        self._latest = now
        return now

    def record(self, tasks: int) -> None:
        """Lengthen the gap after a call with several tasks, and halve it after a call with one."""
        if tasks > 1:
            self._gap = min(MAX_GAP_SECONDS, self._gap + GAP_STEP_SECONDS)
        elif tasks == 1:
            self._gap /= 2


def _waited(task: Task) -> float:
    """Return how long the task waited for a worker, by the store's clock."""
    return 0.0 if task.claimed is None else max(0.0, (task.claimed - task.due) / SECOND)


def _slack(task: Task, seconds: float) -> float | None:
    """Return the seconds left to the deadline when the attempt ended, not counting the time before it started."""
    if task.deadline is None or task.claimed is None:
        return None
    return (task.deadline - task.claimed) / SECOND - seconds
