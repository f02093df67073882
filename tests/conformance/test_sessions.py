from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.builders import (
    MICROSECOND,
    OOPS,
    SECOND,
    a_session,
    a_task,
    at_once,
    claim_all,
    claim_one,
    claimed_ids,
    complete,
    report,
    state_of,
    states_of,
    submit,
    submit_one,
    sweep_until_quiet,
    task_of,
)
from windlass.clock import ManualClock
from windlass.core.ids import fresh_id
from windlass.core.lifecycle import State
from windlass.core.settlement import MAX_LOSSES, Crashed
from windlass.core.task import SessionId
from windlass.errors import InvalidTask, SessionLost
from windlass.stores.protocol import SESSION_TTL, LeaseLost, Settled, Store


def test_every_session_is_another_one(store: Store) -> None:
    assert a_session(store, "same") != a_session(store, "same")


@pytest.mark.parametrize("node", ["", "n" * 513, "new\nline"])
def test_a_session_needs_a_proper_name(store: Store, node: str) -> None:
    with pytest.raises(InvalidTask, match="node"):
        store.open_session(node)


def test_a_renewed_session_keeps_everything_it_holds(store: Store, clock: ManualClock) -> None:
    ids = submit(store, a_task(), a_task())
    session = a_session(store)
    claim_all(store, session)

    for _ in range(5):
        clock.advance(SESSION_TTL)
        assert store.renew(session) == []
        sweep_until_quiet(store)

    assert states_of(store, ids) == [State.LEASED, State.LEASED]


def test_a_session_lives_to_the_last_microsecond_of_its_time(store: Store, clock: ManualClock) -> None:
    id = submit_one(store)
    session = a_session(store, ttl=2 * SECOND)
    claim_one(store, session)

    clock.advance(2 * SECOND)
    sweep_until_quiet(store)
    assert state_of(store, id) is State.LEASED

    clock.advance(MICROSECOND)
    sweep_until_quiet(store)
    assert state_of(store, id) is State.RUNNABLE


def test_a_lost_session_gives_back_what_it_held_at_the_cost_of_a_loss(store: Store, clock: ManualClock) -> None:
    id = submit_one(store)
    claim = claim_one(store)
    started = clock.now()

    clock.advance(SESSION_TTL + SECOND)
    swept = sweep_until_quiet(store)

    task = task_of(store, id)
    assert (swept.lost_sessions, swept.requeued) == (1, 1)
    assert (task.state, task.due) == (State.RUNNABLE, clock.now())
    assert (task.attempts, task.crashes, task.losses) == (0, 0, 1)
    [attempt] = store.attempts(id)
    assert (attempt.fence, attempt.session) == (claim.lease.fence, claim.lease.session)
    assert (attempt.started, attempt.ended, attempt.state) == (started, clock.now(), State.RUNNABLE)
    assert attempt.error is not None
    assert attempt.error.kind == "NodeLost"


def test_many_sweeps_at_once_take_a_task_from_its_lost_node_once(store: Store, clock: ManualClock) -> None:
    ids = submit(store, *(a_task() for _ in range(30)))
    claim_all(store)
    clock.advance(SESSION_TTL + SECOND)

    swept = at_once(4, lambda _: sweep_until_quiet(store))

    assert sum(one.requeued for one in swept) == 30
    assert [task_of(store, id).losses for id in ids] == [1] * 30
    assert all(len(store.attempts(id)) == 1 for id in ids)


def test_a_lost_session_can_neither_renew_nor_claim(store: Store, clock: ManualClock) -> None:
    submit(store, a_task())
    session = a_session(store)
    clock.advance(SESSION_TTL + SECOND)
    sweep_until_quiet(store)

    with pytest.raises(SessionLost) as refused:
        store.renew(session)
    with pytest.raises(SessionLost):
        store.claim(session, ["default"], limit=1)

    assert refused.value.session == session


def test_a_session_that_is_late_but_not_swept_may_go_on(store: Store, clock: ManualClock) -> None:
    id = submit_one(store)
    session = a_session(store)
    claim_one(store, session)

    clock.advance(2 * SESSION_TTL)
    store.renew(session)
    sweep_until_quiet(store)

    assert state_of(store, id) is State.LEASED


def test_a_late_report_before_the_sweep_is_accepted(store: Store, clock: ManualClock) -> None:
    id = submit_one(store)
    claim = claim_one(store)

    clock.advance(2 * SESSION_TTL)
    verdicts = complete(store, claim)
    sweep_until_quiet(store)

    assert verdicts == [Settled(claim.lease, State.COMPLETED)]
    assert (state_of(store, id), task_of(store, id).losses) == (State.COMPLETED, 0)


def test_a_node_that_lost_its_lease_cannot_settle(store: Store, clock: ManualClock) -> None:
    id = submit_one(store)
    stale = claim_one(store)

    clock.advance(SESSION_TTL + SECOND)
    sweep_until_quiet(store)
    assert complete(store, stale) == [LeaseLost(stale.lease)]
    assert state_of(store, id) is State.RUNNABLE

    claim_one(store, a_session(store, "node-2"))
    assert complete(store, stale) == [LeaseLost(stale.lease)]
    assert state_of(store, id) is State.LEASED


def test_other_sessions_are_not_touched_by_a_loss(store: Store, clock: ManualClock) -> None:
    lost, kept = submit(store, a_task(), a_task())
    first, second = a_session(store, "node-1"), a_session(store, "node-2")
    claim_one(store, first)
    claim_one(store, second)

    clock.advance(SESSION_TTL)
    store.renew(second)
    clock.advance(SECOND)
    sweep_until_quiet(store)

    assert states_of(store, [lost, kept]) == [State.RUNNABLE, State.LEASED]


def test_a_task_lost_with_too_many_nodes_has_failed(store: Store, clock: ManualClock) -> None:
    id = submit_one(store)

    for _ in range(MAX_LOSSES):
        claim_one(store)
        clock.advance(SESSION_TTL + SECOND)
        sweep_until_quiet(store)

    task = task_of(store, id)
    assert (task.state, task.losses, task.attempts) == (State.FAILED, MAX_LOSSES, 0)
    assert task.reason
    assert len(store.attempts(id)) == MAX_LOSSES


def test_a_lost_task_past_its_hard_limit_expires(store: Store, clock: ManualClock) -> None:
    id = submit_one(store, expires=SECOND)
    claim_one(store)

    clock.advance(SESSION_TTL + SECOND)
    sweep_until_quiet(store)

    assert state_of(store, id) is State.EXPIRED


def test_a_lost_task_that_was_to_be_cancelled_is_cancelled(store: Store, clock: ManualClock) -> None:
    id = submit_one(store)
    claim_one(store)
    store.cancel([id], reason="not wanted", grace=timedelta(hours=1))

    clock.advance(SESSION_TTL + SECOND)
    sweep_until_quiet(store)

    assert (state_of(store, id), task_of(store, id).reason) == (State.CANCELLED, "not wanted")


def test_closing_a_session_releases_what_it_holds_at_no_charge(store: Store, clock: ManualClock) -> None:
    ids = submit(store, a_task(), a_task())
    session = a_session(store)
    claims = claim_all(store, session)
    complete(store, claims[0])

    store.close_session(session)

    task = task_of(store, ids[1])
    assert states_of(store, ids) == [State.COMPLETED, State.RUNNABLE]
    assert (task.attempts, task.crashes, task.losses, store.attempts(task.id)) == (0, 0, 0, [])
    assert claimed_ids(claim_all(store)) == [ids[1]]


def test_a_closed_session_is_gone(store: Store) -> None:
    submit(store, a_task())
    session = a_session(store)
    claim = claim_one(store, session)
    store.close_session(session)

    with pytest.raises(SessionLost):
        store.renew(session)
    with pytest.raises(SessionLost):
        store.claim(session, ["default"], limit=1)
    assert complete(store, claim) == [LeaseLost(claim.lease)]


def test_closing_twice_or_closing_the_unknown_does_nothing(store: Store, clock: ManualClock) -> None:
    id = submit_one(store)
    session = a_session(store)
    claim_one(store, session)

    store.close_session(session)
    other = claim_one(store)
    store.close_session(session)
    store.close_session(SessionId(fresh_id(clock.now(), 1)))

    assert (state_of(store, id), task_of(store, id).session) == (State.LEASED, other.lease.session)


def test_closing_ends_what_was_to_be_cancelled_or_has_passed_its_hard_limit(store: Store, clock: ManualClock) -> None:
    cancelled, expired = submit(store, a_task(), a_task(expires=SECOND))
    session = a_session(store)
    claim_all(store, session)
    store.cancel([cancelled], reason="not wanted")
    clock.advance(2 * SECOND)

    store.close_session(session)

    assert states_of(store, [cancelled, expired]) == [State.CANCELLED, State.EXPIRED]


def test_renewing_an_unknown_session_says_that_it_is_lost(store: Store, clock: ManualClock) -> None:
    with pytest.raises(SessionLost):
        store.renew(SessionId(fresh_id(clock.now(), 1)))


def test_renewing_answers_with_the_leases_to_cancel_until_they_end(store: Store) -> None:
    ids = submit(store, a_task(), a_task(), a_task())
    mine, other = a_session(store), a_session(store, "node-2")
    first, second = store.claim(mine, ["default"], limit=2)
    store.claim(other, ["default"], limit=1)
    store.cancel([ids[0], ids[2]], reason="not wanted")

    assert store.renew(mine) == [first.lease]
    assert store.renew(mine) == [first.lease]

    complete(store, first)
    assert store.renew(mine) == []
    assert state_of(store, second.id) is State.LEASED


def test_a_crash_of_one_task_charges_none_of_its_neighbours(store: Store) -> None:
    ids = submit(store, a_task(), a_task())
    guilty, innocent = claim_all(store)

    report(store, guilty, Crashed(OOPS))

    assert [task_of(store, id).crashes for id in ids] == [1, 0]
    assert complete(store, innocent) == [Settled(innocent.lease, State.COMPLETED)]
