from __future__ import annotations

from tests.support.builders import a_task, submit
from tests.unit.test_virtual_time import SimulatedNode
from windlass.worker.claimer import MAX_HELD_LEASES, limit_claim
from windlass.worker.settler import MAX_BATCH


def a_node_with(tasks: int, **pool: object) -> SimulatedNode:
    """Return a node that has claimed and assigned this many tasks."""
    node = SimulatedNode(threads=tasks, **pool)
    node.start()
    submit(node.store, *(a_task() for _ in range(tasks)))
    node.claimer.step()
    return node


def test_a_pool_claims_what_its_workers_have_room_for() -> None:
    assert limit_claim(room=52, slots=2, held=0) == 52
    assert limit_claim(room=0, slots=2, held=0) == 0


def test_a_pool_at_its_bound_claims_nothing_even_if_its_workers_are_idle() -> None:
    assert limit_claim(room=52, slots=2, held=MAX_HELD_LEASES + 2) == 0
    assert limit_claim(room=52, slots=2, held=MAX_HELD_LEASES + 100) == 0
    assert limit_claim(room=52, slots=2, held=MAX_HELD_LEASES) == 2


def test_the_bound_leaves_room_for_a_batch_being_written_and_the_next_one() -> None:
    assert limit_claim(room=1_000, slots=1, held=1 + MAX_BATCH) == 1_000


def test_a_claim_is_no_larger_than_what_is_written_at_once() -> None:
    assert limit_claim(room=3 * MAX_BATCH, slots=1, held=0) == MAX_BATCH


def test_a_lease_is_held_until_its_result_is_written() -> None:
    node = a_node_with(3)
    assert node.claimer.count_held() == 3

    node.finish_running()
    assert node.claimer.count_held() == 3
    node.store.available = False
    node.settler.step()
    assert node.claimer.count_held() == 3
    node.store.available = True
    node.settler.step()

    assert node.claimer.count_held() == 0


def test_a_task_that_was_claimed_again_is_held_again() -> None:
    node = a_node_with(1)
    node.dispatcher.process_exited(next(iter(node.dispatcher.workers.values())), 1, node.now)
    assert node.claimer.count_held() == 1, "its crash is not written yet"
    node.settler.step()
    assert node.claimer.count_held() == 0
    node.tick()

    node.claimer.step()

    assert node.claimer.count_held() == 1


def test_a_lost_session_holds_nothing() -> None:
    node = a_node_with(2)

    assert node.keeper.current is not None
    node.keeper.mark_lost(node.keeper.current, "by this test")

    assert node.claimer.count_held() == 0


def test_the_results_of_other_pools_do_not_count() -> None:
    node = a_node_with(2)
    node.finish_running()

    assert node.settler.count_open("default") == 2
    assert node.settler.count_open("other") == 0
