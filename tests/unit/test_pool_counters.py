from __future__ import annotations

import pytest

from tests.unit.values import OOPS, a_stored_task, an_id
from windlass.core.lifecycle import State
from windlass.core.settlement import Crashed, Outcome, Raised, Released, Returned, Stopped, settle
from windlass.core.task import Claim, Lease, Rules, SessionId, claim_of
from windlass.worker.pool import FIRST_START, PoolCounters


def a_claim(waited: float = 0.0, **rules: object) -> Claim:
    lease = Lease(an_id(1), 1, SessionId(an_id(9)))
    task = a_stored_task(due=0, claimed=int(waited * 1e6), rules=Rules(**rules))  # type: ignore[arg-type]
    return claim_of(task, lease)


def test_a_start_is_late_if_the_task_waited_longer_than_the_goal() -> None:
    counters = PoolCounters(goal=2.0)

    counters.record_started([a_claim(waited) for waited in (0.0, 1.9, 2.1)])

    assert (counters.started, counters.late) == (3, 1)


@pytest.mark.parametrize(
    ("outcome", "ended", "errors", "retrying", "returned"),
    [
        (Returned(), 1, 0, 0, 0),
        (Stopped(State.CANCELLED), 1, 0, 0, 0),
        (Raised(OOPS), 1, 1, 1, 0),
        (Raised(OOPS, give_up=True), 1, 1, 0, 0),
        (Crashed(OOPS), 1, 1, 0, 1),
        (Released(), 0, 0, 0, 1),
        (Released(5_000_000), 0, 0, 0, 0),
    ],
)
def test_every_outcome_is_counted_by_its_effect_on_the_queue(
    outcome: Outcome, ended: int, errors: int, retrying: int, returned: int
) -> None:
    counters = PoolCounters(goal=2.0)

    counters.record_ended(settle(a_claim(), outcome, lambda: 0.5), 1.5)

    assert (counters.ended, counters.errors, counters.retrying, counters.returned) == (
        ended,
        errors,
        retrying,
        returned,
    )
    assert counters.busy == 1.5


def test_completed_attempts_are_counted_together() -> None:
    counters = PoolCounters(goal=2.0)

    counters.record_completed(3, 4.5)

    assert (counters.ended, counters.errors, counters.returned, counters.busy) == (3, 0, 0, 4.5)


def test_the_start_delay_covers_most_of_the_latest_starts() -> None:
    counters = PoolCounters(goal=2.0)
    assert counters.start_delay == FIRST_START

    for seconds in [9.0, *[0.1] * 15, *[0.5] * 4, 3.0]:
        counters.record_worker_start(seconds)

    assert counters.start_delay == 0.5, "80 % of the last 20 took no longer; the 9 s are too old"


def test_a_pool_has_a_downstream_if_all_its_latest_tasks_need_it() -> None:
    counters = PoolCounters(goal=2.0)
    counters.record_started([a_claim()])
    assert counters.downstream == ""

    counters.record_started([a_claim(downstream="payments")] * 100)

    assert counters.downstream == "payments"
