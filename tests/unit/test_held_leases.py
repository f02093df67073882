from __future__ import annotations

from tests.unit.values import a_stored_task, an_id
from windlass.core.task import Claim, Lease, SessionId
from windlass.worker.claimer import MAX_HELD_LEASES, HeldLeases, limit_claim
from windlass.worker.settler import MAX_BATCH

ONE, TWO = SessionId(an_id(91)), SessionId(an_id(92))


def a_claim(number: int, session: SessionId = ONE, fence: int = 1) -> Claim:
    task = a_stored_task(id=an_id(number))
    return Claim(Lease(task.id, fence, session), task)


def everything(_session: SessionId) -> bool:
    return True


def test_a_pool_claims_what_its_workers_have_room_for() -> None:
    assert limit_claim(room=52, slots=2, held=0) == 52
    assert limit_claim(room=0, slots=2, held=0) == 0


def test_a_pool_at_its_bound_claims_nothing_even_if_its_workers_are_idle() -> None:
    assert limit_claim(room=52, slots=2, held=MAX_HELD_LEASES + 2) == 0
    assert limit_claim(room=52, slots=2, held=MAX_HELD_LEASES + 100) == 0
    assert limit_claim(room=52, slots=2, held=MAX_HELD_LEASES) == 2


def test_the_bound_leaves_room_for_a_batch_being_written_and_the_next_one() -> None:
    assert limit_claim(room=1_000, slots=1, held=1 + MAX_BATCH) == 1_000


def test_a_lease_is_held_until_its_result_is_written() -> None:
    held = HeldLeases()
    claims = [a_claim(number) for number in range(3)]

    held.add(claims)
    assert held.count(everything) == 3
    held.remove([claims[0], a_claim(7)])
    assert held.count(everything) == 2
    held.remove(claims)
    assert held.count(everything) == 0


def test_a_task_that_was_claimed_again_is_held_again() -> None:
    held = HeldLeases()

    held.add([a_claim(1, fence=1)])
    held.add([a_claim(1, fence=2)])
    held.remove([a_claim(1, fence=1)])

    assert held.count(everything) == 1


def test_an_ended_session_holds_nothing() -> None:
    held = HeldLeases()
    held.add([a_claim(1, ONE), a_claim(2, TWO)])

    assert held.count(lambda session: session == TWO) == 1
    held.remove([a_claim(1, ONE), a_claim(2, TWO)])
    assert held.count(everything) == 0
