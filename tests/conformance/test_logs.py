from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.support.builders import (
    GAVE_UP,
    NO_RETRY,
    RAISED,
    a_session,
    claim_one,
    complete,
    decided,
    submit_one,
    sweep_until_quiet,
)
from windlass.clock import ManualClock
from windlass.core.lifecycle import State
from windlass.core.retry import Error, Retry
from windlass.core.settlement import COMPLETED, RELEASED, Outcome, Raised, Released, Returned, Stopped
from windlass.core.task import Claim, TaskId
from windlass.stores.memory import read as memory_read
from windlass.stores.protocol import Log, Settled, Store
from windlass.stores.sql import read as sql_read


def report_with(store: Store, claim: Claim, outcome: Outcome, log: str | None) -> None:
    store.settle([(claim.lease, replace(decided(claim, outcome), log=log))])


ENDS: list[Outcome] = [Returned("1"), RAISED, GAVE_UP, Released(), Released(1), Stopped(State.CANCELLED, "stop")]


@pytest.mark.parametrize("outcome", ENDS, ids=lambda outcome: type(outcome).__name__)
def test_what_an_attempt_printed_is_kept_however_it_ended(store: Store, outcome: Outcome) -> None:
    id = submit_one(store)
    claim = claim_one(store)

    report_with(store, claim, outcome, "hello\nworld\n")

    assert store.logs(id) == [Log(claim.lease.fence, "hello\nworld\n")]


def test_each_attempt_has_its_own_oldest_first(store: Store) -> None:
    id = submit_one(store)
    claims: list[Claim] = []
    for text in ("first", None, "", "last"):
        claims.append(claim_one(store))
        report_with(store, claims[-1], Released(), text)

    assert store.logs(id) == [Log(claims[0].lease.fence, "first"), Log(claims[3].lease.fence, "last")]


def test_the_newest_attempts_and_logs_are_returned_oldest_first(
    store: Store, kind: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_read if kind == "memory" else sql_read, "RECENT", 3)
    id = submit_one(store, retry=Retry(retries=9, base=timedelta(0), cap=timedelta(0)))
    for n in range(5):
        report_with(store, claim_one(store), Raised(Error(kind=f"E{n}")), f"text {n}")
        clock.advance(timedelta(minutes=1))
        sweep_until_quiet(store)
    report_with(store, claim_one(store), Returned(None), "done")

    assert [log.text for log in store.logs(id)] == ["text 3", "text 4", "done"]
    assert [attempt.error and attempt.error.kind for attempt in store.attempts(id)] == ["E3", "E4", None]


def test_a_task_that_printed_nothing_or_is_unknown_has_no_logs(store: Store) -> None:
    id = submit_one(store)
    complete(store, claim_one(store))

    assert store.logs(id) == []
    assert store.logs(TaskId(a_session(store))) == []


def test_what_no_database_can_hold_is_replaced(store: Store) -> None:
    id = submit_one(store)

    report_with(store, claim_one(store), Returned(), 'a\0b\ud800c \\ " { } é 🙂')

    [log] = store.logs(id)
    assert log.text == 'a\ufffdb?c \\ " { } é 🙂'


def test_a_late_report_leaves_no_log(store: Store, clock: ManualClock) -> None:
    id = submit_one(store, retry=NO_RETRY)
    claim = claim_one(store)
    store.settle([(claim.lease, RELEASED)])
    claim_one(store)

    report_with(store, claim, Returned(), "too late")

    assert store.logs(id) == []


def test_a_repeated_report_keeps_the_first_log(store: Store) -> None:
    id = submit_one(store)
    claim = claim_one(store)
    settlement = replace(COMPLETED, log="once")

    verdicts = [*store.settle([(claim.lease, settlement)]), *store.settle([(claim.lease, settlement)])]

    assert verdicts == [Settled(claim.lease, State.COMPLETED)] * 2
    assert store.logs(id) == [Log(claim.lease.fence, "once")]


def test_logs_go_with_their_task(store: Store) -> None:
    id = submit_one(store)
    report_with(store, claim_one(store), Returned(), "hello")

    sweep_until_quiet(store)
    store.purge([id])

    assert store.logs(id) == []
