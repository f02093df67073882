from __future__ import annotations

from typing import Any, cast

import pytest

from tests.metrics.values import read
from tests.unit.values import a_stored_task, an_id
from windlass.clock import SystemClock
from windlass.core.lifecycle import State
from windlass.core.settlement import Settlement
from windlass.core.task import Lease, NewTask, SessionId, claim_of
from windlass.errors import StoreUnavailable
from windlass.events import (
    AttemptEnded,
    BreakerChanged,
    ControllerFailed,
    DutyFailed,
    Event,
    Events,
    PoolResized,
    ReportRefused,
    SessionEnded,
    SettingsRefused,
    SignalFailed,
    StoreCallFailed,
    WorkerParentFailed,
    WorkerStateChanged,
)
from windlass.metrics.calls import StoreCalls
from windlass.metrics.exposition import render
from windlass.metrics.node import NodeMetrics, operation_name, resize_reason
from windlass.stores.memory import MemoryStore
from windlass.stores.protocol import Settled, Store, Verdict
from windlass.worker.settler import Settler

SESSION = SessionId(an_id(9))
LEASE = Lease(an_id(1), 1, SESSION)


def ended(state: State = State.COMPLETED, **more: Any) -> AttemptEnded:
    return AttemptEnded(
        lease=LEASE, handler="mail", queue="post", state=state, seconds=more.pop("seconds", 0.3), **more
    )


def counted(*events: Event) -> dict[str, float]:
    metrics = NodeMetrics()
    for event in events:
        metrics(event)
    return read(render(metrics.registry))


def test_attempts_are_counted_by_outcome() -> None:
    found = counted(ended(), ended(), ended(State.RETRYING), ended(State.FAILED), ended(State.RUNNABLE))

    outcomes = {
        name: found[f"windlass_tasks_total{{handler=mail,outcome={name},queue=post}}"]
        for name in ("completed", "retrying", "failed", "crashed")
    }
    assert outcomes == {"completed": 2, "retrying": 1, "failed": 1, "crashed": 1}
    assert found["windlass_retries_total{handler=mail,queue=post}"] == 1
    assert found["windlass_dead_lettered_total{handler=mail,queue=post}"] == 1


def test_runs_and_waits_are_measured() -> None:
    found = counted(ended(seconds=0.3, waited=40.0))

    assert found["windlass_task_duration_seconds_sum{handler=mail,queue=post}"] == 0.3
    assert found["windlass_task_duration_seconds_bucket{handler=mail,le=0.25,queue=post}"] == 0
    assert found["windlass_task_duration_seconds_bucket{handler=mail,le=0.5,queue=post}"] == 1
    assert found["windlass_queue_wait_seconds_bucket{le=30.0,queue=post}"] == 0
    assert found["windlass_queue_wait_seconds_bucket{le=60.0,queue=post}"] == 1


def test_only_a_task_that_finished_late_misses_its_deadline() -> None:
    found = counted(
        ended(deadline_slack=-2.0),
        ended(deadline_slack=5.0),
        ended(State.RETRYING, deadline_slack=-2.0),
        ended(State.CANCELLED, deadline_slack=-2.0),
        ended(),
    )

    assert found["windlass_deadline_missed_total{queue=post}"] == 1
    assert found["windlass_deadline_slack_seconds_count{queue=post}"] == 2
    assert found["windlass_deadline_slack_seconds_bucket{le=-1.0,queue=post}"] == 1


@pytest.mark.parametrize(
    ("event", "series"),
    [
        (ReportRefused(lease=LEASE, handler="mail"), "windlass_stale_reports_total{handler=mail}"),
        (SessionEnded(session=SESSION, why="it was swept"), "windlass_sessions_lost_total"),
        (StoreCallFailed(doing=f"settle {an_id(7)}", error="x"), "windlass_store_troubles_total{doing=settle}"),
        (
            WorkerStateChanged(pool="p", worker=1, pid=1, before="busy", after="failed"),
            "windlass_worker_deaths_total{pool=p}",
        ),
        (
            WorkerStateChanged(pool="p", worker=1, pid=1, before="starting", after="idle", seconds=0.004),
            "windlass_worker_start_seconds_bucket{le=0.005,pool=p}",
        ),
        (
            PoolResized(pool="p", before=2, after=4, why="▲ 2→4  412 runnable: needs 3.7"),
            "windlass_pool_resizes_total{direction=up,pool=p,reason=load}",
        ),
        (
            PoolResized(pool="p", before=2, after=0, why="▼ 2→0  paused"),
            "windlass_pool_resizes_total{direction=down,pool=p,reason=paused}",
        ),
        (
            BreakerChanged(downstream="pay", before="closed", after="open", why="x"),
            "windlass_breaker_turns_total{downstream=pay,state=open}",
        ),
        (
            DutyFailed(duty="sweeper", error="x", traceback="", again_in=0.1),
            "windlass_duty_failures_total{duty=sweeper}",
        ),
        (ControllerFailed(pool="p", error="x", again_in=1.0), "windlass_controller_failures_total{pool=p}"),
        (SignalFailed(pool="p", signal="lag", error="x"), "windlass_signal_failures_total{pool=p,signal=lag}"),
        (WorkerParentFailed(why="x"), "windlass_worker_parent_failures_total"),
        (SettingsRefused(why="x"), "windlass_settings_refused_total"),
    ],
)
def test_each_event_is_counted(event: Event, series: str) -> None:
    assert counted(event)[series] == 1


def test_a_session_that_was_closed_is_not_lost() -> None:
    assert counted(SessionEnded(session=SESSION, why="closed"))["windlass_sessions_lost_total"] == 0


def test_reasons_are_reduced_to_few_labels() -> None:
    assert resize_reason("▲ 1→9  set to 9 by ops: the load needs it, paused never") == "override"
    assert resize_reason("= 4 (wanted 9): veto: 40 % of 20 attempts failed") == "veto"
    assert resize_reason("by a signal") == "hand"
    assert resize_reason("because") == "other"
    assert operation_name("fire the cron nightly-42") == "fire"
    assert operation_name("something new") == "other"


def test_the_created_series_are_dropped() -> None:
    assert not [name for name in counted(ended()) if "_created" in name]


class AcceptingStore:
    """A store that accepts every settlement."""

    def settle(self, reports: list[tuple[Lease, Settlement]]) -> list[Verdict]:
        return [Settled(lease, end.state) for lease, end in reports]


def test_the_settler_reports_the_wait_and_the_time_left_until_the_deadline() -> None:
    events: list[Event] = []
    settler = Settler(cast("Store", AcceptingStore()), Events(events.append), SystemClock())
    task = a_stored_task(due=1_000_000, claimed=3_500_000, deadline=9_500_000)

    settler.put_completed("default", [(claim_of(task, LEASE), 4.0)])
    settler.step()

    assert [(event.waited, event.deadline_slack) for event in events if isinstance(event, AttemptEnded)] == [(2.5, 2.0)]


def test_calls_to_a_measured_store_are_timed_and_its_submits_counted() -> None:
    calls = StoreCalls()
    store = calls.measure(MemoryStore())

    store.submit([NewTask(handler="work", key="a"), NewTask(handler="work")])
    store.submit([NewTask(handler="work", key="a")])

    found = read(render(calls.registry))
    assert found["windlass_store_call_seconds_count{method=submit}"] == 2
    assert found["windlass_submitted_total"] == 2
    assert found["windlass_duplicates_suppressed_total"] == 1


def test_a_failed_call_is_counted_and_its_error_raised() -> None:
    class Away:
        def counts(self) -> None:
            raise StoreUnavailable("nobody there")

    calls = StoreCalls()

    with pytest.raises(StoreUnavailable):
        calls.measure(cast("Store", Away())).counts()

    found = read(render(calls.registry))
    assert found["windlass_store_call_errors_total{code=store_unavailable,method=counts}"] == 1
    assert found["windlass_store_call_seconds_count{method=counts}"] == 1
