from __future__ import annotations

import pytest

from tests.support.builders import (
    HOUR,
    MINUTE,
    NO_RETRY,
    RAISED,
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
from windlass.core.ordering import Queue
from windlass.core.settlement import COMPLETED, Crashed, Released, Settlement
from windlass.core.task import Change, Lease, SessionId, claim_of
from windlass.errors import SessionLost
from windlass.stores.protocol import LeaseLost, Store


def test_a_claimed_task_is_leased_to_the_session(store: Store, clock: ManualClock) -> None:
    id = submit_one(store, args={"n": 1}, retry=NO_RETRY)
    session = a_session(store)
    clock.advance(SECOND)

    [claim] = store.claim(session, ["default"], limit=1)

    task = task_of(store, id)
    assert claim == claim_of(task, claim.lease)
    assert claim.lease == Lease(id, task.fence, session)
    assert (task.state, task.session, task.claimed) == (State.LEASED, session, clock.now())
    assert task.fence > 0
    assert (task.attempts, task.rules.retry, task.args) == (0, NO_RETRY, '{"n":1}')


@pytest.mark.parametrize("limit", [0, 1, 3, 5, 9])
def test_a_claim_takes_no_more_than_its_limit(store: Store, limit: int) -> None:
    ids = submit(store, *(a_task() for _ in range(5)))

    claims = store.claim(a_session(store), ["default"], limit)

    assert claimed_ids(claims) == ids[:limit]


def test_a_claimed_task_is_not_claimed_again(store: Store) -> None:
    first, second = submit(store, a_task(), a_task())
    session = a_session(store)

    assert claimed_ids(store.claim(session, ["default"], limit=1)) == [first]
    assert claimed_ids(store.claim(session, ["default"], limit=9)) == [second]
    assert claim_all(store) == []


def test_queues_are_served_in_the_order_in_which_they_are_named(store: Store) -> None:
    mail, default, unnamed = submit(store, a_task(queue="mail"), a_task(priority=9), a_task(queue="other"))

    claims = store.claim(a_session(store), ["mail", "empty", "default"], limit=9)

    assert claimed_ids(claims) == [mail, default]
    assert state_of(store, unnamed) is State.RUNNABLE


def test_the_limit_counts_over_all_queues(store: Store) -> None:
    mail, default, _ = submit(store, a_task(queue="mail"), a_task(), a_task())

    assert claimed_ids(store.claim(a_session(store), ["mail", "default"], limit=2)) == [mail, default]


def test_a_claim_from_no_queue_takes_nothing(store: Store) -> None:
    submit(store, a_task())

    assert store.claim(a_session(store), [], limit=9) == []


def test_a_paused_queue_is_left_alone_until_it_goes_on(store: Store) -> None:
    mail, default = submit(store, a_task(queue="mail"), a_task())
    store.configure(Queue(name="mail", paused=True, paused_by="me", paused_why="smtp is down"))
    session = a_session(store)

    assert claimed_ids(store.claim(session, ["mail", "default"], limit=9)) == [default]

    store.configure(Queue(name="mail"))
    assert claimed_ids(store.claim(session, ["mail", "default"], limit=9)) == [mail]


def test_what_a_paused_queue_has_handed_out_may_still_be_settled(store: Store) -> None:
    id = submit_one(store, queue="mail")
    claim = claim_one(store, queue="mail")

    store.configure(Queue(name="mail", paused=True))
    complete(store, claim)

    assert state_of(store, id) is State.COMPLETED


def test_a_task_past_its_hard_limit_is_left_alone(store: Store, clock: ManualClock) -> None:
    gone, fine = submit(store, a_task(priority=9, expires=SECOND), a_task(expires=MINUTE))

    clock.advance(SECOND)  # exactly at the limit, and nobody has swept

    assert claimed_ids(claim_all(store)) == [fine]
    assert state_of(store, gone) is State.RUNNABLE


def test_a_task_left_alone_past_its_limit_is_taken_once_the_limit_is_moved(store: Store, clock: ManualClock) -> None:
    id = submit_one(store, expires=SECOND)
    clock.advance(MINUTE)
    assert claim_all(store) == []

    store.update(id, Change(expires=HOUR))

    assert claimed_ids(claim_all(store)) == [id]


def test_only_runnable_tasks_are_claimed(store: Store, clock: ManualClock) -> None:
    submit(store, a_task(key="retrying"))
    report(store, claim_one(store), RAISED)
    submit(store, a_task(key="failed", retry=NO_RETRY))
    report(store, claim_one(store), RAISED)
    submit(store, a_task(key="completed"))
    complete(store, claim_one(store))
    submit(
        store,
        a_task(key="waiting", prerequisites=["retrying"]),
        a_task(key="scheduled", delay=HOUR),
        a_task(key="expired", expires=-SECOND),
    )

    assert claim_all(store) == []


def test_each_grant_of_a_task_has_a_greater_fence_than_all_before(store: Store, clock: ManualClock) -> None:
    submit(store, a_task())
    fences: list[int] = []

    for outcome in (RAISED, Crashed(RAISED.error), Released(), Released(delay=1_000), None):
        claim = claim_one(store)
        fences.append(claim.lease.fence)
        if outcome is not None:
            report(store, claim, outcome)
        clock.advance(HOUR)  # the last one is lost with its node
        sweep_until_quiet(store)
    fences.append(claim_one(store).lease.fence)

    assert fences == sorted(set(fences))


def test_a_raised_epoch_makes_every_later_fence_greater_than_any_before(store: Store) -> None:
    submit(store, *(a_task() for _ in range(3)))
    session = a_session(store)
    before = [store.claim(session, ["default"], limit=1)[0].lease.fence for _ in range(2)]

    first = store.raise_epoch()
    after = claim_one(store, session)
    second = store.raise_epoch()
    report(store, after, Released())
    again = claim_one(store, session)

    assert second == first + 1
    assert after.lease.fence >> 40 == first
    assert again.lease.fence >> 40 == second
    assert max(before) < after.lease.fence < again.lease.fence


def test_a_lease_of_the_old_epoch_still_settles(store: Store) -> None:
    id = submit_one(store)
    claim = claim_one(store)

    store.raise_epoch()
    complete(store, claim)

    assert state_of(store, id) is State.COMPLETED


def test_an_unknown_session_claims_nothing(store: Store, clock: ManualClock) -> None:
    id = submit_one(store)

    with pytest.raises(SessionLost):
        store.claim(SessionId(fresh_id(clock.now(), 7)), ["default"], limit=1)

    assert state_of(store, id) is State.RUNNABLE


def test_many_claimers_at_once_never_share_a_task(store: Store) -> None:
    ids = submit(store, *(a_task() for _ in range(200)))

    def claim_until_empty(thread: int) -> list[Lease]:
        session = a_session(store, f"node-{thread}")
        leases: list[Lease] = []
        while claims := store.claim(session, ["default"], limit=7):
            leases += [claim.lease for claim in claims]
        return leases

    leases = [lease for leases in at_once(4, claim_until_empty) for lease in leases]

    assert sorted(lease.task for lease in leases) == sorted(ids)
    assert set(states_of(store, ids)) == {State.LEASED}


def test_a_key_that_was_purged_and_comes_again_goes_on_above_its_old_fences(store: Store, clock: ManualClock) -> None:
    session = a_session(store)
    id = submit_one(store, key="k")
    [old] = store.claim(session, ["default"], limit=1)
    store.settle([(old.lease, Settlement(state=State.FAILED, attempts=1))])
    store.purge([id])
    clock.advance(SECOND)

    submit_one(store, key="k")
    [new] = store.claim(session, ["default"], limit=1)

    assert new.lease.fence > old.lease.fence
    assert store.settle([(old.lease, COMPLETED)]) == [LeaseLost(old.lease)]
