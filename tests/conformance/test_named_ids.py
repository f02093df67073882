from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from tests.support.builders import (
    SECOND,
    a_task,
    at_once,
    claim_all,
    claim_one,
    claimed_ids,
    complete,
    run_all,
    state_of,
    submit,
)
from windlass.clock import ManualClock, entropy
from windlass.core.ids import fresh_id, keyed_id
from windlass.core.lifecycle import State
from windlass.core.task import TaskId
from windlass.errors import DuplicateTask, InvalidTask, UnknownPrerequisite
from windlass.stores.protocol import Filter, Receipt, Store


def made_id() -> TaskId:
    return fresh_id(1_700_000_000_000_000, entropy(1)())


def test_a_task_keeps_the_id_that_its_caller_has_made(store: Store) -> None:
    id = made_id()

    receipts = store.submit([a_task(id=id)])

    assert receipts == [Receipt(id, True, State.RUNNABLE)]
    assert claim_one(store).id == id


def test_the_same_id_again_is_the_task_that_is_there_whatever_its_body(store: Store) -> None:
    id = made_id()
    store.submit([a_task(id=id)])
    complete(store, claim_one(store))

    again = store.submit([a_task(id=id, handler="other", args={"a": 1}), a_task(id=made_id())])

    assert [(receipt.created, receipt.state) for receipt in again] == [
        (False, State.COMPLETED),
        (True, State.RUNNABLE),
    ]
    assert [task.handler for task in store.find(Filter(states=frozenset([State.COMPLETED]))).tasks] == ["work"]


def test_many_submits_of_one_id_at_once_make_one_task(store: Store) -> None:
    id = made_id()

    receipts = at_once(4, lambda _: store.submit([a_task(id=id)])[0])

    assert {receipt.id for receipt in receipts} == {id}
    assert claimed_ids(claim_all(store)) == [id]


def test_tasks_of_a_batch_wait_for_ids_made_by_their_caller(store: Store, clock: ManualClock) -> None:
    first, second, third = (made_id() for _ in range(3))

    submit(
        store,
        a_task(id=third, prerequisites=[first, second]),
        a_task(id=second, prerequisites=[first]),
        a_task(id=first),
    )
    clock.advance(SECOND)

    assert run_all(store) == [first, second, third]


def test_a_later_batch_waits_for_an_id_made_by_its_caller(store: Store) -> None:
    first, second = made_id(), made_id()
    submit(store, a_task(id=first))

    submit(store, a_task(id=second, prerequisites=[first]))

    assert state_of(store, second) is State.WAITING


def test_an_id_that_nobody_submits_is_an_unknown_prerequisite(store: Store) -> None:
    with pytest.raises(UnknownPrerequisite):
        store.submit([a_task(prerequisites=[made_id()])])


@pytest.mark.parametrize(
    "id", [uuid4(), keyed_id("default", None, "a"), UUID(int=7 << 76), "0190a0b0-0000-7000-8000-000000000000", 7]
)
def test_any_other_id_is_refused(store: Store, id: object) -> None:
    with pytest.raises(InvalidTask, match="version 7"):
        store.submit([a_task(), a_task(id=id)])

    assert store.find(Filter()).tasks == []


def test_an_id_and_a_key_together_are_refused(store: Store) -> None:
    with pytest.raises(InvalidTask, match="both given"):
        store.submit([a_task(id=made_id(), key="a")])


def test_one_id_twice_in_a_batch_is_refused(store: Store) -> None:
    id = made_id()

    with pytest.raises(DuplicateTask):
        store.submit([a_task(id=id), a_task(id=id)])
