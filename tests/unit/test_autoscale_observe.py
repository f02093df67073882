from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from windlass.autoscale.observe import Baseline, PoolReport, observe
from windlass.core.lifecycle import State
from windlass.core.task import SessionId
from windlass.stores.coordination import Due, Look, QueueLook, Report

NOW = 1_800_000_000_000_000
FIRST, SECOND = str(UUID(int=1)), str(UUID(int=2))


def a_look(*queues: QueueLook, due: list[Due] | None = None) -> Look:
    report = Report(session=SessionId(UUID(int=1)), node="here", report="{}", age=timedelta(0))
    return Look(now=NOW, queues=list(queues), due=due or [], controls=[], reports=[report])


def mail(runnable: int = 0, **more: object) -> QueueLook:
    return QueueLook(queue="mail", runnable=runnable, **more)  # type: ignore[arg-type]


def a_report(**more: object) -> PoolReport:
    return PoolReport(**{"queues": ("mail",), "ready": 2, "max": 8, **more})  # type: ignore[arg-type]


def test_the_first_snapshot_sets_the_baseline() -> None:
    seen, after = observe(a_look(mail(70)), {FIRST: a_report(claimed=500, ended=400)}, Baseline())

    assert (seen.queued, seen.arrivals, seen.completions) == (70, 0, 0)
    assert after.queued == 70
    assert after.sessions[FIRST].claimed == 500


def test_arrivals_are_the_growth_of_the_queue_plus_claims() -> None:
    _, before = observe(a_look(mail(70)), {FIRST: a_report(claimed=500)}, Baseline())

    seen, _ = observe(a_look(mail(60)), {FIRST: a_report(claimed=530, returned=5)}, before)

    assert seen.arrivals == 60 - 70 + 30 - 5


def test_a_late_counter_is_corrected_at_the_next_tick() -> None:
    """A claim that the store has counted but its node has not: the sum is first negative, then too large."""
    _, before = observe(a_look(mail(100)), {FIRST: a_report(claimed=0)}, Baseline())
    early, between = observe(a_look(mail(60)), {FIRST: a_report(claimed=0)}, before)
    late, _ = observe(a_look(mail(60)), {FIRST: a_report(claimed=50)}, between)

    assert (early.arrivals, late.arrivals) == (0, 10)


def test_retries_do_not_count_as_arrivals() -> None:
    _, before = observe(a_look(mail(0, retrying=10)), {FIRST: a_report()}, Baseline())

    seen, _ = observe(a_look(mail(4, retrying=8)), {FIRST: a_report(errors=2, retrying=2)}, before)

    assert (seen.retried, seen.arrivals) == (4, 0)


def test_scheduled_arrivals_are_counted_separately() -> None:
    due = [
        Due(queue="mail", state=State.SCHEDULED, seconds=1, tasks=30),
        Due(queue="mail", state=State.SCHEDULED, seconds=40, tasks=7),
        Due(queue="mail", state=State.RETRYING, seconds=1, tasks=5),
        Due(queue="other", state=State.SCHEDULED, seconds=1, tasks=9),
    ]
    first, before = observe(a_look(mail(0, retrying=5), due=due), {FIRST: a_report()}, Baseline())

    seen, _ = observe(a_look(mail(37)), {FIRST: a_report()}, before)

    assert first.due == ((1.0, 35), (40.0, 7))
    assert (seen.arrivals, seen.scheduled, seen.retried) == (32, 30, 5)


def test_a_new_session_counts_from_its_first_report() -> None:
    _, before = observe(a_look(mail()), {FIRST: a_report(ended=10)}, Baseline())

    seen, after = observe(a_look(mail()), {SECOND: a_report(ended=1_000, busy=900.0)}, before)

    assert (seen.completions, seen.busy) == (0, 0.0)
    assert set(after.sessions) == {SECOND}


def test_the_nodes_of_a_pool_are_summed_in_slots() -> None:
    pool = {FIRST: a_report(threads=4, running=5, starting=1), SECOND: a_report(threads=4, asleep=1, draining=2)}

    seen, _ = observe(a_look(mail()), pool, Baseline())

    assert (seen.ready, seen.starting, seen.draining, seen.running) == (4 * 5, 4, 8, 5)


def test_a_paused_queue_needs_no_workers() -> None:
    seen, _ = observe(a_look(mail(500, oldest=NOW - 60_000_000, paused=True)), {FIRST: a_report()}, Baseline())

    assert (seen.queued, seen.oldest) == (0, 0.0)


def test_the_oldest_wait_is_that_of_the_slowest_queue() -> None:
    news = QueueLook(queue="news", runnable=1, oldest=NOW - 9_000_000)

    seen, _ = observe(
        a_look(mail(3, oldest=NOW - 2_000_000), news), {FIRST: a_report(queues=("mail", "news"))}, Baseline()
    )

    assert seen.oldest == 9.0


def test_the_lowest_limit_of_any_node_counts() -> None:
    pool = {FIRST: a_report(limit=9, threads=2), SECOND: a_report(limit=4, threads=2)}

    seen, _ = observe(a_look(mail()), pool, Baseline())

    assert seen.limit == 8
