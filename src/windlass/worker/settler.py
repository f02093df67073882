"""The thread that writes the ends of attempts. What comes in while one batch is written is the next batch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import NamedTuple

from msgspec.structs import replace

from windlass.clock import jitter, monotonic, sleep
from windlass.core.lifecycle import State
from windlass.core.retry import Error
from windlass.core.settlement import Outcome, Settlement, settle
from windlass.core.task import Claim, Task
from windlass.errors import CommitUnknown, StoreError, StoreUnavailable
from windlass.events import AttemptEnded, Events, ReportRefused, StoreCallFailed
from windlass.stores.protocol import LeaseLost, Store, Verdict

MOST = 1_000
SECOND = 1_000_000
_SHORTEST_WAIT, _LONGEST_WAIT = 0.1, 2.0
"""Seconds between two tries to write to a store that does not answer."""

_chance = partial(jitter, 0.0, 1.0)


class Report(NamedTuple):
    """The end of one attempt, decided but not yet written."""

    claim: Claim
    settlement: Settlement
    seconds: float


class Settler:
    """Collects ends and writes them, many in one call."""

    def __init__(self, store: Store, events: Events) -> None:
        self.on_written: list[Callable[[Sequence[Claim]], None]] = []
        """Called with the claims of every batch that was written, or given up when the node left."""
        self._store = store
        self._events = events
        self._reports: SimpleQueue[Report | None] = SimpleQueue()
        self._batch: list[Report] = []
        """What is being written; kept when that fails, so that the next step writes it again."""
        self._put = self._written = 0
        self._pace = BatchDelay()
        self._closing = threading.Event()

    @property
    def open(self) -> int:
        """How many ends are not written yet."""
        return self._put - self._written

    def mark(self) -> int:
        """How many ends have been put so far."""
        return self._put

    def written(self, mark: int) -> bool:
        """Whether the ends up to this mark are written; they are in the order in which they came."""
        return self._written >= mark

    def put(self, claim: Claim, outcome: Outcome, *, seconds: float, log: str | None) -> None:
        """Decide what the outcome does to its task, and have it written soon. Called under the crew's lock."""
        settlement = settle(claim.task, outcome, _chance)
        if log is not None:
            settlement = replace(settlement, log=log)
        self._put += 1
        self._reports.put(Report(claim, settlement, seconds))

    def step(self) -> None:
        """Write what is there; wait for something if there is nothing."""
        self._batch = self._batch or self._next_batch()
        if self._batch:
            self._write(self._batch)
            self._written += len(self._batch)
            claims = [report.claim for report in self._batch]
            for listener in self.on_written:
                listener(claims)
            self._batch = []

    def close(self) -> None:
        """Wait for nothing more: neither for ends, nor for a store that does not answer."""
        self._closing.set()
        self._reports.put(None)

    def flush(self) -> None:
        """Write everything that is not written yet."""
        while self._batch or not self._reports.empty():
            self.step()

    def _next_batch(self) -> list[Report]:
        first = self._reports.get()
        self._pace.wait()
        batch = [] if first is None else [first]
        while len(batch) < MOST and not self._reports.empty():  # Nobody else takes from it.
            if (more := self._reports.get()) is not None:
                batch.append(more)
        self._pace.record(len(batch))
        return batch

    def _write(self, batch: list[Report]) -> None:
        """Write a batch; as long as the store cannot be reached it is kept, for its leases may well outlast that."""
        wait = _SHORTEST_WAIT
        while True:
            try:
                self._settle(batch)
                return
            except (StoreUnavailable, CommitUnknown) as error:
                # Writing the same end twice is harmless, so what is unknown is simply written again.
                self._events.emit(StoreCallFailed(doing="settle", error=str(error)))
            if self._closing.wait(jitter(0.5, 1.0) * wait):
                return  # The leases of what is not written run out with their session.
            wait = min(_LONGEST_WAIT, 2 * wait)

    def _settle(self, batch: list[Report]) -> None:
        try:
            verdicts = self._store.settle([(report.claim.lease, report.settlement) for report in batch])
        except (StoreUnavailable, CommitUnknown):
            raise
        except StoreError as error:
            self._one_by_one(batch, error)
            return
        for report, verdict in zip(batch, verdicts, strict=True):
            self._emit(report, verdict)

    def _one_by_one(self, batch: list[Report], error: StoreError) -> None:
        """The store refuses the batch: whichever report is at fault must not keep its neighbours from being written."""
        if len(batch) > 1:
            for report in batch:
                self._write([report])
            return
        [report] = batch
        self._events.emit(StoreCallFailed(doing=f"settle {report.claim.task.id}", error=str(error)))
        refused = Error(kind=type(error).__name__, message=f"the end of the attempt could not be stored: {error}")
        failed = Settlement(state=State.FAILED, error=refused, reason=refused.message[:500], attempts=1)
        if report.settlement.state is not State.FAILED:
            self._write([report._replace(settlement=failed)])

    def _emit(self, report: Report, verdict: Verdict) -> None:
        task = report.claim.task
        if isinstance(verdict, LeaseLost):
            self._events.emit(ReportRefused(lease=verdict.lease, handler=task.handler))
        elif report.settlement.charged:
            self._events.emit(
                AttemptEnded(
                    lease=verdict.lease,
                    handler=task.handler,
                    queue=task.queue,
                    state=verdict.state,
                    seconds=report.seconds,
                    waited=_waited(task),
                    deadline_slack=_slack(task, report.seconds),
                )
            )


def _waited(task: Task) -> float:
    """For how long a worker was waited for. Both moments are the store's; a task may have been put off since."""
    return 0.0 if task.claimed is None else max(0.0, (task.claimed - task.due) / SECOND)


def _slack(task: Task, seconds: float) -> float | None:
    """What was left to the deadline when the attempt ended, by the store's clock but for the moment before it began."""
    if task.deadline is None or task.claimed is None:
        return None
    return (task.deadline - task.claimed) / SECOND - seconds


MOST_SECONDS = 0.004
STEP_SECONDS = 0.001


class BatchDelay:
    """Spaces the calls of one thread."""

    def __init__(self) -> None:
        self._gap = 0.0
        self._latest = 0.0

    def wait(self) -> float:
        """Wait if the latest call was only just made; the moment at which this one is."""
        early = self._latest + self._gap - monotonic()
        if early > 0:
            sleep(early)
        self._latest = monotonic()
        return self._latest

    def record(self, tasks: int) -> None:
        """The call was about so many: more than one, and waiting a little longer may pay; one, and it did not."""
        if tasks > 1:
            self._gap = min(MOST_SECONDS, self._gap + STEP_SECONDS)
        elif tasks == 1:
            self._gap /= 2
