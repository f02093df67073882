from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Thread
from typing import cast

import pytest
from msgspec.structs import replace

from tests.unit.values import a_stored_task, an_id
from windlass.clock import Clock, ManualClock
from windlass.core.lifecycle import State
from windlass.core.retry import Error
from windlass.core.settlement import COMPLETED, Raised, Released, Returned, Settlement
from windlass.core.task import Claim, Lease, SessionId, claim_of
from windlass.errors import StoreError, StoreUnavailable
from windlass.events import Event, Events, StoreCallFailed
from windlass.stores.protocol import Settled, Store, Verdict
from windlass.worker.settler import Settler


class UnavailableStore:
    """A store that fails the first `times` calls. It refuses to complete some tasks."""

    def __init__(self, times: int = 0, refused: Sequence[int] = ()) -> None:
        self.times = times
        self.refused = refused
        self.fail_after: int | None = None
        """After how many more calls one fails."""
        self.states: dict[int, State] = {}
        self.failure: Exception = StoreUnavailable("no connection")

    def settle(self, reports: Sequence[tuple[Lease, Settlement]]) -> list[Verdict]:
        if self.fail_after is not None:
            self.fail_after -= 1
            if self.fail_after < 0:
                self.fail_after = None
                raise self.failure
        if self.times:
            self.times -= 1
            raise self.failure
        if any(lease.task.int in self.refused and end.state is State.COMPLETED for lease, end in reports):
            raise StoreError("not this one")
        self.states |= {lease.task.int: end.state for lease, end in reports}
        return [Settled(lease, end.state) for lease, end in reports]


def put(settler: Settler, number: int) -> None:
    """Report that a task has completed."""
    task = a_stored_task(id=an_id(number))
    settler.put("default", claim_of(task, Lease(task.id, 1, SessionId(an_id(9)))), Returned(None), 0.0, None)


def a_settler(
    store: UnavailableStore, *tasks: int, events: list[Event] | None = None, clock: Clock | None = None
) -> Settler:
    """Return a settler that has to write the completion of these tasks."""
    listener = (events if events is not None else []).append
    settler = Settler(cast("Store", store), Events(listener), clock or ManualClock())
    for number in tasks:
        put(settler, number)
    return settler


def test_results_are_kept_for_a_store_that_is_unavailable_for_hours() -> None:
    clock = ManualClock()
    store = UnavailableStore(times=3_000)
    settler = a_settler(store, 1, clock=clock)
    waits: list[float] = []

    while settler.open:
        before = clock.monotonic()
        settler.step()
        waits.append(clock.monotonic() - before)

    assert store.states == {1: State.COMPLETED}
    assert len(waits) == 3_001
    assert 0.05 <= waits[0] <= 0.1, "the first try again comes soon"
    assert 1.0 <= max(waits) <= 2.0 + 1e-5


def test_results_that_arrive_during_an_outage_wait_for_the_first_batch() -> None:
    store = UnavailableStore(times=1)
    settler = a_settler(store, 1)

    settler.step()
    put(settler, 2)
    settler.step()
    first = dict(store.states)
    settler.step()

    assert first == {1: State.COMPLETED}
    assert store.states == {1: State.COMPLETED, 2: State.COMPLETED}


def test_an_outage_in_the_middle_of_a_refused_batch_writes_nothing_twice() -> None:
    store = UnavailableStore(refused=[2])
    settler = a_settler(store, 1, 2, 3)
    store.fail_after = 2  # The whole batch is refused, the first result is written, then the store is gone.

    settler.step()
    left = settler.open
    settler.step()

    assert left == 2
    assert store.states == {1: State.COMPLETED, 2: State.FAILED, 3: State.COMPLETED}
    assert settler.open == 0


def test_a_closed_settler_tries_one_more_time_and_gives_up() -> None:
    events: list[Event] = []
    store = UnavailableStore(times=2)
    settler = a_settler(store, 1, events=events)

    settler.close()
    settler.step()

    assert store.states == {}
    assert [type(event) for event in events] == [StoreCallFailed]


def test_a_flush_writes_the_remaining_results() -> None:
    store = UnavailableStore()
    settler = a_settler(store, 1, 2)

    settler.close()
    settler.flush()

    assert store.states == {1: State.COMPLETED, 2: State.COMPLETED}
    assert settler.open == 0


def test_a_result_that_the_store_refuses_fails_its_task_and_no_other() -> None:
    store = UnavailableStore(refused=[2])
    settler = a_settler(store, 1, 2, 3)

    settler.step()

    assert store.states == {1: State.COMPLETED, 2: State.FAILED, 3: State.COMPLETED}
    assert settler.open == 0


def test_the_next_step_writes_results_again_after_an_unexpected_error() -> None:
    """The duty is restarted. Without the batch, its tasks would stay leased as long as the node runs."""
    store = UnavailableStore(times=1)
    store.failure = RuntimeError("a bug")
    settler = a_settler(store, 1, 2)

    with pytest.raises(RuntimeError, match="a bug"):
        settler.step()
    assert settler.open == 2
    settler.step()

    assert store.states == {1: State.COMPLETED, 2: State.COMPLETED}
    assert settler.open == 0


def test_a_flush_waits_for_the_thread_that_writes() -> None:
    """The node flushes when its settler thread has not ended in time. That thread may be writing one by one."""
    written: list[int] = []

    class SlowStore(UnavailableStore):
        def settle(self, reports: Sequence[tuple[Lease, Settlement]]) -> list[Verdict]:
            verdicts = super().settle(reports)
            if flush.ident is None:
                flush.start()
                flush.join(timeout=0.2)
            written.extend(lease.task.int for lease, _ in reports)
            return verdicts

    settler = a_settler(SlowStore(refused=[2]), 1, 2, 3)
    flush = Thread(target=settler.flush)
    settler.close()
    settler.step()
    flush.join()

    assert written == [1, 2, 3]
    assert settler.open == 0


def reported(charge: int | None, report: Callable[[Settler, Claim], object]) -> Settlement:
    """Return what a settler writes for a claim."""
    store = RecordingStore()
    settler = Settler(cast("Store", store), Events(), ManualClock())
    task = a_stored_task(id=an_id(1))
    report(settler, replace(claim_of(task, Lease(task.id, 1, SessionId(an_id(9)))), charge=charge))
    settler.step()
    [(_, settlement)] = store.reports
    return settlement


class RecordingStore:
    """A store that keeps what is reported."""

    def __init__(self) -> None:
        self.reports: list[tuple[Lease, Settlement]] = []

    def settle(self, reports: Sequence[tuple[Lease, Settlement]]) -> list[Verdict]:
        self.reports += reports
        return [Settled(lease, end.state) for lease, end in reports]


def test_a_charged_attempt_is_settled_with_its_measured_run_time() -> None:
    error = Error(kind="E", message="")
    assert reported(5, lambda settler, claim: settler.put_completed("p", [(claim, 1.25)])).ran == 1_250_000
    assert reported(5, lambda settler, claim: settler.put("p", claim, Returned("1"), 0.5, "log")).ran == 500_000
    assert reported(5, lambda settler, claim: settler.put("p", claim, Raised(error), 2.0, None)).ran == 2_000_000
    assert reported(5, lambda settler, claim: settler.put("p", claim, Released(), 0.0, None)).ran == 0


def test_the_completion_of_a_plain_attempt_is_one_constant() -> None:
    assert reported(None, lambda settler, claim: settler.put_completed("p", [(claim, 1.25)])) is COMPLETED
    assert reported(None, lambda settler, claim: settler.put("p", claim, Returned("1"), 0.5, None)).ran is None
